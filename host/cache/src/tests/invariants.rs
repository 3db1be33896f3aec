//! Pitfalls §5.2, invariants 4, 8 and 9: what a list shows is there as a whole before anybody hears of it, informers
//! that nobody leases leave nothing behind, and a server that fails for ever is asked rarely.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_object::{Object, ObjectKey};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::factory::{factory, tasks};
use super::{Running, server, soon};
use crate::testing::{FakeControllerSource, Recorder, View, config_maps, errors};
use crate::{IndexFn, Indexer, Listener, Ring, RingOptions};

/// Checks at each call that the store and its index are the server's at the version that the store says.
struct WholeLists {
    indexer: Arc<Indexer>,
    states: Mutex<BTreeMap<String, View>>,
    calls: Mutex<(u64, Option<String>)>,
}

impl WholeLists {
    fn called(&self, what: &str, key: &ObjectKey) {
        let version = self.indexer.resource_version();
        let held = self.indexer.list();
        let coloured: usize =
            ["red", "blue"].map(|c| self.indexer.by_index("colour", c).unwrap().len()).iter().sum();
        let wanted = self.states.lock().get(&*version).cloned();
        let mut calls = self.calls.lock();
        calls.0 += 1;
        if wanted != Some(View::of(&held)) || coloured != held.len() {
            calls.1.get_or_insert_with(|| {
                format!("{what} of {key} at {version}: {held:?} ({coloured} in the index), not {wanted:?}")
            });
        }
    }
}

impl Listener for WholeLists {
    fn on_add(&self, object: &Object, _: bool) {
        self.called("add", object.key());
    }
    fn on_update(&self, _: &Object, new: &Object, _: bool) {
        self.called("update", new.key());
    }
    fn on_delete(&self, key: &ObjectKey, _: Option<&Object>, _: bool) {
        self.called("delete", key);
    }
}

fn write(server: &FakeControllerSource, random: &mut StdRng) {
    let key = format!("ns{}/x{}", random.random_range(0..2), random.random_range(0..10));
    let body = json!({"data": {"colour": if random.random_bool(0.5) { "red" } else { "blue" }}});
    let exists = server.objects().iter().any(|object| object.key().as_str() == key);
    match random.random_range(0..4) {
        _ if !exists => drop(server.create(&key, body)),
        0 => drop(server.delete(&key)),
        1 => drop(server.recreate(&key, body)),
        _ => drop(server.update(&key, body)),
    }
}

#[tokio::test(start_paused = true)]
async fn at_each_call_for_a_list_the_store_is_that_list() {
    const LISTS: usize = 300;
    let seed = rand::random();
    eprintln!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let server = server();
    // Without watches, all that anybody hears of comes from lists.
    server.fail_watches(std::iter::repeat_n(errors::internal(), 20 * LISTS));
    let running = Running::on(&server);
    let indexer = running.informer.indexer().clone();
    indexer.add_indexer("colour", IndexFn::path("/data/colour".parse().unwrap())).unwrap();
    let first = BTreeMap::from([(server.version(), View::default())]);
    let listener = Arc::new(WholeLists { indexer, states: Mutex::new(first), calls: Mutex::default() });
    let _place = running.informer.add_listener(listener.clone(), None).unwrap();
    for _ in 0..LISTS {
        (0..random.random_range(1..8)).for_each(|_| write(&server, &mut random));
        listener.states.lock().insert(server.version(), View::of(&server.objects()));
        running.caught_up(&server).await;
    }
    running.stop().await;
    let (calls, wrong) = &*listener.calls.lock();
    assert_eq!(*wrong, None);
    assert!(*calls > LISTS as u64);
}

#[tokio::test(start_paused = true)]
async fn leases_come_and_go_and_leave_no_task_no_store_and_no_watch_behind() {
    const CYCLES: u64 = 300;
    let seed = rand::random();
    eprintln!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let server = server();
    let factory = factory(&server);
    let mut stores: Vec<Weak<Indexer>> = Vec::new();
    for _ in 0..CYCLES {
        let mut held = Vec::new();
        for namespace in [None, Some("ns0"), Some("ns1"), None] {
            let lease = factory.informer(&config_maps(), namespace);
            stores.push(Arc::downgrade(lease.indexer()));
            let ring = Ring::new(lease.indexer().clone(), RingOptions::default());
            let recorder = Recorder::new();
            let places = [
                lease.add_listener(ring, None).unwrap(),
                lease.add_listener(recorder, Some(Duration::from_secs(1))).unwrap(),
            ];
            held.push((lease, places));
            write(&server, &mut random);
        }
        match random.random_range(0..4) {
            0 => {}
            1 => _ = soon(factory.wait_for_cache_sync()).await,
            2 => sleep(Duration::from_secs(random.random_range(0..100))).await,
            _ => server.drop_watches(),
        }
        while !held.is_empty() {
            let _leaves = held.swap_remove(random.random_range(0..held.len()));
            tokio::task::yield_now().await;
        }
        tasks(&factory, 0).await;
        assert_eq!(server.open_watches(), 0);
        assert!(factory.informers().is_empty());
        let kept = stores.iter().filter(|store| store.strong_count() > 0).count();
        assert_eq!(kept, 0, "stores that nobody leases");
        stores.clear();
    }
}

/// The requests of one informer in each of 30 minutes.
async fn requests_a_minute(server: &FakeControllerSource) -> Vec<usize> {
    let running = Running::on(server);
    let began = Instant::now();
    sleep(Duration::from_secs(30 * 60)).await;
    running.stop().await;
    let mut minutes = vec![0; 30];
    for request in server.requests() {
        let minute = (request.at() - began).as_secs() / 60;
        if let Some(count) = minutes.get_mut(usize::try_from(minute).unwrap()) {
            *count += 1;
        }
    }
    minutes
}

/// Does something to a server ten times a second, for ever.
fn always(server: &FakeControllerSource, what: impl Fn(&FakeControllerSource) + Send + 'static) {
    let server = server.clone();
    tokio::spawn(async move {
        loop {
            what(&server);
            sleep(Duration::from_millis(100)).await;
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_for_ever_is_asked_rarely() {
    type Failure = (&'static str, fn(&FakeControllerSource));
    let failures: [Failure; 9] = [
        ("connections are refused", |server| server.refuse(true)),
        ("lists are forbidden", |server| server.fail_lists(std::iter::repeat_n(errors::forbidden(), 10_000))),
        ("lists fail", |server| server.fail_lists(std::iter::repeat_n(errors::internal(), 10_000))),
        ("the kind is not served", |server| {
            server.fail_lists(std::iter::repeat_n(errors::not_found(), 10_000));
        }),
        ("watches fail", |server| server.fail_watches(std::iter::repeat_n(errors::internal(), 10_000))),
        ("watches are refused for now", |server| {
            server.fail_watches(std::iter::repeat_n(errors::too_many_requests(None), 10_000));
        }),
        ("watches expire at once", |server| {
            server.fail_watches(std::iter::repeat_n(errors::expired(), 10_000));
        }),
        ("watches end at once", |server| always(server, FakeControllerSource::drop_watches)),
        ("watches break at once", |server| {
            always(server, |server| server.break_watches(&errors::connection_reset()));
        }),
    ];
    for (what, fail) in failures {
        let server = server();
        fail(&server);
        let minutes = requests_a_minute(&server).await;
        eprintln!("{what}: {minutes:?}");
        let (first, later) = (minutes[0], *minutes[2..].iter().max().unwrap());
        // Delays of 0.8 s that double up to 30 s, for a list and a watch each time; a kind that is not there and a server
        // that is not there are asked for every 7 to 10 s, so that their coming is seen soon.
        assert!(first <= 20, "{what}: {first} requests in the first minute");
        assert!(later <= 10, "{what}: {later} requests in a later minute");
        assert!(*minutes.last().unwrap() > 0, "{what}: it gave up");
    }
}
