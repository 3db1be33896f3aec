//! Following: an informer of one namespace gets its changes from the informer of all namespaces, which applies them to the
//! follower's store and calls its listeners while it handles its own work. What does not fit into a slice of calls is called
//! afterwards, with the lock of the follower alone.
//!
//! Lock order: the processor of the wide informer, then that of the follower; a thread inside a call of a listener, which has
//! that of either locked, waits for neither. Objects are shared between the stores, also when the wide one packs them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use pilothouse_object::{Held, Object};
use tokio::time::sleep;

use super::{Inner, SharedInformer};
use crate::aside::aside_if_large;
use crate::delta::Delta;
use crate::processor::{Audience, Processor};

impl SharedInformer {
    /// Makes the store equal to what the wide informer has of the namespace, and follows it from there. `false`: the wide
    /// informer has ended.
    pub(crate) async fn attach(&self, wide: &SharedInformer) -> bool {
        let Some(namespace) = &self.inner.namespace else { return false };
        {
            let mut outer = lock(&wide.inner.processor).await;
            if wide.inner.stopped.load(Ordering::Acquire) {
                return false;
            }
            wide.inner.followers.lock().add(namespace, &self.inner);
            *self.inner.followed.lock() = Some(wide.clone());
            let size = wide.inner.indexer.snapshot().cursor_of_namespace(namespace).at_most();
            aside_if_large(size.saturating_mul(1 + self.inner.indexer.index_count()), || {
                wide.inner.call(&mut outer, |_, _| self.inner.take_list(wide.inner.objects_of(namespace)));
            });
            self.inner.indexer.share_progress(&wide.inner.indexer);
        }
        self.inner.distribute_list().await;
        true
    }

    /// Ends the following: the store stays as the wide informer left it, and has a version of its own.
    pub(crate) async fn detach(&self, wide: &SharedInformer) {
        let Some(namespace) = &self.inner.namespace else { return };
        let _outer = lock(&wide.inner.processor).await;
        wide.inner.followers.lock().remove(namespace, &self.inner);
        *self.inner.followed.lock() = None;
        self.inner.indexer.own_progress();
    }

    /// Resyncs and initial objects of listeners, while the informer follows another one.
    pub(crate) async fn run_background(&self) {
        self.inner.run_background().await;
    }
}

/// Between two tries for a lock that is held while a list is handled.
const LOCK_RETRY: Duration = Duration::from_millis(1);

/// Locks a processor without blocking the thread while another one handles a list.
pub(super) async fn lock(processor: &Mutex<Processor>) -> MutexGuard<'_, Processor> {
    loop {
        if let Some(locked) = processor.try_lock() {
            return locked;
        }
        sleep(LOCK_RETRY).await;
    }
}

impl Inner {
    /// Applies changes of this informer to the followers that they concern, and begins to call their listeners. Returns those
    /// whose listeners are still to be called.
    pub(super) fn forward(
        &self,
        processor: &mut Processor,
        groups: Vec<(Vec<Arc<Self>>, Vec<Delta>)>,
    ) -> Vec<Arc<Self>> {
        if groups.is_empty() {
            return Vec::new();
        }
        self.call(processor, |_, _| {
            let mut unfinished = Vec::new();
            for (followers, deltas) in groups {
                for follower in followers {
                    if follower.take_deltas(&deltas) {
                        unfinished.push(follower);
                    }
                }
            }
            unfinished
        })
    }

    /// Makes the followers equal to a list that this informer has in its store. Their listeners are still to be called.
    pub(super) fn forward_list(&self, processor: &mut Processor) -> Vec<Arc<Self>> {
        let followers = self.followers.lock().all();
        self.call(processor, |_, _| {
            let mut taken = Vec::new();
            for (namespace, follower) in followers {
                follower.take_list(self.objects_of(&namespace));
                follower.shared.list_wanted.store(false, Ordering::Relaxed);
                taken.push(follower);
            }
            taken
        })
    }

    /// Gives the followers of the namespaces of objects their packed form, in place of their own.
    pub(super) fn share_packed(&self, packed: &[(Held, Held)]) {
        let groups = self.followers.lock().group(packed, |(old, _)| old.key(), Clone::clone);
        for (followers, packed) in groups {
            followers.iter().for_each(|follower| follower.indexer.adopt(&packed));
        }
    }

    fn objects_of(&self, namespace: &str) -> Vec<Object> {
        self.indexer.snapshot().namespace(namespace).map(Held::object).collect()
    }

    /// Whether listeners are still to be called.
    fn take_deltas(&self, deltas: &[Delta]) -> bool {
        let mut processor = self.processor.lock();
        let changes = self.indexer.apply_shared(deltas.iter().cloned());
        processor.enqueue(changes.into_iter(), false, Audience::Resyncing);
        self.call(&mut processor, Processor::distribute)
    }

    fn take_list(&self, list: Vec<Object>) {
        let mut processor = self.processor.lock();
        self.indexer.share(&list);
        self.replace(&mut processor, list);
    }
}
