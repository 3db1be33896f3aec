//! Pitfalls §5.2, invariants 1–4 and 7, under random servers: whatever happens, each listener is told a legal sequence,
//! and at rest what it believes, the store and the server are one.
//!
//! `PROPTEST_CASES=20000 cargo test -p pilothouse-cache random_servers` runs it for longer.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_object::{Object, ObjectKey};
use proptest::prelude::*;
use serde_json::json;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::testing::{FakeControllerSource, Recorder, View, config_maps, errors};
use crate::{
    Delivery, IndexFn, Indexer, InformerOptions, Listener, ReflectorOptions, Registration, Ring, RingOptions,
    SharedInformer,
};

const KEYS: u8 = 6;

#[derive(Debug, Clone)]
enum Step {
    /// Creates, changes, deletes or re-creates one of a few objects.
    Write {
        key: u8,
        action: u8,
    },
    Bookmark,
    /// Ends the watches.
    DropWatches,
    BreakWatches {
        with: u8,
    },
    Compact,
    FailList {
        with: u8,
    },
    FailWatch {
        with: u8,
    },
    Refuse(bool),
    FreezeList,
    ExpireTokens,
    PagesFromZero(bool),
    /// Streaming lists are served, or have no end.
    InitialEventsEnd(bool),
    /// Lets time pass.
    Wait {
        millis: u64,
    },
    /// Lets others run, without time passing.
    Yield {
        times: u8,
    },
    Take {
        ring: u8,
        max: usize,
    },
    Join {
        resync: bool,
    },
    Leave,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..KEYS, 0_u8..8).prop_map(|(key, action)| Step::Write { key, action }),
        1 => Just(Step::Bookmark),
        2 => Just(Step::DropWatches),
        2 => (0_u8..4).prop_map(|with| Step::BreakWatches { with }),
        2 => Just(Step::Compact),
        1 => (0_u8..5).prop_map(|with| Step::FailList { with }),
        1 => (0_u8..5).prop_map(|with| Step::FailWatch { with }),
        1 => any::<bool>().prop_map(Step::Refuse),
        1 => Just(Step::FreezeList),
        1 => Just(Step::ExpireTokens),
        1 => any::<bool>().prop_map(Step::PagesFromZero),
        1 => any::<bool>().prop_map(Step::InitialEventsEnd),
        4 => (0_u64..5000).prop_map(|millis| Step::Wait { millis }),
        5 => (0_u8..5).prop_map(|times| Step::Yield { times }),
        4 => (0_u8..2, 1_usize..5).prop_map(|(ring, max)| Step::Take { ring, max }),
        1 => any::<bool>().prop_map(|resync| Step::Join { resync }),
        1 => Just(Step::Leave),
    ]
}

fn error(which: u8) -> pilothouse_client::Error {
    match which {
        0 => errors::expired(),
        1 => errors::internal(),
        2 => errors::connection_reset(),
        3 => errors::too_many_requests(Some(3)),
        _ => errors::too_large_dialects()[0].clone(),
    }
}

fn write(server: &FakeControllerSource, key: u8, action: u8) {
    let key = format!("ns{}/x{key}", key % 2);
    let exists = server.objects().iter().any(|object| object.key().as_str() == key);
    let body = json!({"data": {"colour": if action.is_multiple_of(2) { "red" } else { "blue" }}});
    match (exists, action) {
        (false, _) => _ = server.create(&key, body),
        (true, 0 | 1) => _ = server.delete(&key),
        (true, 2) => _ = server.recreate(&key, body),
        (true, _) => _ = server.update(&key, body),
    }
}

/// Checks at each call that the store is at least as far as the call, and never goes back.
struct StoreFirst {
    indexer: Arc<Indexer>,
    newest: parking_lot::Mutex<u64>,
    violations: parking_lot::Mutex<Vec<String>>,
}

impl StoreFirst {
    fn check(&self, what: &str, object: &Object) {
        let number = |version: &str| version.parse::<u64>().unwrap_or_default();
        let held = self.indexer.get(object.key());
        let seen = number(&self.indexer.resource_version());
        let behind =
            held.is_some_and(|held| number(held.resource_version()) < number(object.resource_version()));
        let mut newest = self.newest.lock();
        if behind || seen < *newest {
            self.violations.lock().push(format!("{what} {}: store at {seen}, was {newest}", object.key()));
        }
        *newest = seen.max(*newest);
    }
}

impl Listener for StoreFirst {
    fn on_add(&self, object: &Object, _: bool) {
        self.check("add", object);
    }
    fn on_update(&self, _: &Object, new: &Object, _: bool) {
        self.check("update", new);
    }
    fn on_delete(&self, _: &ObjectKey, object: Option<&Object>, _: bool) {
        object.into_iter().for_each(|object| self.check("delete", object));
    }
}

struct RingView {
    ring: Arc<Ring>,
    view: View,
    registration: Registration,
}

impl RingView {
    fn join(informer: &SharedInformer, options: RingOptions) -> Self {
        let ring = Ring::new(informer.indexer().clone(), options);
        let registration = informer.add_listener(ring.clone(), None).unwrap();
        Self { ring, view: View::default(), registration }
    }

    fn take(&mut self, max: usize) -> bool {
        let Some(batch) = self.ring.try_next_batch(max) else { return false };
        assert!(batch.len() <= max);
        batch.iter().for_each(|event| self.view.event(event));
        true
    }
}

async fn run(steps: Vec<Step>, capacity: usize, streaming: bool) {
    let server = FakeControllerSource::new(config_maps());
    server.set_watch_lists(streaming);
    for key in 0..3 {
        write(&server, key, 7);
    }
    let reflector = ReflectorOptions { page_size: 2, ..ReflectorOptions::default() };
    let options = InformerOptions { reflector, queue_capacity: capacity, ..InformerOptions::default() };
    let informer = SharedInformer::new(server.source(), config_maps(), None, options);
    informer.indexer().add_indexer("colour", IndexFn::path("/data/colour".parse().unwrap())).unwrap();
    let plain = Recorder::new();
    let _plain = informer.add_listener(plain.clone(), None).unwrap();
    let store_first = Arc::new(StoreFirst {
        indexer: informer.indexer().clone(),
        newest: parking_lot::Mutex::new(0),
        violations: parking_lot::Mutex::default(),
    });
    let _store_first = informer.add_listener(store_first.clone(), None).unwrap();
    let mut rings = [
        RingView::join(&informer, RingOptions { max_keys: 2, ..RingOptions::default() }),
        RingView::join(
            &informer,
            RingOptions { delivery: Delivery::Every, max_events: 5, max_keys: 4, told_elsewhere: false },
        ),
    ];
    let mut guests: Vec<(Arc<Recorder>, Registration)> = Vec::new();
    let cancel = CancellationToken::new();
    let task = tokio::spawn({
        let (informer, cancel) = (informer.clone(), cancel.clone());
        async move { informer.run(cancel).await }
    });

    for step in steps {
        match step {
            Step::Write { key, action } => write(&server, key, action),
            Step::Bookmark => server.bookmark(),
            Step::DropWatches => server.drop_watches(),
            Step::BreakWatches { with } => server.break_watches(&error(with)),
            Step::Compact => server.compact(),
            Step::FailList { with } => server.fail_lists([error(with)]),
            Step::FailWatch { with } => server.fail_watches([error(with)]),
            Step::Refuse(refused) => server.refuse(refused),
            Step::FreezeList => server.freeze_next_list(),
            Step::ExpireTokens => server.expire_continue_tokens(),
            Step::PagesFromZero(pages) => server.set_pages_from_zero(pages),
            Step::InitialEventsEnd(sent) => server.set_initial_events_end(sent),
            Step::Wait { millis } => sleep(Duration::from_millis(millis)).await,
            Step::Yield { times } => {
                for _ in 0..times {
                    tokio::task::yield_now().await;
                }
            }
            Step::Take { ring, max } => _ = rings[ring as usize].take(max),
            Step::Join { resync } => {
                let recorder = Recorder::new();
                let period = resync.then_some(Duration::from_secs(2));
                let registration = informer.add_listener(recorder.clone(), period).unwrap();
                guests.push((recorder, registration));
            }
            Step::Leave => {
                if !guests.is_empty() {
                    let (recorder, registration) = guests.remove(0);
                    registration.remove();
                    let _ = recorder.calls();
                }
            }
        }
    }

    server.heal();
    let version = server.version();
    let caught_up = informer.indexer().wait_until_seen(&version);
    timeout(Duration::from_secs(600), caught_up).await.expect("it never caught up with the server");
    let truth = View::of(&server.objects());
    assert_eq!(View::of(&informer.indexer().list()), truth, "the store");
    informer.indexer().check();
    assert_eq!(plain.view(), truth, "a plain listener");
    assert_eq!(*store_first.violations.lock(), Vec::<String>::new());
    for (guest, registration) in &guests {
        assert_eq!(guest.view(), truth, "a late listener");
        assert!(registration.has_synced());
    }
    for ring in &mut rings {
        while ring.take(3) {}
        assert_eq!(ring.view, truth, "a ring");
        assert!(ring.registration.has_synced());
    }
    assert_eq!(informer.metrics().listener_panics_total, 0);
    cancel.cancel();
    task.await.unwrap();
}

proptest! {
    #[test]
    fn under_any_server_sequences_are_legal_and_views_agree_at_rest(
        steps in prop::collection::vec(step(), 1..150),
        capacity in 1_usize..8,
        streaming in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(run(steps, capacity, streaming));
    }
}
