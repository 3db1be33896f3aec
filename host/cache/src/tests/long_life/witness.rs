//! [`Witness`]: a listener that checks each call for what an informer promises, and keeps nothing but its present view;
//! and [`Reader`]: the same for a consumer of a ring.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_object::{Object, ObjectKey};

use super::objects::is_whole;
use crate::testing::View;
use crate::{Event, Indexer, Listener, Registration, Ring, RingOptions, SharedInformer};

fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

/// How often the server was restored: each time, a store may go back once.
#[derive(Default)]
pub(super) struct Restores {
    pub(super) count: AtomicU64,
    /// The count at the last rest: of those, every store knows.
    pub(super) known: AtomicU64,
}

pub(super) struct Witness {
    indexer: Arc<Indexer>,
    restores: Arc<Restores>,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    view: View,
    calls: u64,
    /// The store's version at the last call.
    newest: u64,
    /// Restores that the store knew of at first, and those that were seen since.
    restores: u64,
    initial_list_ended: bool,
    /// The first call that was not legal.
    illegal: Option<String>,
}

impl Witness {
    pub(super) fn join(
        informer: &SharedInformer,
        restores: &Arc<Restores>,
        resync: Option<Duration>,
    ) -> (Arc<Self>, Registration) {
        let told = Told { restores: restores.known.load(Relaxed), ..Told::default() };
        let witness = Arc::new(Self {
            indexer: informer.indexer().clone(),
            restores: restores.clone(),
            told: Mutex::new(told),
        });
        let registration = informer.add_listener(witness.clone(), resync).unwrap();
        (witness, registration)
    }

    pub(super) fn view(&self) -> View {
        self.told.lock().view.clone()
    }

    pub(super) fn calls(&self) -> u64 {
        self.told.lock().calls
    }

    pub(super) fn has_initial_list(&self) -> bool {
        self.told.lock().initial_list_ended
    }

    /// Panics when a call was not legal.
    pub(super) fn check(&self, namespace: Option<&str>) {
        if let Some(illegal) = &self.told.lock().illegal {
            panic!("of namespace {namespace:?}: {illegal}");
        }
    }

    /// Takes a call in, up to the first that is not legal.
    fn called(&self, object: Option<&Object>, call: impl FnOnce(&mut Told)) {
        let mut told = self.told.lock();
        if told.illegal.is_some() {
            return;
        }
        told.calls += 1;
        let checked = catch_unwind(AssertUnwindSafe(|| {
            self.never_back(&mut told);
            object.into_iter().for_each(|object| self.store_first(object));
            call(&mut told);
        }));
        if let Err(panic) = checked {
            told.illegal =
                Some(panic.downcast_ref().cloned().unwrap_or_else(|| "an illegal call".to_owned()));
        }
    }

    fn never_back(&self, told: &mut Told) {
        let seen = number(&self.indexer.resource_version());
        if seen < told.newest {
            told.restores += 1;
            let restores = self.restores.count.load(Relaxed);
            assert!(told.restores <= restores, "the store went back from {} to {seen}", told.newest);
        }
        told.newest = seen;
    }

    fn store_first(&self, object: &Object) {
        assert!(is_whole(object), "{} {} is {}", object.key(), object.resource_version(), object.json());
        if let Some(held) = self.indexer.get(object.key()) {
            let (held, told) = (number(held.resource_version()), number(object.resource_version()));
            assert!(held >= told, "{} was told at {told} and is held at {held}", object.key());
        }
    }
}

impl Listener for Witness {
    fn on_add(&self, object: &Object, is_in_initial_list: bool) {
        self.called(Some(object), |told| {
            let late = is_in_initial_list && told.initial_list_ended;
            assert!(!late, "an initial add of {} after the end of the initial list", object.key());
            told.view.add(object);
        });
    }

    fn on_update(&self, old: &Object, new: &Object, _: bool) {
        self.called(Some(new), |told| {
            assert!(is_whole(old), "{} {} is {}", old.key(), old.resource_version(), old.json());
            told.view.update(Some(old), new);
        });
    }

    fn on_delete(&self, key: &ObjectKey, object: Option<&Object>, _: bool) {
        self.called(None, |told| told.view.delete(key, object));
    }

    fn on_initial_list_end(&self) {
        self.called(None, |told| {
            assert!(!std::mem::replace(&mut told.initial_list_ended, true), "the initial list ended twice");
        });
    }
}

/// A consumer of a ring.
pub(super) struct Reader {
    ring: Arc<Ring>,
    view: View,
    registration: Registration,
}

impl Reader {
    pub(super) fn join(informer: &SharedInformer, options: RingOptions) -> Self {
        let ring = Ring::new(informer.indexer().clone(), options);
        let registration = informer.add_listener(ring.clone(), None).unwrap();
        Self { ring, view: View::default(), registration }
    }

    /// Takes up to `max` events, if there are any.
    pub(super) fn take(&mut self, max: usize) -> bool {
        let Some(batch) = self.ring.try_next_batch(max) else { return false };
        assert!(batch.len() <= max);
        for event in batch.iter() {
            if let Event::Added { object, .. } | Event::Updated { new: object, .. } = event {
                assert!(is_whole(object), "{} {}", object.key(), object.json());
            }
            self.view.event(event);
        }
        true
    }

    /// Takes what there is; what it must believe then.
    pub(super) fn drained(&mut self) -> &View {
        while self.take(64) {}
        assert!(self.registration.has_synced());
        &self.view
    }
}
