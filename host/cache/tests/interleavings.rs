//! Interleavings of the store and of the delta queue, explored with shuttle: each test runs a few tasks under thousands
//! of random schedules, and prints the schedule of one that fails.
//!
//! `cargo test -p pilothouse-cache --features shuttle --test interleavings`; `SHUTTLE_ITERATIONS` sets how many.

#![cfg(feature = "shuttle")]

use std::sync::Arc;

use pilothouse_cache::{Delta, DeltaFifo, DeltaType, IndexFn, Indexer, WorkKind};
use pilothouse_object::{Object, ObjectKey};
use shuttle::future::block_on;
use shuttle::thread;

fn explore(test: impl Fn() + Send + Sync + 'static) {
    let iterations = std::env::var("SHUTTLE_ITERATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000);
    shuttle::check_random(test, iterations);
}

fn object(key: &str, version: u32, colour: u32) -> Object {
    let key: ObjectKey = key.parse().unwrap();
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{}","namespace":"{}","uid":"u","resourceVersion":"{version}"}},"data":{{"colour":"c{colour}"}}}}"#,
        key.name(),
        key.namespace().unwrap()
    );
    Object::decode(text.as_bytes()).unwrap()
}

fn by_colour() -> IndexFn {
    IndexFn::path("/data/colour".parse().unwrap())
}

/// Everything that is pushed is popped, in order across keys, whatever the producer and the consumer do in between.
#[test]
fn the_queue_loses_nothing_and_keeps_the_order_of_arrival() {
    explore(|| {
        let fifo = Arc::new(DeltaFifo::new(3));
        let producer = thread::spawn({
            let fifo = fifo.clone();
            move || {
                block_on(async {
                    fifo.replace(vec![object("a/x", 1, 0)], "1").await.unwrap();
                    for version in 2..8 {
                        let key = if version % 2 == 0 { "a/x" } else { "a/y" };
                        let text = version.to_string();
                        fifo.push(Delta::Updated(object(key, version, 0)), Some(text.as_str().into()))
                            .await
                            .unwrap();
                    }
                });
                fifo.close();
            }
        });
        let mut seen: Vec<(String, u32)> = Vec::new();
        let mut complete = 0;
        let mut replaced = false;
        block_on(async {
            while let Some(work) = fifo.pop(2).await {
                match work.kind {
                    WorkKind::Replace(list) => {
                        assert!(seen.is_empty() && work.initial && !fifo.has_synced());
                        assert_eq!(list.len(), 1);
                        replaced = true;
                    }
                    WorkKind::Deltas(batch) => {
                        assert!(replaced, "nothing crosses a list");
                        for delta in batch {
                            assert_eq!(delta.kind(), DeltaType::Updated);
                            if let Delta::Updated(object) = delta {
                                let version = object.resource_version().parse().unwrap();
                                seen.push((object.key().to_string(), version));
                            }
                        }
                    }
                    WorkKind::Resync | WorkKind::Bookmark => {}
                }
                fifo.done(work.initial);
                if let Some(version) = work.seen {
                    let version: u32 = version.to_string().parse().unwrap();
                    assert!(version >= complete, "what is complete never shrinks");
                    complete = version;
                    let handled = |v: &u32| seen.iter().any(|(_, seen)| seen == v);
                    assert!(
                        (2..=version).all(|v| handled(&v)),
                        "complete up to {version}, but only {seen:?}"
                    );
                }
            }
        });
        producer.join().unwrap();
        let versions: Vec<u32> = seen.iter().map(|(_, version)| *version).collect();
        assert_eq!(versions, (2..8).collect::<Vec<_>>());
        assert!(complete == 7 && fifo.has_synced() && fifo.is_empty());
    });
}

/// A producer that waits for room is woken by the close, and told.
#[test]
fn closing_the_queue_frees_a_producer_that_waits() {
    explore(|| {
        let fifo = Arc::new(DeltaFifo::new(1));
        let producer = thread::spawn({
            let fifo = fifo.clone();
            move || {
                block_on(async {
                    let first = fifo.push(Delta::Added(object("a/x", 1, 0)), None).await;
                    let second = fifo.push(Delta::Added(object("a/y", 2, 0)), None).await;
                    (first.is_ok(), second.is_ok())
                })
            }
        });
        fifo.close();
        let mut popped = 0;
        block_on(async {
            while let Some(work) = fifo.pop(10).await {
                if let WorkKind::Deltas(batch) = work.kind {
                    popped += batch.len();
                }
            }
        });
        let (first, second) = producer.join().unwrap();
        // What was taken in before the close is handed out, by this pop or the next one.
        block_on(async {
            while let Some(work) = fifo.pop(10).await {
                if let WorkKind::Deltas(batch) = work.kind {
                    popped += batch.len();
                }
            }
        });
        assert_eq!(popped, usize::from(first) + usize::from(second));
    });
}

/// Two writers and a reader: a batch and its index entries appear at once, and no writer undoes the other.
#[test]
fn readers_see_whole_batches_and_writers_lose_nothing() {
    explore(|| {
        let indexer = Arc::new(Indexer::new(true));
        indexer.add_indexer("colour", by_colour()).unwrap();
        let batch =
            |colour| (0..2).map(move |n| Delta::Updated(object(&format!("a/x{n}"), 1 + colour, colour)));
        indexer.apply(batch(0), None);
        let first = thread::spawn({
            let indexer = indexer.clone();
            move || drop(indexer.apply(batch(1), None))
        });
        let second = thread::spawn({
            let indexer = indexer.clone();
            move || indexer.add(object("b/y", 9, 9))
        });
        for _ in 0..3 {
            let snapshot = indexer.snapshot();
            let counts: Vec<usize> =
                ["c0", "c1"].iter().map(|c| snapshot.by_index("colour", c).unwrap().count()).collect();
            assert!(counts == [2, 0] || counts == [0, 2], "{counts:?}");
        }
        first.join().unwrap();
        second.join().unwrap();
        assert_eq!(indexer.by_index("colour", "c1").unwrap().len(), 2);
        assert_eq!(indexer.by_index("colour", "c9").unwrap().len(), 1);
        assert_eq!(indexer.len(), 3);
    });
}

/// An index that is added while objects come, change and go is complete when the call returns.
#[test]
fn an_index_added_to_a_live_store_misses_nothing() {
    explore(|| {
        let indexer = Arc::new(Indexer::new(true));
        for n in 0..3 {
            indexer.add(object(&format!("a/x{n}"), 1, 0));
        }
        let writer = thread::spawn({
            let indexer = indexer.clone();
            move || {
                indexer.add(object("a/x0", 2, 1));
                indexer.delete(&"a/x1".parse().unwrap());
                indexer.add(object("a/x3", 1, 0));
            }
        });
        indexer.add_indexer("colour", by_colour()).unwrap();
        writer.join().unwrap();
        let keys = |value| {
            let keys = indexer.index_keys("colour", value).unwrap();
            keys.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            (keys("c0"), keys("c1")),
            (vec!["a/x2".to_owned(), "a/x3".to_owned()], vec!["a/x0".to_owned()])
        );
    });
}

/// Who is told that the store is complete up to a version finds there what that promises: a list, a change, a deletion.
#[test]
fn a_version_is_announced_when_what_it_promises_can_be_read() {
    explore(|| {
        let indexer = Arc::new(Indexer::new(true));
        let writer = thread::spawn({
            let indexer = indexer.clone();
            move || {
                indexer.replace(vec![object("a/x", 2, 0)], Some("2"), false);
                indexer.apply([Delta::Added(object("a/y", 3, 0))], Some("3"));
                indexer.apply([Delta::Deleted(object("a/x", 4, 0))], Some("4"));
            }
        });
        for _ in 0..6 {
            let seen = |version| indexer.has_seen(version);
            let (list, add, delete) = (seen("2"), seen("3"), seen("4"));
            let (x, y) = (indexer.get_by_key("a/x").is_some(), indexer.get_by_key("a/y").is_some());
            assert!(!list || x || indexer.snapshot().get("a/y").is_some(), "the list was announced");
            assert!(!add || y, "the add was announced");
            assert!(!delete || !x, "the deletion was announced");
        }
        writer.join().unwrap();
    });
}
