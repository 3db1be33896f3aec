//! [`Tap`]: what one namespace sees of an informer of all namespaces, as a snapshot and the events behind it.
//!
//! It is a listener of that informer. Invariants:
//! - what is in [`Tap::initial`] is the store when the tap joined; every change that was told later is in an event;
//! - [`Tap::drain`] gives events in the order of the server, and with them the version up to which there are no others:
//!   the informer tells batches in the order in which keys became pending, so they are sorted again;
//! - a tap does not outlive a list of its informer: a list is one transaction and must reach those behind the tap as one,
//!   so they have to list as well ([`Tap::is_void`]).
//!
//! Used by the `InformerSource` of an informer of one namespace.

use std::cmp::Ordering;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_client::WatchEvent;
use pilothouse_object::{Object, ObjectKey};
use tokio::sync::{Notify, watch};

use crate::error::CacheError;
use crate::indexer::Indexer;
use crate::listener::Listener;
use crate::registration::Registration;
use crate::shared_informer::SharedInformer;
use crate::version::{Seen, compare_resource_versions};

/// One namespace of an informer of all namespaces.
pub(crate) struct Tap {
    informer: SharedInformer,
    lists: watch::Receiver<u64>,
    seen: watch::Receiver<Seen>,
    records: Arc<Records>,
    /// Everything that the informer had applied when the tap joined is this old or older.
    pub(crate) horizon: Arc<str>,
    /// The version up to which [`initial`](Self::initial) is complete.
    pub(crate) version: Arc<str>,
    _registration: Registration,
}

/// The listener.
struct Records {
    namespace: String,
    indexer: Arc<Indexer>,
    state: Mutex<State>,
    more: Notify,
}

#[derive(Default)]
struct State {
    initial: Vec<Object>,
    /// Set at the end of the replay.
    version: Option<Arc<str>>,
    events: Vec<WatchEvent>,
    /// Went without being seen to go. Outside of a list that is one half of a change of the UID, and the other half
    /// follows in the same call of the informer.
    ghost: Option<ObjectKey>,
}

impl Tap {
    /// Joins an informer that has synced.
    ///
    /// # Errors
    /// When it has ended.
    pub(crate) fn join(informer: &SharedInformer, namespace: &str) -> Result<Self, CacheError> {
        // Before the snapshot: a list that comes between the two makes the tap void, which costs a list only.
        let lists = informer.lists();
        let seen = informer.indexer().progress_signal();
        let records = Arc::new(Records {
            namespace: namespace.to_owned(),
            indexer: informer.indexer().clone(),
            state: Mutex::default(),
            more: Notify::new(),
        });
        let registration = informer.add_listener(records.clone(), None)?;
        let version = records.state.lock().version.clone().unwrap_or_default();
        Ok(Self {
            horizon: informer.pushed_version(),
            informer: informer.clone(),
            lists,
            seen,
            records,
            version,
            _registration: registration,
        })
    }

    /// What was there when the tap joined; once.
    pub(crate) fn initial(&self) -> Vec<Object> {
        std::mem::take(&mut self.records.state.lock().initial)
    }

    /// Whether events are missing: the informer has listed, or has ended.
    pub(crate) fn is_void(&self) -> bool {
        self.lists.has_changed().unwrap_or(true) || self.informer.is_stopped()
    }

    /// The events that can be put in order, in order, and the version that they lead up to; `None` when the tap is void.
    pub(crate) fn drain(&mut self) -> Option<(Vec<WatchEvent>, Arc<str>)> {
        self.seen.mark_unchanged();
        let version = self.informer.told_version();
        let mut state = self.records.state.lock();
        // After the version was read: what a list has told is thrown away.
        if self.is_void() || state.ghost.is_some() {
            return None;
        }
        let later = |event: &WatchEvent| {
            compare_resource_versions(version_of(event), &version) == Some(Ordering::Greater)
        };
        let (keep, mut ready): (Vec<_>, Vec<_>) = state.events.drain(..).partition(later);
        state.events = keep;
        ready.sort_by(|a, b| {
            compare_resource_versions(version_of(a), version_of(b)).unwrap_or(Ordering::Equal)
        });
        Some((ready, version))
    }

    /// Waits until [`drain`](Self::drain) may have more to give. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        // A clone, so that a list is not marked as seen: the tap stays void.
        let mut lists = self.lists.clone();
        tokio::select! {
            () = self.records.more.notified() => {}
            _ = self.seen.changed() => {}
            _ = lists.changed() => {}
        }
    }

    /// Waits until the tap is void because of a list. Cancel-safe.
    pub(crate) async fn voided(&self) {
        let _ = self.lists.clone().changed().await;
    }

    /// Whether it is a tap on this informer.
    pub(crate) fn is_on(&self, informer: &SharedInformer) -> bool {
        Arc::ptr_eq(self.informer.indexer(), informer.indexer())
    }
}

/// The version of the state that an event tells of.
pub(crate) fn version_of(event: &WatchEvent) -> &str {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            object.resource_version()
        }
        WatchEvent::Bookmark { resource_version, .. } => resource_version,
    }
}

impl Records {
    fn note(&self, event: WatchEvent) {
        self.state.lock().events.push(event);
        self.more.notify_one();
    }

    fn sees(&self, key: &ObjectKey) -> bool {
        key.namespace() == Some(&self.namespace)
    }
}

impl Listener for Records {
    fn on_add(&self, object: &Object, _is_in_initial_list: bool) {
        if !self.sees(object.key()) {
            return;
        }
        let mut state = self.state.lock();
        if state.version.is_none() {
            state.initial.push(object.clone());
            return;
        }
        state.ghost.take_if(|ghost| ghost == object.key());
        drop(state);
        self.note(WatchEvent::Added(object.clone()));
    }

    fn on_update(&self, _old: &Object, new: &Object, _is_sync: bool) {
        if self.sees(new.key()) {
            self.note(WatchEvent::Modified(new.clone()));
        }
    }

    fn on_delete(&self, key: &ObjectKey, object: Option<&Object>, final_state_unknown: bool) {
        if !self.sees(key) {
            return;
        }
        match object {
            Some(object) if !final_state_unknown => self.note(WatchEvent::Deleted(object.clone())),
            _ => {
                self.state.lock().ghost = Some(key.clone());
                self.more.notify_one();
            }
        }
    }

    fn on_initial_list_end(&self) {
        // The informer's lock is held, so this is the version of the snapshot.
        self.state.lock().version = Some(self.indexer.resource_version());
    }
}
