//! [`Connection`]: one HTTP/2 connection and the calls it carries; [`Slot`]: a call's place on a connection.
//!
//! Invariants:
//! * A call is counted from [`Connection::reserve`] until its [`Slot`] is dropped, which is when its body has been read or
//!   given up.
//! * A connection that is out of use serves the calls it has and gets no new one.
//! * Bytes that come are counted, so that a call which ran out of time can tell a slow answer from a peer that is gone.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper::rt::{Read, ReadBufCursor, Write};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::transport::runtime::RuntimeExecutor;

/// A call given up sooner says nothing of the peer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most calls on a connection, whatever the peer allows: those of one share a TCP window and a thread of the server.
const MOST_CALLS: usize = 200;

/// One HTTP/2 connection.
pub(crate) struct Connection {
    pub(crate) sender: http2::SendRequest<Full<Bytes>>,
    calls: AtomicUsize,
    out_of_use: AtomicBool,
    /// Streams that the peer allows, as its settings say by now.
    allowed: Box<dyn Fn() -> usize + Send + Sync>,
    reads: Reads,
}

/// How often bytes have come over a connection.
#[derive(Clone, Default)]
pub(crate) struct Reads(Arc<AtomicU64>);

/// A call's place on a connection.
pub(crate) struct Slot(SlotProtocol);

enum SlotProtocol {
    Http2 {
        connection: Arc<Connection>,
        began: Instant,
        /// Reads before the call was sent; `None` once its answer has begun.
        reads: Option<u64>,
    },
    /// HTTP/1.1: the connection is the call's alone, and ends with a call that is given up.
    Http1,
}

impl Connection {
    /// Runs the connection on `runtime`.
    pub(crate) fn start<T>(
        sender: http2::SendRequest<Full<Bytes>>,
        driver: http2::Connection<Counted<T>, Full<Bytes>, RuntimeExecutor>,
        reads: Reads,
        runtime: &Handle,
    ) -> Arc<Self>
    where
        T: Read + Write + Unpin + Send + 'static,
    {
        // Only the driver knows the peer's settings, and its task sleeps while no call begins.
        let driver = Arc::new(Mutex::new(driver));
        let task = Arc::clone(&driver);
        // What went wrong is told to the calls.
        runtime.spawn(poll_fn(move |cx| Pin::new(&mut *task.lock()).poll(cx).map(drop)));
        let driver = Arc::downgrade(&driver);
        let allowed = move || driver.upgrade().map_or(0, |driver| driver.lock().current_max_send_streams());
        let (calls, out_of_use) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self { sender, calls, out_of_use, allowed: Box::new(allowed), reads })
    }

    /// Whether new calls may go over it.
    pub(crate) fn is_open(&self) -> bool {
        !self.out_of_use.load(Ordering::Relaxed) && !self.sender.is_closed()
    }

    /// Gives it no new calls from now on.
    pub(crate) fn take_out_of_use(&self) {
        self.out_of_use.store(true, Ordering::Relaxed);
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Streams that the peer allows; what hyper assumes until it has said.
    pub(crate) fn allowed(&self) -> usize {
        (self.allowed)()
    }

    /// Whether another call fits below the peer's limit of streams. A fifth of it is left: callers race, and streams that
    /// were given up count at the peer until it knows. Only callers that hold the pool's lock ask.
    pub(crate) fn has_room(&self) -> bool {
        let peer = self.allowed();
        self.calls() < (peer - peer / 5).clamp(1, MOST_CALLS)
    }

    /// A place for one more call.
    pub(crate) fn reserve(self: &Arc<Self>) -> Slot {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let reads = Some(self.reads.0.load(Ordering::Relaxed));
        Slot(SlotProtocol::Http2 { connection: Arc::clone(self), began: Instant::now(), reads })
    }
}

impl Slot {
    /// A call over HTTP/1.1.
    pub(crate) const HTTP1: Self = Self(SlotProtocol::Http1);

    /// The answer has begun.
    pub(crate) fn answered(&mut self) {
        if let SlotProtocol::Http2 { reads, .. } = &mut self.0 {
            *reads = None;
        }
    }

    /// The peer has fallen silent: no new call goes over this connection.
    pub(crate) fn broken(&self) {
        if let SlotProtocol::Http2 { connection, .. } = &self.0 {
            connection.take_out_of_use();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let SlotProtocol::Http2 { connection, began, reads } = &self.0 else { return };
        connection.calls.fetch_sub(1, Ordering::Relaxed);
        // Pings find a dead peer after 45 s. A call that was given up before must not have the next one wait for the same.
        let silent = |before: u64| connection.reads.0.load(Ordering::Relaxed) == before;
        if reads.is_some_and(silent) && began.elapsed() >= PATIENCE {
            connection.take_out_of_use();
        }
    }
}

impl Reads {
    /// The same stream, whose reads are counted.
    pub(crate) fn of<T>(&self, io: T) -> Counted<T> {
        Counted { io, reads: self.clone() }
    }
}

/// A connection whose reads are counted.
pub(crate) struct Counted<T> {
    io: T,
    reads: Reads,
}

impl<T: Read + Unpin> Read for Counted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if read.is_ready() {
            self.reads.0.fetch_add(1, Ordering::Relaxed);
        }
        read
    }
}

impl<T: Write + Unpin> Write for Counted<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }
}
