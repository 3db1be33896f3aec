//! [`Shared`]: sources that several plugins name, each read once for all of them.
//!
//! Invariant: a source is followed as long as an entry holds it; the task that follows it ends with the last entry.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::{Read, Report};

/// One source and its last value; none before the first.
pub(super) struct Source<V> {
    values: watch::Sender<Option<V>>,
    task: OnceLock<AbortOnDropHandle<()>>,
}

/// The sources that are followed, by key.
pub(super) struct Shared<K, V>(Mutex<HashMap<K, Weak<Source<V>>>>);

impl<K, V> Default for Shared<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq + Clone, V: Clone + Send + Sync + 'static> Shared<K, V> {
    /// The source of a key. If nobody has it, it is new, and the task that `follow` makes gives it its values.
    pub(super) fn source<F>(
        &self,
        key: K,
        follow: impl FnOnce(watch::Sender<Option<V>>) -> F,
    ) -> Arc<Source<V>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut sources = self.0.lock();
        if let Some(source) = sources.get(&key).and_then(Weak::upgrade) {
            return source;
        }
        sources.retain(|_, source| source.strong_count() > 0);
        let source = Arc::new(Source { values: watch::Sender::new(None), task: OnceLock::new() });
        // Set once: the source is new.
        let _ = source.task.set(AbortOnDropHandle::new(tokio::spawn(follow(source.values.clone()))));
        sources.insert(key, Arc::downgrade(&source));
        source
    }

    /// The sources that somebody has.
    pub(super) fn held(&self) -> Vec<(K, Weak<Source<V>>)> {
        let sources = self.0.lock();
        let held = sources.iter().filter(|(_, source)| source.strong_count() > 0);
        held.map(|(key, source)| (key.clone(), Weak::clone(source))).collect()
    }
}

impl<V: Clone> Source<V> {
    /// Sets the value.
    pub(super) fn set(&self, value: V) {
        self.values.send_replace(Some(value));
    }

    /// Reports the value, now and whenever it changes, as one entry reads it; until it is dropped.
    pub(super) async fn report(&self, read: impl Fn(V) -> Read, report: &Report) {
        let mut values = self.values.subscribe();
        loop {
            let value = values.borrow_and_update().clone();
            if let Some(value) = value {
                report.send(read(value)).await;
            }
            // It cannot fail: the sender is in `self`.
            let _ = values.changed().await;
        }
    }
}
