//! A payload, a waker that counts, and shorthands. Used by all topics.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pilothouse_workqueue::{Item, Merge, Priority, Queue};

/// A set of reasons, as the host has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reasons(pub(crate) u8);

impl Merge for Reasons {
    fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// The queue of most tests.
pub(crate) type TestQueue = Queue<&'static str, Reasons>;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Takes a key and gives it back; the keys in the order in which the queue hands them out, until it is empty.
pub(crate) fn drain<M: Merge>(queue: &Queue<&'static str, M>) -> Vec<&'static str> {
    std::iter::from_fn(|| {
        let item = queue.try_get()?;
        let key = item.key;
        queue.done(item);
        Some(key)
    })
    .collect()
}

/// Takes the next key, which must be there.
pub(crate) fn take<M: Merge>(queue: &Queue<&'static str, M>) -> Item<&'static str, M> {
    queue.try_get().expect("a key is ready")
}

/// Adds keys at normal priority, for no reason.
pub(crate) fn add_all<M: Merge>(
    queue: &Queue<&'static str, M>,
    keys: impl IntoIterator<Item = &'static str>,
) {
    keys.into_iter().for_each(|key| queue.add(key));
}

/// Adds a key delayed, at normal priority, for no reason.
pub(crate) fn delay(queue: &TestQueue, key: &'static str, millis: u64) {
    queue.add_after(key, Reasons(0), Priority::NORMAL, ms(millis));
}

/// A future under the test's control: it is polled when the test says so, and its wake-ups are counted.
pub(crate) struct Polled<F> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
}

struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl<F: Future> Polled<F> {
    pub(crate) fn new(future: F) -> Self {
        Self { future: Box::pin(future), wakes: Arc::new(Wakes(AtomicUsize::new(0))) }
    }

    /// A future that has been polled once and was not ready.
    pub(crate) fn pending(future: F) -> Self {
        let mut polled = Self::new(future);
        assert!(polled.poll().is_pending(), "nothing to return yet");
        polled
    }

    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// What a future returns that is ready at once.
    pub(crate) fn ready(&mut self) -> F::Output {
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it waits"),
        }
    }

    pub(crate) fn woken(&self) -> bool {
        self.wakes.0.load(Ordering::SeqCst) > 0
    }

    /// What a woken future returns.
    pub(crate) fn output(&mut self) -> F::Output {
        assert!(self.woken(), "nobody woke the future");
        self.ready()
    }
}
