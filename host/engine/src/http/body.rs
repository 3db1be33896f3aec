//! Bodies with limits: [`RequestBody`] limits the bytes that a guest sends, [`ResponseBody`] the bytes that it receives
//! and the time between them.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};
use wasmtime_wasi_http::{Error, WasiBody};

use super::MAX_BODY;
use super::client::Lease;
use super::connection::hyper_error;

/// Progress of a request body, shared between the body, which the connection owns, and the exchange.
#[derive(Debug, Default)]
pub(super) struct BodyProgress {
    bytes: AtomicU64,
    /// Whether the connection has received the whole body.
    whole: AtomicBool,
    too_large: AtomicBool,
}

impl BodyProgress {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.whole.load(Relaxed)
    }

    pub(super) fn is_too_large(&self) -> bool {
        self.too_large.load(Relaxed)
    }
}

/// The body of a request, streamed from the guest.
pub(super) struct RequestBody {
    guest: WasiBody,
    /// `Content-Length`, if the guest set it.
    length: Option<u64>,
    sent: Arc<BodyProgress>,
    /// Dangling once the instance is dropped. The guest's stream then ends like a complete one, although it is not.
    guest_lives: Weak<()>,
}

impl RequestBody {
    pub(super) fn new(
        guest: WasiBody,
        length: Option<u64>,
        guest_lives: Weak<()>,
    ) -> (Self, Arc<BodyProgress>) {
        let sent = Arc::new(BodyProgress::default());
        sent.whole.store(guest.is_end_stream() || length == Some(0), Relaxed);
        (Self { guest, length, sent: Arc::clone(&sent), guest_lives }, sent)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(Pin::new(&mut self.guest).poll_frame(cx)).transpose()?;
        let Some(frame) = frame else {
            if self.guest_lives.strong_count() == 0 {
                return Poll::Ready(Some(Err(Error::ConnectionTerminated)));
            }
            self.sent.whole.store(true, Relaxed);
            return Poll::Ready(None);
        };
        let size = frame.data_ref().map_or(0, |data| data.len() as u64);
        let bytes = self.sent.bytes.fetch_add(size, Relaxed) + size;
        if bytes > MAX_BODY {
            self.sent.too_large.store(true, Relaxed);
            return Poll::Ready(Some(Err(Error::HttpRequestBodySize(Some(MAX_BODY)))));
        }
        if self.length == Some(bytes) || frame.is_trailers() {
            self.sent.whole.store(true, Relaxed);
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.guest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.guest.size_hint()
    }
}

/// The body of a response, streamed to the guest. When it is read to its end, the connection returns to the pool; when
/// it is dropped earlier, the connection is closed.
pub(super) struct ResponseBody {
    server: Incoming,
    lease: Lease,
    /// Maximum time between two chunks.
    between: Option<Duration>,
    deadline: Instant,
    timer: Pin<Box<Sleep>>,
    received: u64,
    over: bool,
}

impl ResponseBody {
    pub(super) fn new(server: Incoming, lease: Lease, between: Option<Duration>, deadline: Instant) -> Self {
        let timer = Box::pin(sleep_until(next(between, deadline)));
        let mut body = Self { server, lease, between, deadline, timer, received: 0, over: false };
        if body.server.is_end_stream() {
            body.finish();
        }
        body
    }

    fn finish(&mut self) {
        self.over = true;
        self.lease.finish(self.received);
    }

    fn fail(&mut self, error: Error) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.over = true;
        self.lease.close(self.received);
        Poll::Ready(Some(Err(error)))
    }
}

/// The time at which the next chunk must have arrived.
fn next(between: Option<Duration>, deadline: Instant) -> Instant {
    between.and_then(|between| Instant::now().checked_add(between)).map_or(deadline, |at| at.min(deadline))
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.over {
            return Poll::Ready(None);
        }
        match Pin::new(&mut self.server).poll_frame(cx) {
            Poll::Pending => {
                ready!(self.timer.as_mut().poll(cx));
                self.fail(Error::ConnectionReadTimeout)
            }
            Poll::Ready(None) => {
                self.finish();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                let error = hyper_error(&error);
                self.fail(error)
            }
            Poll::Ready(Some(Ok(frame))) => {
                self.received += frame.data_ref().map_or(0, |data| data.len() as u64);
                if self.received > MAX_BODY {
                    return self.fail(Error::HttpResponseBodySize(Some(MAX_BODY)));
                }
                let until = next(self.between, self.deadline);
                self.timer.as_mut().reset(until);
                if self.server.is_end_stream() {
                    self.finish();
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.over
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.lease.close(self.received);
    }
}
