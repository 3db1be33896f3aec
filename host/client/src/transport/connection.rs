//! [`Connection`]: one HTTP/2 connection and the calls it carries; [`Slot`]: the place of one call on a connection.
//!
//! Invariants:
//! * A call is counted from [`Connection::reserve`] until its [`Slot`] is dropped, which is when its body has been read or
//!   given up; then one call that waits for a place is woken.
//! * A connection that is out of use serves the calls it has and gets no new one.
//! * Reads are counted, so that a call which timed out can tell a slow response from a dead peer.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper::rt::{Executor as _, Read, Write};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::runtime::RuntimeExecutor;

/// A call that is given up sooner does not show that the peer is dead.
const SILENCE: Duration = Duration::from_secs(1);
/// Most calls on a connection, whatever the peer allows: those of one share a TCP window and a thread of the server.
const MOST_CALLS: usize = 200;

/// One HTTP/2 connection.
pub(super) struct Connection {
    pub(super) sender: http2::SendRequest<Full<Bytes>>,
    calls: AtomicUsize,
    out_of_use: AtomicBool,
    /// Streams that the peer allows, by the settings that it has sent so far.
    allowed: Box<dyn Fn() -> usize + Send + Sync>,
    reads: Reads,
    /// Notified when a place falls free.
    free: Arc<Notify>,
}

/// How often bytes were read from a connection.
#[derive(Clone, Default)]
pub(super) struct Reads(Arc<AtomicU64>);

impl Reads {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The place of a call on an HTTP/2 connection. Calls over HTTP/1.1 have none: the connection is theirs alone, and ends
/// with a call that is given up.
pub(crate) struct Slot {
    connection: Arc<Connection>,
    began: Instant,
    /// Reads before the call was sent; `None` once its response has begun.
    reads: Option<u64>,
}

impl Connection {
    /// Runs the connection on `executor`.
    pub(super) fn start<T>(
        sender: http2::SendRequest<Full<Bytes>>,
        driver: http2::Connection<T, Full<Bytes>, RuntimeExecutor>,
        reads: Reads,
        free: Arc<Notify>,
        executor: &RuntimeExecutor,
    ) -> Arc<Self>
    where
        T: Read + Write + Unpin + Send + 'static,
    {
        // Only the driver knows the peer's settings, and its task sleeps while no call begins.
        let driver = Arc::new(Mutex::new(driver));
        let for_settings = Arc::downgrade(&driver);
        // Errors of the connection reach its calls.
        executor.execute(poll_fn(move |cx| Pin::new(&mut *driver.lock()).poll(cx).map(drop)));
        let allowed =
            move || for_settings.upgrade().map_or(0, |driver| driver.lock().current_max_send_streams());
        let (calls, out_of_use) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self { sender, calls, out_of_use, allowed: Box::new(allowed), reads, free })
    }

    /// Whether new calls may go over it.
    pub(super) fn is_open(&self) -> bool {
        !self.out_of_use.load(Ordering::Relaxed) && !self.sender.is_closed()
    }

    /// Gives it no new calls from now on.
    pub(super) fn take_out_of_use(&self) {
        self.out_of_use.store(true, Ordering::Relaxed);
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Streams that the peer allows; hyper's assumption until it has told.
    pub(super) fn allowed(&self) -> usize {
        (self.allowed)()
    }

    /// Whether another call fits well below the peer's limit of streams. A fifth of it is left: callers race, and streams
    /// that were given up count at the peer until it knows. Only callers that hold the pool's lock ask.
    pub(super) fn has_room(&self) -> bool {
        let peer = self.allowed();
        self.calls() < (peer - peer / 5).clamp(1, MOST_CALLS)
    }

    /// Whether the peer would refuse another call.
    pub(super) fn is_full(&self) -> bool {
        self.calls() >= self.allowed().clamp(1, MOST_CALLS)
    }

    /// A place for one more call.
    pub(super) fn reserve(self: &Arc<Self>) -> Slot {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Slot { connection: Arc::clone(self), began: Instant::now(), reads: Some(self.reads.count()) }
    }
}

impl Slot {
    /// The response has begun.
    pub(super) fn answered(&mut self) {
        self.reads = None;
    }

    /// The peer is silent: no new call goes over this connection.
    pub(super) fn broken(&self) {
        self.connection.take_out_of_use();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.calls.fetch_sub(1, Ordering::Relaxed);
        // Pings find a dead peer after 45 s. The call after one that was given up must not wait for the same peer.
        if self.reads.is_some_and(|before| connection.reads.count() == before)
            && self.began.elapsed() >= SILENCE
        {
            connection.take_out_of_use();
        }
        connection.free.notify_one();
    }
}
