//! What a store holds on the heap, measured with an allocator that counts.

use pilothouse_cache::{Compression, Delta, IndexFn, Indexer};
use pilothouse_object::Object;
use pilothouse_testkit::heap::{CountingAllocator, measure};
use serde_json::json;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn object(n: usize, text: &str) -> Object {
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"text": text, "number": n},
        "metadata": {"name": format!("x{n}"), "namespace": format!("ns-{}", n % 50), "uid": format!("u{n}"),
            "resourceVersion": format!("{}", n + 1), "labels": {"app": format!("app-{}", n % 100), "own": format!("{n}")}},
    });
    Object::decode(body.to_string().as_bytes()).unwrap()
}

/// The bytes of a store that is filled, without the objects, which are elsewhere.
fn tables(fill: impl FnOnce(&Indexer)) -> usize {
    let make = || {
        let indexer = Indexer::new(true);
        indexer.add_indexer("app", IndexFn::label("app")).unwrap();
        indexer.add_indexer("own", IndexFn::label("own")).unwrap();
        fill(&indexer);
        indexer
    };
    measure(make).1
}

#[test]
fn after_most_objects_were_deleted_the_tables_are_about_as_small_as_new_ones() {
    let objects: Vec<Object> = (0..50_000).map(|n| object(n, "")).collect();
    let (kept, deleted): (Vec<_>, Vec<_>) =
        objects.iter().cloned().enumerate().partition(|(n, _)| n % 20 == 0);
    let of =
        |objects: &[(usize, Object)]| objects.iter().map(|(_, object)| object.clone()).collect::<Vec<_>>();
    let full = tables(|indexer| drop(indexer.replace(objects.clone(), Some("1"), false)));
    let fresh = tables(|indexer| drop(indexer.replace(of(&kept), Some("1"), false)));
    let by_events = tables(|indexer| {
        indexer.replace(objects.clone(), Some("1"), false);
        for deleted in deleted.chunks(1000) {
            indexer.apply(deleted.iter().map(|(_, object)| Delta::Deleted(object.clone())), None);
        }
        assert_eq!(indexer.len(), kept.len());
    });
    let by_a_list = tables(|indexer| {
        indexer.replace(objects.clone(), Some("1"), false);
        indexer.replace(of(&kept), Some("2"), false);
    });
    for (way, bytes) in [("events", by_events), ("a list", by_a_list)] {
        assert!(
            bytes * 2 <= fresh * 3,
            "after deletions by {way}: {bytes} bytes of {full}, new ones: {fresh}"
        );
    }
    assert!(full > 10 * fresh, "the measure shows nothing: {full}, {fresh}");
}

#[test]
fn an_update_copies_no_index_value_that_stays() {
    let make = |text: &str, other: usize| {
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"other": other, "text": text},
        });
        Object::decode(body.to_string().as_bytes()).unwrap()
    };
    let indexer = Indexer::new(false);
    indexer.add_indexer("text", IndexFn::path("/data/text".parse().unwrap())).unwrap();
    let [one, two] = ["x", "y"].map(|letter| letter.repeat(100_000));
    indexer.add(make(&one, 0));
    let peak = |object: Object| measure(|| indexer.add(object)).2;
    let (same, changed) = (peak(make(&one, 1)), peak(make(&two, 1)));
    assert!(same * 2 < one.len() && changed >= two.len(), "{same} and {changed} bytes");
}

#[test]
fn packing_a_store_anew_does_not_hold_its_objects_twice() {
    let indexer = Indexer::with_compression(true, Compression::Auto);
    let text = |n: usize| format!("{} {n:x}", "server.port=8080 logging.level=info ".repeat(4));
    // Words that the first objects do not have: each is rare in an object and common in the kind.
    let word = |n: usize| {
        (0..10)
            .map(|part| format!("{:08x}", (n as u32 * 31 + part + 1).wrapping_mul(2_654_435_761)))
            .collect::<String>()
    };
    let words = |n: usize| (0..20).map(|place| word((n * 7 + place * 3) % 40)).collect::<Vec<_>>().join(" ");
    let fill = || {
        let list = |range: std::ops::Range<usize>, text: &dyn Fn(usize) -> String| {
            let items = range.map(|n| indexer.canonical(object(n, &text(n)))).collect();
            indexer.replace(items, Some("1"), false);
        };
        list(0..1000, &text);
        list(0..20_000, &|n| words(n));
    };
    let ((), held, _) = measure(fill);
    assert!(indexer.wants_maintenance(), "nothing to pack anew");
    let packed = || indexer.snapshot().objects().map(pilothouse_object::Held::retained_bytes).sum::<usize>();
    let before = packed();
    let ((), _, peak) = measure(|| indexer.maintain());
    assert!(packed() * 2 < before, "the objects were not packed anew: {before} bytes, then {}", packed());
    assert!(peak * 8 < held, "packing anew took {peak} bytes more than the {held} of the store");
    assert!(!indexer.wants_maintenance());
}
