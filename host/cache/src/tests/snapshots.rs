//! Snapshots: one state of the store, whatever is written meanwhile.

use pilothouse_object::{Object, ObjectKey};
use proptest::prelude::*;
use serde_json::json;

use crate::testing::{config_map, config_maps, object};
use crate::{Delta, IndexFn, Indexer, NAMESPACE_INDEX, Snapshot};

fn coloured(key: &str, version: u32, colour: u8) -> Object {
    object(
        &config_maps().gvk,
        key,
        &format!("uid-of-{key}"),
        &version.to_string(),
        json!({"data": {"colour": format!("c{colour}")}}),
    )
}

fn indexer() -> Indexer {
    let indexer = Indexer::new(true);
    indexer.add_indexer("colour", IndexFn::path("/data/colour".parse().unwrap())).unwrap();
    indexer
}

/// Everything a snapshot shows, in a form that can be compared.
fn shown(snapshot: &Snapshot) -> Vec<(String, Vec<String>)> {
    let sorted = |keys: Vec<String>| {
        let mut keys = keys;
        keys.sort();
        keys
    };
    let mut all = vec![(
        "all".to_owned(),
        sorted(
            snapshot.objects().map(|held| format!("{}@{}", held.key(), held.resource_version())).collect(),
        ),
    )];
    for index in [NAMESPACE_INDEX, "colour"] {
        let mut values: Vec<String> =
            snapshot.index_values(index).unwrap().map(ToString::to_string).collect();
        values.sort();
        for value in values {
            let keys = snapshot.by_index(index, &value).unwrap().map(|held| held.key().to_string()).collect();
            all.push((format!("{index}={value}"), sorted(keys)));
        }
    }
    all
}

#[test]
fn a_cursor_hands_out_the_state_it_was_made_from() {
    let indexer = indexer();
    for n in 0..50_u32 {
        indexer.add(coloured(&format!("a/x{n}"), n + 1, 0));
    }
    let mut cursor = indexer.snapshot().cursor();
    let first: Vec<Object> = cursor.by_ref().take(10).collect();
    for n in 0..50_u32 {
        indexer.delete(&format!("a/x{n}").parse::<ObjectKey>().unwrap());
        indexer.add(coloured(&format!("b/y{n}"), n + 100, 1));
    }
    assert_eq!(cursor.at_most(), 40);
    let mut all: Vec<String> =
        first.into_iter().chain(cursor).map(|object| object.key().to_string()).collect();
    all.sort();
    let mut wanted: Vec<String> = (0..50).map(|n| format!("a/x{n}")).collect();
    wanted.sort();
    assert_eq!(all, wanted);
}

#[test]
fn cursors_are_over_all_a_namespace_or_an_index_value_and_may_select_by_labels() {
    let indexer = indexer();
    for n in 0..30_u8 {
        let labels = json!({"metadata": {"labels": {"odd": (n % 2).to_string()}}, "data": {"colour": format!("c{}", n % 3)}});
        indexer.add(object(&config_maps().gvk, &format!("n{}/x{n}", n % 5), "u", "1", labels));
    }
    let snapshot = indexer.snapshot();
    let odd = || "odd=1".parse().unwrap();
    assert_eq!(snapshot.cursor().count(), 30);
    assert_eq!(snapshot.cursor().select(odd()).count(), 15);
    assert_eq!(snapshot.cursor_of_namespace("n1").count(), 6);
    assert_eq!(snapshot.cursor_of_namespace("no").count(), 0);
    assert_eq!(snapshot.cursor_of_index("colour", "c1").unwrap().select(odd()).count(), 5);
    assert_eq!(snapshot.cursor_of_index("colour", "c1").unwrap().keys().count(), 10);
    assert!(snapshot.cursor_of_index("no", "c1").is_err());
}

#[test]
fn index_finds_what_shares_a_value_with_an_object() {
    let indexer = indexer();
    for (key, colour) in [("a/1", 1), ("a/2", 1), ("b/3", 2), ("b/4", 1)] {
        indexer.add(coloured(key, 1, colour));
    }
    let keys = |objects: Vec<Object>| {
        let mut keys: Vec<String> = objects.iter().map(|object| object.key().to_string()).collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(indexer.index("colour", &coloured("c/9", 1, 1)).unwrap()), ["a/1", "a/2", "b/4"]);
    assert_eq!(keys(indexer.index(NAMESPACE_INDEX, &config_map("b/9", "1")).unwrap()), ["b/3", "b/4"]);
    assert!(indexer.index("no", &config_map("b/9", "1")).is_err());
}

#[test]
fn several_indexes_are_added_together_or_not_at_all() {
    let indexer = indexer();
    indexer.add(coloured("a/1", 1, 1));
    let label = || IndexFn::label("x");
    assert!(indexer.add_indexers([("new", label()), ("colour", label())]).is_err());
    assert!(indexer.add_indexers([("new", label()), ("new", label())]).is_err());
    assert_eq!(indexer.index_names(), [NAMESPACE_INDEX, "colour"]);
    indexer
        .add_indexers([("new", label()), ("newer", IndexFn::path("/data/colour".parse().unwrap()))])
        .unwrap();
    assert_eq!(indexer.index_keys("newer", "c1").unwrap().len(), 1);
    indexer.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever is written after it was taken, a snapshot shows what it showed, and every state is consistent.
    #[test]
    fn a_snapshot_never_changes(
        writes in proptest::collection::vec((0_u8..40, 0_u8..3, 0_u8..4, any::<bool>()), 1..200)
    ) {
        let indexer = indexer();
        let mut taken = Vec::new();
        for (version, (n, namespace, colour, delete)) in (1..).zip(writes) {
            let key = format!("n{namespace}/x{n}");
            if delete {
                indexer.delete(&key.parse().unwrap());
            } else {
                indexer.apply([Delta::Added(coloured(&key, version, colour))], None);
            }
            if version % 16 == 0 {
                let snapshot = indexer.snapshot();
                let as_shown = shown(&snapshot);
                taken.push((snapshot, as_shown));
            }
        }
        indexer.check();
        for (snapshot, as_shown) in &taken {
            prop_assert_eq!(&shown(snapshot), as_shown);
        }
    }
}

/// Readers beside a writer of batches see whole batches only, indexes included.
#[test]
fn a_batch_and_its_index_entries_appear_at_once() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let indexer = Arc::new(indexer());
    let batch = |colour: u8, version: u32| {
        (0..20)
            .map(move |n| Delta::Updated(coloured(&format!("a/x{n}"), version, colour)))
            .collect::<Vec<_>>()
    };
    indexer.apply(batch(0, 1), None);
    let done = Arc::new(AtomicBool::new(false));
    let reader = std::thread::spawn({
        let (indexer, done) = (indexer.clone(), done.clone());
        move || {
            let mut looks = 0_u64;
            while !done.load(Ordering::Relaxed) {
                let snapshot = indexer.snapshot();
                let counts: Vec<usize> =
                    (0..2).map(|c| snapshot.by_index("colour", &format!("c{c}")).unwrap().count()).collect();
                assert!(counts == [20, 0] || counts == [0, 20], "{counts:?}");
                looks += 1;
            }
            looks
        }
    });
    for version in 2..500 {
        indexer.apply(batch(u8::try_from(version % 2).unwrap(), version), None);
    }
    done.store(true, Ordering::Relaxed);
    assert!(reader.join().unwrap() > 0);
}

#[test]
fn the_last_holder_of_a_large_store_that_was_replaced_leaves_freeing_it_to_another_thread() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let _context = runtime.enter();
    for (objects, freed_at_once) in [(10_001, false), (100, true)] {
        let indexer = Indexer::new(true);
        let list = (0..objects).map(|n| config_map(&format!("a/{n}"), "1")).collect();
        indexer.replace(list, Some("1"), false);
        let snapshot = indexer.snapshot();
        let held = snapshot.downgrade();
        indexer.replace(Vec::new(), Some("2"), false);
        // The only thread for blocking work is busy.
        let (let_go, wait) = std::sync::mpsc::channel::<()>();
        let busy = runtime.spawn_blocking(move || wait.recv());
        let cursor = snapshot.cursor();
        drop(snapshot);
        assert!(held.upgrade().is_some(), "the cursor holds it");
        drop(cursor);
        assert_eq!(held.upgrade().is_none(), freed_at_once);
        drop(let_go);
        runtime.block_on(busy).unwrap().unwrap_err();
        runtime.block_on(runtime.spawn_blocking(|| {})).unwrap();
        assert!(held.upgrade().is_none());
    }
}
