//! Handling work from the queue: the store first, then followers, then listeners; resyncs; calls of listeners.
//!
//! Invariants: `processor` is locked while the store changes and while listeners are called. The store changes in portions,
//! and listeners are called in slices, of about a millisecond; other tasks run in between, and what is still to be called
//! waits in the processor. A version is announced when the stores of all followers have it as well. A thread that is inside
//! a call of a listener waits for no processor.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::MutexGuard;
use pilothouse_object::Object;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::Inner;
use super::follow::lock;
use super::portion::Portion;
use crate::aside::{aside, aside_if_large};
use crate::change::Change;
use crate::delta::Delta;
use crate::delta_fifo::{DeltaFifo, Work, WorkKind};
use crate::processor::{Audience, Figures, Processor};
use crate::reflector::count;
use crate::registration::Remove;

/// Handling one piece of work for so long is logged: client-go's threshold, which grows with the batch up to a second.
const SLOW_ITEM: Duration = Duration::from_millis(100);
const SLOW_WORK: Duration = Duration::from_secs(1);

thread_local! {
    /// The informers whose listeners or followers this thread is calling, the innermost last.
    static CALLING: RefCell<Vec<*const Inner>> = const { RefCell::new(Vec::new()) };
}

/// Takes an informer out of [`CALLING`], also when a call panics.
struct CallGuard;

impl CallGuard {
    fn new(inner: &Inner) -> Self {
        CALLING.with_borrow_mut(|calling| calling.push(std::ptr::from_ref(inner)));
        Self
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        CALLING.with_borrow_mut(Vec::pop);
    }
}

impl Inner {
    pub(super) async fn handle_all(self: &Arc<Self>, fifo: &DeltaFifo) {
        let mut maintenance: Option<JoinHandle<()>> = None;
        let mut portion = Portion::new(DeltaFifo::BATCH);
        while let Some(work) = fifo.pop(portion.size(self.indexer.index_count())).await {
            let initial = work.initial;
            let began = Instant::now();
            let items = match &work.kind {
                WorkKind::Deltas(batch) => batch.len(),
                // An empty list is a piece of work as well.
                WorkKind::Replace(list) => list.len().max(1),
                WorkKind::Resync | WorkKind::Bookmark => 1,
            };
            self.handle(work, fifo, &mut portion).await;
            let took = began.elapsed();
            self.shared.processing_latency.lock().observe(took.as_secs_f64());
            if took > SLOW_WORK.min(SLOW_ITEM * u32::try_from(items).unwrap_or(u32::MAX)) {
                tracing::warn!(event = "deltas_slow", cluster = self.shared.cluster(), resource = %self.resource.gvr(), items, ?took,
                    "handling deltas was slow");
            }
            fifo.done(initial);
            self.share_packed(&self.indexer.cool());
            if self.indexer.wants_maintenance() && maintenance.as_ref().is_none_or(JoinHandle::is_finished) {
                let inner = self.clone();
                maintenance = Some(tokio::task::spawn_blocking(move || {
                    inner.indexer.maintain_with(|packed| inner.share_packed(packed));
                }));
            }
            // A full queue must not keep the reflector, or other tasks, from running. One event must not cost a round of the
            // runtime more.
            if !fifo.is_empty() {
                tokio::task::yield_now().await;
            }
        }
        if let Some(maintenance) = maintenance {
            let _ = maintenance.await;
        }
    }

    async fn handle(&self, work: Work, fifo: &DeltaFifo, portion: &mut Portion) {
        let Work { kind, seen, .. } = work;
        let seen = seen.as_ref();
        match kind {
            WorkKind::Bookmark => self.indexer.announce(seen),
            WorkKind::Deltas(batch) => {
                let (followers, has_more) = {
                    let mut processor = lock(&self.processor).await;
                    let (items, began) = (batch.len(), Instant::now());
                    let changes = self.indexer.apply_hot(batch);
                    let of_followers = self.followers.lock().group(&changes, Change::key, Change::to_delta);
                    processor.enqueue(changes.into_iter(), false, Audience::Resyncing);
                    let followers = self.forward(&mut processor, of_followers);
                    self.indexer.announce(seen);
                    portion.took(items, began.elapsed());
                    (followers, self.call(&mut processor, Processor::distribute))
                };
                for follower in followers {
                    follower.distribute_more().await;
                }
                if has_more {
                    self.distribute_more().await;
                }
            }
            WorkKind::Replace(list) => {
                let steps = list.len().saturating_mul(1 + self.indexer.index_count());
                let followers = {
                    let mut processor = lock(&self.processor).await;
                    aside_if_large(steps, || {
                        self.replace(&mut processor, list);
                        let followers = self.forward_list(&mut processor);
                        self.indexer.announce(seen);
                        followers
                    })
                };
                for follower in followers {
                    follower.distribute_list().await;
                }
                self.distribute_list().await;
            }
            WorkKind::Resync => self.resync(fifo).await,
        }
    }

    /// Takes a list over, and queues what it changes for the listeners, whom [`distribute_list`](Self::distribute_list) calls.
    pub(super) fn replace(&self, processor: &mut Processor, list: Vec<Object>) {
        let changes = self.indexer.replace_lazily(list, processor.wants_unchanged());
        processor.enqueue(changes, !*self.synced.borrow(), Audience::Resyncing);
        self.lists.send_modify(|lists| *lists += 1);
    }

    /// Calls listeners for the changes of a list, which is in the store.
    pub(super) async fn distribute_list(&self) {
        self.distribute_all().await;
        let mut processor = lock(&self.processor).await;
        self.call(&mut processor, |processor, removed| processor.end_initial_list(removed));
        self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
    }

    /// Calls listeners for all queued changes.
    async fn distribute_all(&self) {
        if self.distribute_slice().await {
            self.distribute_more().await;
        }
    }

    /// Calls listeners for the queued changes that a slice has left.
    async fn distribute_more(&self) {
        loop {
            tokio::task::yield_now().await;
            if !self.distribute_slice().await {
                return;
            }
        }
    }

    async fn distribute_slice(&self) -> bool {
        let mut processor = lock(&self.processor).await;
        self.call(&mut processor, Processor::distribute)
    }

    /// Announces every object again to the listeners that are due, a batch at a time.
    async fn resync(&self, fifo: &DeltaFifo) {
        if !lock(&self.processor).await.begin_resync() {
            return;
        }
        count(&self.resyncs);
        let keys = aside_if_large(self.indexer.len(), || self.indexer.keys());
        for keys in keys.chunks(DeltaFifo::BATCH) {
            {
                let mut processor = lock(&self.processor).await;
                // What is about to change is not announced in its old state.
                let pending = fifo.pending_keys();
                let calm = keys.iter().filter(|key| !pending.contains(*key));
                let changes = self.indexer.apply_shared(calm.map(|key| Delta::Sync(key.clone())));
                processor.enqueue(changes.into_iter(), false, Audience::Due);
            }
            self.distribute_all().await;
            tokio::task::yield_now().await;
        }
        lock(&self.processor).await.end_resync();
    }

    /// What goes on beside the handling of work, without end: resyncs that become due, and initial objects of listeners
    /// that joined late.
    pub(super) async fn run_background(&self) {
        tokio::select! {
            () = self.resync_when_due() => {}
            () = self.replay_late_listeners() => {}
        }
    }

    async fn replay_late_listeners(&self) {
        loop {
            // First, also: a pipeline that ended in the middle of a replay leaves the rest to the next one.
            while {
                let mut processor = lock(&self.processor).await;
                for new in std::mem::take(&mut self.deferred.lock().joining) {
                    processor.add(new, &self.indexer.snapshot());
                    self.resyncs_changed.notify_one();
                }
                self.call(&mut processor, Processor::replay)
            } {
                tokio::task::yield_now().await;
            }
            self.replays.notified().await;
        }
    }

    /// Asks for resyncs when listeners are due.
    async fn resync_when_due(&self) {
        // Before that there is nothing to announce.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
        loop {
            let next = lock(&self.processor).await.next_resync();
            let due = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.resyncs_changed.notified() => {}
                () = due => {
                    if lock(&self.processor).await.mark_due(Instant::now()) {
                        let fifo = self.queue.lock().fifo.clone();
                        if self.followed.lock().is_some() {
                            self.resync(&fifo).await;
                        } else {
                            fifo.resync();
                        }
                    }
                }
            }
        }
    }

    /// Calls listeners. A listener that removes itself, or another one, meanwhile is not called any more.
    pub(super) fn call<R>(
        &self,
        processor: &mut Processor,
        calls: impl FnOnce(&mut Processor, &dyn Fn(u64) -> bool) -> R,
    ) -> R {
        let removed =
            |id| self.any_leaving.load(Ordering::Acquire) && self.deferred.lock().leaving.contains(&id);
        // Also while listeners are dropped: they may remove others.
        let _guard = CallGuard::new(self);
        let outcome = calls(processor, &removed);
        self.remove_leaving(processor);
        outcome
    }

    /// Removes the listeners that left from inside a call.
    fn remove_leaving(&self, processor: &mut Processor) {
        while let Some(id) = self.next_leaving() {
            processor.remove(id);
        }
    }

    fn next_leaving(&self) -> Option<u64> {
        if !self.any_leaving.load(Ordering::Acquire) {
            return None;
        }
        let mut deferred = self.deferred.lock();
        let next = deferred.leaving.pop();
        self.any_leaving.store(next.is_some(), Ordering::Release);
        next
    }

    /// Whether this thread is inside a call of a listener of this informer, with the processor locked.
    pub(super) fn is_calling(&self) -> bool {
        CALLING.with_borrow(|calling| calling.contains(&std::ptr::from_ref(self)))
    }

    /// Locks the processor; on a runtime with threads, other tasks go on while it waits.
    pub(super) fn lock_processor(&self) -> MutexGuard<'_, Processor> {
        self.processor.try_lock().unwrap_or_else(|| aside(|| self.processor.lock()))
    }

    /// The figures of the listeners, without waiting for work that is being handled.
    pub(super) fn figures(&self) -> Figures {
        let mut last = self.last_figures.lock();
        if let Some(processor) = self.processor.try_lock() {
            *last = processor.figures();
        }
        last.clone()
    }
}

/// Whether this thread is inside a call of a listener of any informer.
pub(super) fn is_in_call() -> bool {
    CALLING.with_borrow(|calling| !calling.is_empty())
}

impl Remove for Inner {
    fn remove_listener(&self, id: u64) {
        if !is_in_call() {
            let mut processor = self.lock_processor();
            self.deferred.lock().joining.retain(|new| new.id != id);
            processor.remove(id);
            drop(processor);
            self.resyncs_changed.notify_one();
            return;
        }
        let mut deferred = self.deferred.lock();
        deferred.joining.retain(|new| new.id != id);
        deferred.leaving.push(id);
        self.any_leaving.store(true, Ordering::Release);
        drop(deferred);
        match self.processor.try_lock() {
            Some(mut processor) => self.remove_leaving(&mut processor),
            // The thread that has it locked may have looked already.
            None => self.replays.notify_one(),
        }
    }
}
