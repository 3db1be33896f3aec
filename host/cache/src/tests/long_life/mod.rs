//! Pitfalls §5.2, invariants 1–3 and 7, over one long life of a server, a factory and all who listen: an informer of one
//! namespace that is always there, and one of all namespaces that comes and goes, which the former follows meanwhile;
//! listeners with and without resync, rings, late ones and such that leave; objects enough to be packed and of words that
//! change, so that dictionaries are trained anew; faults of every sort, and backups restored.
//!
//! Each step costs the same however long the life has lasted. Now and then everything is let come to rest and compared.
//! Restored servers are the one thing told to the informers (by `relist`): without new events, a watch from a version in
//! the server's future shows nothing, and no client can tell.
//!
//! `PILOTHOUSE_STEPS=100000 cargo test --release -p pilothouse-cache long_life -- --nocapture` for longer;
//! `PILOTHOUSE_SEED` repeats a script. Threads that train dictionaries are the one thing that a seed does not repeat.

mod objects;
mod witness;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use pilothouse_object::Object;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::{sleep, timeout};

use crate::testing::{FakeControllerSource, View, config_maps, errors};
use crate::{
    Compression, Delivery, FactoryOptions, IndexFn, InformerLease, InformerOptions, ReflectorOptions,
    Registration, RingOptions, SharedInformerFactory,
};
use objects::{body, colour};
use witness::{Reader, Restores, Witness};

/// Keys, two of three in the namespace `a`: more than a dictionary needs in either scope.
const KEYS: u32 = 300;
/// The object that is written last before everything is compared.
const LAST: &str = "a/x1";
/// Steps between two rests.
const REST_EVERY: u64 = 400;
/// Late listeners of one informer.
const GUESTS: usize = 4;
const RESYNC: Duration = Duration::from_secs(120);

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

fn error(which: u8) -> pilothouse_client::Error {
    match which {
        0 => errors::expired(),
        1 => errors::internal(),
        2 => errors::connection_reset(),
        3 => errors::too_many_requests(Some(3)),
        _ => errors::too_large_dialects()[usize::from(which) % 3].clone(),
    }
}

/// An informer and all who listen to it.
struct Side {
    lease: InformerLease,
    residents: Vec<(Arc<Witness>, Registration)>,
    guests: Vec<(Arc<Witness>, Registration)>,
    readers: [Reader; 2],
}

impl Side {
    fn new(lease: InformerLease, restores: &Arc<Restores>) -> Self {
        lease.indexer().add_indexer("colour", IndexFn::path("/data/colour".parse().unwrap())).unwrap();
        let readers = [
            Reader::join(lease.informer(), RingOptions { max_keys: 8, ..RingOptions::default() }),
            Reader::join(
                lease.informer(),
                RingOptions {
                    delivery: Delivery::Every,
                    max_events: 20,
                    max_keys: 64,
                    told_elsewhere: false,
                },
            ),
        ];
        let residents = vec![
            Witness::join(lease.informer(), restores, None),
            Witness::join(lease.informer(), restores, Some(RESYNC)),
        ];
        Self { lease, residents, guests: Vec::new(), readers }
    }

    fn witnesses(&self) -> impl Iterator<Item = &(Arc<Witness>, Registration)> {
        self.residents.iter().chain(&self.guests)
    }

    fn check_synced(&self) {
        for (witness, registration) in self.witnesses() {
            witness.check(self.lease.informer().namespace());
            assert!(
                !registration.has_synced() || witness.has_initial_list(),
                "synced before the initial list"
            );
        }
        assert_eq!(self.lease.informer().metrics().listener_panics_total, 0);
    }

    /// Waits until the store has come to the server's version, then compares everything with the server.
    async fn check(&mut self, server: &FakeControllerSource) {
        let (indexer, version) = (self.lease.indexer().clone(), server.version());
        let caught_up = async {
            // A store from before a backup was restored may have that version by chance, but not of that object.
            let newest = || indexer.get_by_key(LAST).is_some_and(|last| last.resource_version() == version);
            while *indexer.resource_version() != *version || !newest() {
                sleep(Duration::from_millis(500)).await;
            }
        };
        if timeout(Duration::from_secs(3600), caught_up).await.is_err() {
            panic!("it never came to version {version}: {:?}", self.lease.informer().status());
        }
        let mine = |object: &Object| {
            self.lease.informer().namespace().is_none_or(|name| object.namespace() == Some(name))
        };
        let objects: Vec<Object> = server.objects().into_iter().filter(mine).collect();
        let truth = View::of(&objects);
        assert_eq!(View::of(&indexer.list()), truth, "the store");
        for object in &objects {
            let held = indexer.get(object.key()).unwrap();
            assert_eq!(held.json(), object.json(), "{} at {}", object.key(), object.resource_version());
        }
        indexer.check();
        let colour_of =
            |object: &Object| colour(object.key().as_str(), object.resource_version().parse().unwrap());
        for value in indexer.index_values("colour").unwrap() {
            let mut keys: Vec<_> = objects
                .iter()
                .filter(|object| colour_of(object) == *value)
                .map(|o| o.key().clone())
                .collect();
            keys.sort_unstable();
            assert_eq!(indexer.index_keys("colour", &value).unwrap(), keys, "colour {value}");
        }
        self.check_synced();
        for (witness, registration) in self.witnesses() {
            assert_eq!(witness.view(), truth, "a listener");
            assert!(registration.has_synced());
        }
        for reader in &mut self.readers {
            assert_eq!(*reader.drained(), truth, "a ring");
        }
    }

    fn packed(&self) -> usize {
        self.lease.indexer().snapshot().objects().filter(|held| held.is_packed()).count()
    }
}

/// What a life had in it, so that one that proves nothing is found out.
#[derive(Debug, Default)]
struct Tally {
    writes: u64,
    restores: u64,
    widened: u64,
    joined: u64,
    calls: u64,
    lists: usize,
    watches: usize,
    packed_at_rest: usize,
}

struct World {
    server: FakeControllerSource,
    factory: SharedInformerFactory,
    random: StdRng,
    /// The keys that exist.
    live: BTreeSet<String>,
    backup: Option<(u64, Vec<Object>, BTreeSet<String>)>,
    restores: Arc<Restores>,
    narrow: Side,
    wide: Option<Side>,
    tally: Tally,
}

impl World {
    fn new(seed: u64, compression: Compression, streaming: bool) -> Self {
        let server = FakeControllerSource::new(config_maps());
        server.set_watch_lists(streaming);
        let source = server.clone();
        let reflector = ReflectorOptions { page_size: 50, ..ReflectorOptions::default() };
        let informer =
            InformerOptions { reflector, compression, queue_capacity: 64, ..InformerOptions::default() };
        let factory = SharedInformerFactory::new(
            Arc::new(move |_, namespace| source.source_in(namespace)),
            FactoryOptions { informer, ..FactoryOptions::default() },
        );
        let restores = Arc::default();
        let narrow = Side::new(factory.informer(&config_maps(), Some("a")), &restores);
        Self {
            server,
            factory,
            random: StdRng::seed_from_u64(seed),
            live: BTreeSet::new(),
            backup: None,
            restores,
            narrow,
            wide: None,
            tally: Tally::default(),
        }
    }

    fn next_body(&self, key: &str, ahead: u64) -> serde_json::Value {
        body(key, self.server.version().parse::<u64>().unwrap() + ahead)
    }

    fn write(&mut self) {
        self.tally.writes += 1;
        let number = self.random.random_range(0..KEYS);
        let key = format!("{}/x{number}", if number % 3 == 0 { "b" } else { "a" });
        if self.live.insert(key.clone()) {
            self.server.create(&key, self.next_body(&key, 1));
            return;
        }
        match self.random.random_range(0..10) {
            0 => {
                self.server.delete(&key);
                self.live.remove(&key);
            }
            1 => drop(self.server.recreate(&key, self.next_body(&key, 2))),
            _ => drop(self.server.update(&key, self.next_body(&key, 1))),
        }
    }

    /// One of the sides, the narrow one if there is no other.
    fn side(&mut self) -> &mut Side {
        let wide = self.random.random_bool(0.5);
        match &mut self.wide {
            Some(side) if wide => side,
            _ => &mut self.narrow,
        }
    }

    fn take(&mut self) {
        let (which, max) = (self.random.random_range(0..2), self.random.random_range(1..40));
        self.side().readers[which].take(max);
    }

    fn join(&mut self) {
        self.tally.joined += 1;
        let restores = self.restores.clone();
        let resync = self.random.random_bool(0.3).then_some(RESYNC);
        let side = self.side();
        if side.guests.len() == GUESTS {
            side.guests.remove(0).1.remove();
        }
        side.guests.push(Witness::join(side.lease.informer(), &restores, resync));
    }

    fn leave(&mut self) {
        let side = self.side();
        if !side.guests.is_empty() {
            side.guests.remove(0).1.remove();
        }
    }

    /// Leases the informer of all namespaces, or lets it go.
    fn widen(&mut self) {
        match self.wide.take() {
            Some(side) => self.tally.calls += side.residents[0].0.calls(),
            None => {
                self.tally.widened += 1;
                let lease = self.factory.informer(&config_maps(), None);
                self.wide = Some(Side::new(lease, &self.restores));
            }
        }
    }

    fn back_up(&mut self) {
        let version = self.server.version().parse().unwrap();
        self.backup = Some((version, self.server.objects(), self.live.clone()));
    }

    fn restore(&mut self) {
        let Some((version, objects, live)) = self.backup.take() else { return };
        self.tally.restores += 1;
        self.restores.count.fetch_add(1, Relaxed);
        // One that follows lists from what it follows, also when that knows nothing of the backup yet: see
        // `handover::a_follower_that_is_asked_to_list_asks_the_server`.
        if self.wide.is_some() {
            self.widen();
        }
        // Answers that were made before are lost with the server.
        self.server.heal();
        self.server.expire_continue_tokens();
        self.server.restore(version, objects);
        self.live = live;
        self.narrow.lease.relist();
    }

    /// One thing happens.
    async fn step(&mut self) {
        let which = self.random.random_range(0..5);
        match self.random.random_range(0..1000) {
            0..300 => self.write(),
            300..330 => (0..30).for_each(|_| self.write()),
            330..380 => self.server.bookmark(),
            380..410 => self.server.drop_watches(),
            410..435 => self.server.break_watches(&error(which)),
            435..465 => self.server.compact(),
            465..480 => self.server.fail_lists([error(which)]),
            480..495 => self.server.fail_watches([error(which)]),
            495..505 => self.server.refuse(true),
            505..525 => self.server.refuse(false),
            525..535 => self.server.freeze_next_list(),
            535..545 => self.server.expire_continue_tokens(),
            545..555 => self.server.set_pages_from_zero(which < 2),
            555..565 => self.server.set_initial_events_end(which > 0),
            565..570 => self.server.set_watch_lists(which > 1),
            570..650 => sleep(Duration::from_millis(self.random.random_range(0..5000))).await,
            650..660 => sleep(Duration::from_secs(self.random.random_range(5..60))).await,
            660..800 => {
                for _ in 0..which {
                    tokio::task::yield_now().await;
                }
            }
            800..920 => self.take(),
            920..945 => self.join(),
            945..965 => self.leave(),
            965..985 => self.widen(),
            985..993 => self.back_up(),
            993..998 => self.restore(),
            _ => self.server.skip_versions(u64::from(which)),
        }
    }

    /// What chance may have left out of a short life.
    async fn once_each(&mut self) {
        self.back_up();
        self.write();
        self.restore();
        for _ in 0..4 {
            self.widen();
            self.rest().await;
        }
        self.server.set_watch_lists(false);
        self.narrow.lease.relist();
        let listed = async {
            while self.server.list_versions().is_empty() {
                sleep(Duration::from_millis(500)).await;
            }
        };
        timeout(Duration::from_secs(3600), listed).await.expect("it never listed");
        // While a dictionary is being trained, the clock stands still.
        sleep(Duration::from_secs(60)).await;
        self.rest().await;
    }

    /// The faults end; everybody comes to know the same.
    async fn rest(&mut self) {
        self.server.heal();
        // Ends streaming lists that have no end.
        self.server.set_initial_events_end(true);
        // Both sides hear of it: the last version is that of an event.
        if self.live.insert(LAST.to_owned()) {
            self.server.create(LAST, self.next_body(LAST, 1));
        } else {
            self.server.update(LAST, self.next_body(LAST, 1));
        }
        for side in std::iter::once(&mut self.narrow).chain(&mut self.wide) {
            side.check(&self.server).await;
            self.tally.packed_at_rest = self.tally.packed_at_rest.max(side.packed());
        }
        self.restores.known.store(self.tally.restores, Relaxed);
    }

    async fn end(mut self) -> Tally {
        self.tally.calls += self.narrow.residents[0].0.calls();
        self.tally.calls += self.wide.as_ref().map_or(0, |side| side.residents[0].0.calls());
        self.tally.lists = self.server.list_versions().len();
        self.tally.watches = self.server.watches().len();
        self.factory.shutdown().await;
        assert_eq!(self.factory.task_count(), 0);
        self.tally
    }
}

/// Without `PILOTHOUSE_SEED`, which `just full` sets to a random one.
const SEED: u64 = 7;

fn live(name: &str, compression: Compression, streaming: bool) {
    let steps = from_environment("PILOTHOUSE_STEPS").unwrap_or(1500);
    let seed = from_environment("PILOTHOUSE_SEED").unwrap_or(SEED);
    eprintln!("{name}: PILOTHOUSE_SEED={seed} PILOTHOUSE_STEPS={steps}");
    let began = std::time::Instant::now();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    let tally = runtime.block_on(async {
        let mut world = World::new(seed, compression, streaming);
        for step in 1..=steps {
            world.step().await;
            world.narrow.check_synced();
            world.wide.iter().for_each(Side::check_synced);
            if step % REST_EVERY == 0 {
                world.rest().await;
            }
        }
        world.once_each().await;
        world.end().await
    });
    eprintln!("{name}: {:?}, {tally:?}", began.elapsed());
    assert!(tally.calls > steps / 4, "{tally:?}");
    assert!(tally.lists > 0 && tally.watches > 0 && tally.restores > 0 && tally.widened > 1, "{tally:?}");
    assert_eq!(tally.packed_at_rest > 100, compression == Compression::Auto, "{tally:?}");
}

#[test]
fn a_long_life_of_packed_objects_and_lists() {
    live("packed, lists", Compression::Auto, false);
}

#[test]
fn a_long_life_of_packed_objects_and_streaming_lists() {
    live("packed, streaming lists", Compression::Auto, true);
}

#[test]
fn a_long_life_of_plain_objects_and_lists() {
    live("plain, lists", Compression::Off, false);
}

#[test]
fn a_long_life_of_plain_objects_and_streaming_lists() {
    live("plain, streaming lists", Compression::Off, true);
}
