//! [`Broadcaster`]: values of one origin to any number of watchers, each with a queue of its own, as apimachinery's
//! `watch.Broadcaster`. An [`EventBroadcaster`](crate::EventBroadcaster) distributes its events by it.
//!
//! ```text
//!  action ──► incoming queue ──► distributor (one task) ──┬─► queue ──► watcher
//!                                                         └─► queue ──► watcher
//! ```
//!
//! Invariants:
//! - a watcher gets its prefix, then each event that was taken after it began to watch, in the order in which they were taken; under
//!   [`FullChannelBehavior::DropIfChannelFull`] it may lack some, and counts them;
//! - a watcher that stops, or is dropped, frees whoever waits for it, and takes nothing from the others;
//! - an event that was taken is distributed, also behind a shutdown; after one nothing is taken.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::future::join_all;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};

/// What happens to an event for a watcher whose queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FullChannelBehavior {
    /// It waits for room, and all later events of all watchers with it: none is lost.
    WaitIfChannelFull,
    /// This watcher does not get it: none waits.
    DropIfChannelFull,
}

/// The broadcaster was shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the broadcaster has been shut down: it takes neither events nor watchers any more")]
pub struct BroadcasterShutDown;

/// Distributes events to watchers; a cheap clone. When the last clone is dropped it ends as by [`shutdown`](Self::shutdown).
pub struct Broadcaster<T> {
    incoming: mpsc::Sender<Message<T>>,
    queue_length: usize,
    closing: Arc<watch::Sender<bool>>,
    /// Its sender goes with the distributor.
    distributing: watch::Receiver<()>,
}

/// The events of a [`Broadcaster`] from when it was made; also a `Stream`. Dropping it stops it.
pub struct BroadcastWatcher<T> {
    queue: mpsc::Receiver<T>,
    missed: Arc<AtomicU64>,
}

enum Message<T> {
    Event(T),
    Watch(Outlet<T>),
}

/// Where a watcher's events go in.
struct Outlet<T> {
    queue: mpsc::Sender<T>,
    missed: Arc<AtomicU64>,
}

impl<T: Clone + Send + 'static> Broadcaster<T> {
    /// How many events may wait for the distributor unless another number is given, as in client-go.
    pub const INCOMING_QUEUE: usize = 25;

    /// A broadcaster whose watchers have queues of `queue_length` events, at least one.
    ///
    /// # Panics
    /// Outside of a tokio runtime, in which its distributor runs.
    #[must_use]
    pub fn new(queue_length: usize, full: FullChannelBehavior) -> Self {
        Self::with_incoming_queue(Self::INCOMING_QUEUE, queue_length, full)
    }

    /// As [`new`](Self::new), with room for `incoming` events, at least one, that wait for the distributor.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[must_use]
    pub fn with_incoming_queue(incoming: usize, queue_length: usize, full: FullChannelBehavior) -> Self {
        let (sender, receiver) = mpsc::channel(incoming.max(1));
        let (closing, is_closing) = watch::channel(false);
        let (alive, distributing) = watch::channel(());
        tokio::spawn(async move {
            Distributor { watchers: Vec::new(), full }.run(receiver, is_closing).await;
            drop(alive);
        });
        Self { incoming: sender, queue_length: queue_length.max(1), closing: Arc::new(closing), distributing }
    }

    /// A watcher of the events that are taken from now on. It queues behind those that were taken before, and waits as they do while
    /// the incoming queue is full.
    ///
    /// # Errors
    /// When it was shut down.
    pub async fn watch(&self) -> Result<BroadcastWatcher<T>, BroadcasterShutDown> {
        self.watch_with_prefix(Vec::new()).await
    }

    /// As [`watch`](Self::watch), with these events before them, whatever the length of the queue.
    ///
    /// # Errors
    /// When it was shut down.
    pub async fn watch_with_prefix(
        &self,
        prefix: Vec<T>,
    ) -> Result<BroadcastWatcher<T>, BroadcasterShutDown> {
        let (sender, queue) = mpsc::channel(self.queue_length + prefix.len());
        for event in prefix {
            // There is room, and the other end is here.
            let _ = sender.try_send(event);
        }
        let missed = Arc::new(AtomicU64::new(0));
        let outlet = Outlet { queue: sender, missed: Arc::clone(&missed) };
        self.take(Message::Watch(outlet)).await?;
        Ok(BroadcastWatcher { queue, missed })
    }

    /// Distributes an event; waits while the incoming queue is full. Cancel-safe: an event whose call is dropped before it
    /// has returned may not have been taken.
    ///
    /// # Errors
    /// When it was shut down; the event was not taken then.
    pub async fn action(&self, event: T) -> Result<(), BroadcasterShutDown> {
        self.take(Message::Event(event)).await
    }

    /// Distributes an event if there is room in the incoming queue, and says whether there was. Never waits.
    ///
    /// # Errors
    /// As [`action`](Self::action).
    pub fn action_or_drop(&self, event: T) -> Result<bool, BroadcasterShutDown> {
        if *self.closing.borrow() {
            return Err(BroadcasterShutDown);
        }
        match self.incoming.try_send(Message::Event(event)) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Closed(_)) => Err(BroadcasterShutDown),
        }
    }

    /// Takes nothing more, and waits until all that was taken is in the queues of the watchers, who come to their end behind it. A
    /// watcher that does not read may make this wait for ever under [`FullChannelBehavior::WaitIfChannelFull`]; whoever drops the call
    /// ends the wait alone. May be called again.
    pub async fn shutdown(&self) {
        self.closing.send_replace(true);
        let mut distributing = self.distributing.clone();
        while distributing.changed().await.is_ok() {}
    }

    async fn take(&self, message: Message<T>) -> Result<(), BroadcasterShutDown> {
        let mut closing = self.closing.subscribe();
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => Err(BroadcasterShutDown),
            taken = self.incoming.send(message) => taken.map_err(|_| BroadcasterShutDown),
        }
    }
}

/// The task between the incoming queue and those of the watchers.
struct Distributor<T> {
    watchers: Vec<Outlet<T>>,
    full: FullChannelBehavior,
}

impl<T: Clone> Distributor<T> {
    async fn run(mut self, mut incoming: mpsc::Receiver<Message<T>>, mut closing: watch::Receiver<bool>) {
        let mut closed = false;
        loop {
            let message = tokio::select! {
                biased;
                // Also when nobody is left who could say it.
                _ = closing.wait_for(|closing| *closing), if !closed => {
                    incoming.close();
                    closed = true;
                    continue;
                }
                message = incoming.recv() => message,
            };
            match message {
                Some(Message::Event(event)) => self.distribute(event).await,
                Some(Message::Watch(outlet)) => {
                    self.watchers.retain(|watcher| !watcher.queue.is_closed());
                    self.watchers.push(outlet);
                }
                None => return,
            }
        }
    }

    async fn distribute(&mut self, event: T) {
        let full = self.full;
        // First whoever has room: none of them is to wait for those who have not.
        let mut waiting = Vec::new();
        self.watchers.retain(|watcher| match watcher.queue.try_send(event.clone()) {
            Ok(()) => true,
            Err(TrySendError::Closed(_)) => false,
            Err(TrySendError::Full(event)) => {
                match full {
                    FullChannelBehavior::WaitIfChannelFull => waiting.push((watcher.queue.clone(), event)),
                    FullChannelBehavior::DropIfChannelFull => {
                        watcher.missed.fetch_add(1, Ordering::Relaxed);
                    }
                }
                true
            }
        });
        // One that stops meanwhile is found closed with the next event.
        join_all(waiting.into_iter().map(async |(queue, event)| queue.send(event).await.is_ok())).await;
    }
}

impl<T> BroadcastWatcher<T> {
    /// The next event; `None` behind the last one, after [`stop`](Self::stop) or a shutdown. Cancel-safe.
    pub async fn next(&mut self) -> Option<T> {
        self.queue.recv().await
    }

    /// Takes nothing more into the queue; what is in it can still be read.
    pub fn stop(&mut self) {
        self.queue.close();
    }

    /// How many events did not come because the queue was full.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// The counter behind [`missed`](Self::missed): for who reads it while another has the watcher.
    #[must_use]
    pub fn missed_counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.missed)
    }
}

impl<T> Stream for BroadcastWatcher<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.queue.poll_recv(cx)
    }
}

impl<T> Clone for Broadcaster<T> {
    fn clone(&self) -> Self {
        Self {
            incoming: self.incoming.clone(),
            queue_length: self.queue_length,
            closing: Arc::clone(&self.closing),
            distributing: self.distributing.clone(),
        }
    }
}

impl<T> fmt::Debug for Broadcaster<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broadcaster")
            .field("queue_length", &self.queue_length)
            .field("shut_down", &*self.closing.borrow())
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for BroadcastWatcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastWatcher").field("missed", &self.missed()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
