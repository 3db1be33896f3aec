//! Compression: what is packed and when, and that nobody can tell by what an object says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pilothouse_client::ApiResource;
use pilothouse_object::{Dictionary, Gvk, Object};
use serde_json::{Value, json};

use crate::testing::{FakeControllerSource, config_maps, object};
use crate::{
    Change, Compression, Delta, FactoryOptions, IndexFn, Indexer, InformerOptions, SharedInformer,
    SharedInformerFactory,
};

/// An object that resembles its siblings as real ones do; `seed` makes the rest.
fn like(kind: &Gvk, key: &str, version: u32, seed: u32) -> Object {
    let numbers: Vec<u32> = (0..8).map(|n| seed.wrapping_mul(2_654_435_761).rotate_left(n * 3)).collect();
    let body = json!({
        "metadata": {
            "labels": {"app.kubernetes.io/name": "shop", "app.kubernetes.io/part-of": "store", "n": format!("{seed}")},
            "annotations": {"example.com/checksum": format!("{numbers:x?}")},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": format!("owner-{}", seed % 7)}],
        },
        "data": {
            "application.properties": "server.port=8080\nserver.address=0.0.0.0\nlogging.level=info\nmetrics.enabled=true\n".repeat(6),
            "colour": format!("c{}", seed % 5),
            "numbers": format!("{numbers:?}"),
        },
    });
    object(kind, key, &format!("uid-{key}"), &version.to_string(), body)
}

fn config(n: u32, version: u32) -> Object {
    like(&config_maps().gvk, &format!("ns-{}/x{n}", n % 3), version, n + version * 7919)
}

fn indexer() -> Indexer {
    let indexer = Indexer::with_compression(true, Compression::Auto);
    indexer.add_indexer("colour", IndexFn::path("/data/colour".parse().unwrap())).unwrap();
    indexer
}

/// Lists objects as a reflector does.
fn list(indexer: &Indexer, objects: impl IntoIterator<Item = Object>) {
    let items = objects.into_iter().map(|object| indexer.canonical(object)).collect();
    indexer.replace(items, Some("1"), false);
}

fn packed(indexer: &Indexer) -> usize {
    indexer.snapshot().objects().filter(|held| held.is_packed()).count()
}

/// All that an object says of itself.
fn said(object: &Object) -> Value {
    json!([
        object.json(),
        object.key().as_str(),
        object.uid(),
        object.resource_version(),
        object.generation(),
        object.deletion_timestamp(),
        object.labels(),
        object.annotations(),
        object.annotation("example.com/checksum"),
        object.label("n"),
        object.gvk().to_string(),
        object.owner_references().iter().map(|owner| owner.uid.to_string()).collect::<Vec<_>>(),
        object.get("/data/colour"),
        object.is_partial(),
    ])
}

#[test]
fn a_listed_object_is_packed_and_says_what_it_said() {
    let indexer = indexer();
    let objects: Vec<Object> = (0..400).map(|n| config(n, 1)).collect();
    list(&indexer, objects.clone());
    assert_eq!(packed(&indexer), 400);
    for object in &objects {
        let held = indexer.get(object.key()).unwrap();
        assert!(held.is_packed());
        assert_eq!(said(&held), said(object));
        assert!(held.retained_bytes() * 2 < object.retained_bytes());
    }
    assert_eq!(
        indexer.by_index("colour", "c1").unwrap().len(),
        objects.iter().filter(|o| o.get("/data/colour") == Some("\"c1\"")).count()
    );
    indexer.check();
}

#[test]
fn a_list_is_indexed_before_it_is_packed() {
    let indexer = Indexer::with_compression(true, Compression::Auto);
    let unpacked = Arc::new(AtomicUsize::new(0));
    let count = unpacked.clone();
    let colour = move |object: &Object, found: &mut dyn FnMut(&str)| {
        count.fetch_add(usize::from(object.is_packed()), Ordering::Relaxed);
        found(&object.get_string("/data/colour").unwrap());
    };
    indexer.add_indexer("colour", IndexFn::closure(colour)).unwrap();
    list(&indexer, (0..400).map(|n| config(n, 1)));
    assert_eq!((packed(&indexer), unpacked.load(Ordering::Relaxed)), (400, 0));
    assert_eq!(indexer.index_values("colour").unwrap().len(), 5);
    indexer.check();
}

#[test]
fn indexes_that_change_while_a_list_comes_are_computed_anew() {
    let indexer = indexer();
    let items: Vec<Object> = (0..400).map(|n| indexer.canonical(config(n, 1))).collect();
    indexer.add_indexer("n", IndexFn::label("n")).unwrap();
    assert!(indexer.remove_indexer("colour"));
    indexer.replace(items, Some("1"), false);
    assert_eq!(indexer.index_values("n").unwrap().len(), 400);
    assert_eq!(indexer.by_index("n", "7926").unwrap()[0].key(), config(7, 1).key());
    indexer.check();
}

#[test]
fn packed_and_plain_objects_compare_by_their_maps() {
    let indexer = indexer();
    list(&indexer, (0..200).map(|n| config(n, 1)));
    let held = indexer.get_by_key("ns-0/x0").unwrap();
    assert!(
        held.same_annotations(&config(0, 1))
            && config(0, 1).same_annotations(&held)
            && held.same_labels(&config(0, 1))
    );
    assert!(!held.same_annotations(&config(1, 1)) && !config(1, 1).same_annotations(&held));
}

#[test]
fn what_changes_is_plain_while_it_is_hot_and_packed_when_others_came_after_it() {
    let indexer = indexer();
    list(&indexer, (0..200).map(|n| config(n, 1)));
    for n in 0..100 {
        let changes = indexer.apply([Delta::Updated(config(n, 2))], None);
        let [Change::Updated { old, new }] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!((said(old), said(new)), (said(&config(n, 1)), said(&config(n, 2))));
        assert!(!indexer.get(new.key()).unwrap().is_packed());
    }
    // One of 64, at least 16, and those that wait until there are 32 more to pack.
    assert_eq!(packed(&indexer), 200 - 16 - (100 - 16) % 32);
    for n in 0..200 {
        let wanted = config(n, if n < 100 { 2 } else { 1 });
        assert_eq!(said(&indexer.get(wanted.key()).unwrap()), said(&wanted));
    }
    indexer.check();
}

#[test]
fn a_few_objects_are_not_packed_and_many_that_come_by_a_watch_are_after_maintenance() {
    let indexer = indexer();
    list(&indexer, (0..10).map(|n| config(n, 1)));
    assert_eq!((packed(&indexer), indexer.wants_maintenance()), (0, false));
    for n in 10..200 {
        indexer.apply([Delta::Added(config(n, 1))], None);
    }
    assert!(indexer.wants_maintenance());
    indexer.maintain();
    assert_eq!((packed(&indexer), indexer.wants_maintenance()), (200, false));
    for n in 0..200 {
        assert_eq!(said(&indexer.get(config(n, 1).key()).unwrap()), said(&config(n, 1)));
    }
}

#[test]
fn secrets_are_never_packed_and_train_nothing() {
    let indexer = Indexer::with_compression(true, Compression::Auto);
    let secret = |n: u32| like(&Gvk::new("", "v1", "Secret"), &format!("a/x{n}"), 1, n);
    list(&indexer, (0..300).map(secret));
    for n in 300..600 {
        indexer.apply([Delta::Added(secret(n))], None);
    }
    indexer.maintain();
    assert_eq!(packed(&indexer), 0);
}

#[test]
fn nothing_is_packed_where_it_does_not_pay() {
    let indexer = Indexer::with_compression(true, Compression::Auto);
    let random = |n: u32| {
        let mut state = u64::from(n) + 1;
        let text: String = (0..600)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                char::from(33 + u8::try_from((state >> 33) % 90).unwrap())
            })
            .collect();
        object(&config_maps().gvk, &format!("a/x{n}"), "u", "1", json!({"data": {"a": text}}))
    };
    // Each list asks for another training, which judges again.
    for _ in 0..2 {
        list(&indexer, (0..2000).map(random));
        assert!(indexer.wants_maintenance());
        indexer.maintain();
    }
    for n in 2000..2200 {
        indexer.apply([Delta::Added(random(n))], None);
    }
    assert!(!indexer.wants_maintenance());
    let newest =
        indexer.snapshot().objects().filter(|held| held.name_number() >= 1000 && held.is_packed()).count();
    assert_eq!(newest, 0);
}

/// Text that no dictionary makes smaller.
fn noise(n: u32, length: usize) -> String {
    let mut state = u64::from(n) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(33 + u8::try_from((state >> 33) % 90).unwrap())
    };
    (0..length).map(|_| next()).filter(|c| *c != '\\' && *c != '"').collect()
}

fn noisy(n: u32, version: u32, length: usize) -> Object {
    let body = json!({"data": {"a": noise(n * 100 + version, length), "colour": "c1"}});
    object(&config_maps().gvk, &format!("zz/y{n:05}"), &format!("u{n}"), &version.to_string(), body)
}

#[test]
fn retraining_comes_to_rest_where_objects_of_one_kind_are_unlike() {
    let indexer = indexer();
    // In the order of their names: alike ones first, then some that come out far larger.
    let mixed = |n: u32| if n < 1500 { config(n, 1) } else { noisy(n, 1, 120) };
    list(&indexer, (0..3000).map(mixed));
    let mut trainings = 0;
    for round in 2..12 {
        if indexer.wants_maintenance() {
            indexer.maintain();
            trainings += 1;
            assert!(!indexer.wants_maintenance(), "the packing of the store asked for another one");
        }
        // Changes of the larger ones alone.
        for n in 1500..2500 {
            indexer.apply([Delta::Updated(noisy(n, round, 120))], None);
        }
    }
    assert!(trainings <= 2, "{trainings}");
    assert!(packed(&indexer) > 1000);
    indexer.check();
}

#[test]
fn packing_comes_back_after_a_first_page_that_did_not_resemble_the_rest() {
    let indexer = indexer();
    let odd_first = |n: u32| if n < 700 { noisy(n, 1, 600) } else { config(n, 1) };
    list(&indexer, (0..6000).map(odd_first));
    assert!(packed(&indexer) < 700 && indexer.wants_maintenance());
    indexer.maintain();
    assert!(packed(&indexer) > 5000, "{}", packed(&indexer));
    for n in 0..6000 {
        let wanted = odd_first(n);
        assert_eq!(said(&indexer.get(wanted.key()).unwrap()), said(&wanted));
    }
}

#[test]
fn an_object_of_the_same_version_with_other_content_is_another_one() {
    for compression in [Compression::Off, Compression::Auto] {
        let indexer = Indexer::with_compression(true, compression);
        list(&indexer, (0..400).map(|n| config(n, 1)));
        let restored = |n: u32| {
            let text = config(n, 1).json().replace("8080", if n == 300 { "9090" } else { "8080" });
            Object::decode(text.as_bytes()).unwrap()
        };
        let items: Vec<_> = (0..400).map(|n| indexer.canonical(restored(n))).collect();
        let changes = indexer.replace(items, Some("1"), false);
        let [Change::Updated { old, new }] = &changes[..] else { panic!("{} changes", changes.len()) };
        assert!(old.json().contains("8080") && new.json().contains("9090") && !old.is_same(new));
        assert!(indexer.get(new.key()).unwrap().json().contains("9090"));
    }
}

trait NameNumber {
    fn name_number(&self) -> u32;
}

impl NameNumber for pilothouse_object::Held {
    fn name_number(&self) -> u32 {
        self.key().name()[1..].parse().unwrap()
    }
}

#[test]
fn the_dictionary_is_trained_anew_when_objects_no_longer_resemble_it() {
    let indexer = indexer();
    list(&indexer, (0..1000).map(|n| config(n, 1)));
    // Words that the first objects do not have, each rare in an object and common in the kind.
    let word = |n: u32| {
        (0..10)
            .map(|part| format!("{:08x}", (n * 31 + part + 1).wrapping_mul(2_654_435_761)))
            .collect::<String>()
    };
    let other = |n: u32| {
        let words: Vec<String> = (0..20).map(|place| word((n * 7 + place * 3) % 40)).collect();
        let body = json!({"data": {"words": words, "colour": "c9", "n": n}});
        object(&config_maps().gvk, &format!("b/y{n}"), &format!("u{n}"), "1", body)
    };
    let size = || {
        indexer
            .snapshot()
            .objects()
            .filter(|held| held.key().namespace() == Some("b") && held.is_packed())
            .map(pilothouse_object::Held::retained_bytes)
            .sum::<usize>()
    };
    let mut n = 0;
    while !indexer.wants_maintenance() && n < 10_000 {
        indexer.apply([Delta::Added(other(n))], None);
        n += 1;
    }
    assert!(indexer.wants_maintenance(), "after {n} objects");
    let before = size();
    indexer.maintain();
    assert!(size() * 4 < before * 3, "{before} -> {}", size());
    assert_eq!(said(&indexer.get_by_key("b/y7").unwrap()), said(&other(7)));
    assert_eq!(said(&indexer.get_by_key("ns-1/x1").unwrap()), said(&config(1, 1)));
    indexer.check();
}

#[test]
fn a_relist_keeps_the_copies_of_what_did_not_change() {
    let indexer = indexer();
    list(&indexer, (0..300).map(|n| config(n, 1)));
    let before = indexer.snapshot();
    list(&indexer, (0..300).map(|n| config(n, if n == 5 { 2 } else { 1 })));
    for held in indexer.snapshot().objects() {
        let same = before.get(held.key().as_str()).unwrap().is_same(held);
        assert_eq!(same, held.key().name() != "x5", "{}", held.key());
    }
}

#[test]
fn reads_of_one_object_share_its_unpacked_text_from_the_second_on_and_lists_do_not() {
    let indexer = indexer();
    list(&indexer, (0..200).map(|n| config(n, 1)));
    let _once = indexer.get_by_key("ns-0/x0").unwrap();
    let (first, second) = (indexer.get_by_key("ns-0/x0").unwrap(), indexer.get_by_key("ns-0/x0").unwrap());
    assert!(std::ptr::eq(first.json(), second.json()));
    let listed = indexer.list_namespace("ns-0").into_iter().find(|object| object.name() == "x0").unwrap();
    assert!(!std::ptr::eq(first.json(), listed.json()));
    assert_eq!(first.json(), listed.json());
}

#[test]
fn a_dictionary_is_of_one_kind() {
    let samples: Vec<Object> = (0..200).map(|n| config(n, 1)).collect();
    let dictionary = Dictionary::train(&samples).unwrap();
    assert!(config(300, 1).packed(&dictionary).is_packed());
    let other = like(&Gvk::new("", "v1", "Pod"), "a/x", 1, 1);
    assert!(!other.packed(&dictionary).is_packed());
    assert!(Dictionary::train(&samples[..2]).is_none() && Dictionary::train(&[]).is_none());
}

/// An informer that compresses.
fn compressing(server: &FakeControllerSource, resource: ApiResource) -> super::Running {
    let options = InformerOptions { compression: Compression::Auto, ..InformerOptions::default() };
    super::Running::of(SharedInformer::new(server.source(), resource, None, options))
}

/// Through a whole informer: what a list brings is packed, what a watch brings is plain while it is hot.
#[tokio::test(start_paused = true)]
async fn an_informer_packs_its_list_and_keeps_what_just_changed_plain() {
    let server = super::server();
    let body = |n: u32| -> Value { serde_json::from_str(config(n, 1).json()).unwrap() };
    for n in 0..200 {
        server.create(&format!("a/x{n}"), body(n));
    }
    let running = compressing(&server, config_maps());
    super::soon(running.informer.wait_synced()).await;
    let indexer = running.informer.indexer().clone();
    assert_eq!(packed(&indexer), 200);
    for n in 0..5 {
        server.update(&format!("a/x{n}"), body(n + 500));
    }
    running.caught_up(&server).await;
    assert_eq!(packed(&indexer), 195);
    assert_eq!(indexer.get_by_key("a/x3").unwrap().get("/data/numbers"), config(503, 1).get("/data/numbers"));
    // Announcing everything again changes nothing of that.
    let calm = indexer.keys().into_iter().map(Delta::Sync);
    assert_eq!(indexer.apply(calm, None).len(), 200);
    assert_eq!(packed(&indexer), 195);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_informer_of_secrets_packs_nothing_in_whatever_form_they_come() {
    let server = super::server();
    for n in 0..300 {
        server.create(&format!("a/x{n}"), serde_json::from_str(config(n, 1).json()).unwrap());
    }
    let mut resource = config_maps();
    "secrets".clone_into(&mut resource.plural);
    let running = compressing(&server, resource);
    super::soon(running.informer.wait_synced()).await;
    assert_eq!((packed(running.informer.indexer()), running.informer.indexer().len()), (0, 300));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn packed_objects_reach_the_followers_of_their_namespace_alone() {
    let server = super::server();
    for n in 0..300 {
        server.create(config(n, 1).key().as_str(), serde_json::from_str(config(n, 1).json()).unwrap());
    }
    let mut options = FactoryOptions::default();
    options.informer.compression = Compression::Auto;
    let source = server.clone();
    let factory =
        SharedInformerFactory::new(Arc::new(move |_, namespace| source.source_in(namespace)), options);
    let wide = factory.informer(&config_maps(), None);
    assert!(super::soon(wide.wait_synced()).await);
    let [same, other] = ["ns-0", "ns-1"].map(|namespace| factory.informer(&config_maps(), Some(namespace)));
    assert!(super::soon(same.wait_synced()).await && super::soon(other.wait_synced()).await);
    let before = other.indexer().snapshot();
    for n in 0..100 {
        let changed = config(n * 3, 2);
        server.update(changed.key().as_str(), serde_json::from_str(changed.json()).unwrap());
        super::soon(wide.indexer().wait_until_seen(&server.version())).await;
    }
    // The objects that are no longer hot, in both stores.
    let cooled = packed(same.indexer());
    assert!((60..100).contains(&cooled), "{cooled}");
    for held in same.indexer().snapshot().objects() {
        assert!(wide.indexer().snapshot().get(held.key().as_str()).unwrap().is_same(held));
    }
    assert!(other.indexer().snapshot().is_same(&before), "the store of another namespace was changed");
    factory.shutdown().await;
}
