//! [`Transport`]: the connections to one API server.
//!
//! ```text
//!                     ┌ requests ── pool ── HTTP/2 connections, or HTTP/1.1
//!  head of a call ────┤
//!                     └ watches ─── pool ── others
//! ```
//!
//! Invariants:
//! * A watch and a request never share a connection, so that no flood of events delays an answer.
//! * Sockets, timers and tasks of connections belong to the runtime given to the [`Connector`], whichever runtime a
//!   call comes from: guests run in one of their own, and must not take a connection with them when it goes.
//! * A dead peer is noticed by pings on HTTP/2 and by TCP keep-alive on HTTP/1.1; and before that by a call that was given
//!   up while not a byte came, after which the next one takes a new connection.

mod connect;
mod connection;
mod dial;
mod pool;
mod read_ahead;
mod runtime;

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;

pub(crate) use connect::Connector;
pub(crate) use connection::Slot;
use pool::{Pool, SendError};
pub(crate) use runtime::AbortOnDrop;

/// As client-go: a connection without a byte for 30 s is asked, and dropped after 15 s without an answer.
pub(crate) const PING_AFTER: Duration = Duration::from_secs(30);
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// What a watch may have under way: one that nobody reads must not hold up the others on its connection.
const WATCH_WINDOW: u32 = 1 << 20;
/// Answers are read at once; large lists over a slow line need the room.
const REQUEST_WINDOW: u32 = 8 << 20;

/// The connections to one API server.
pub(crate) struct Transport {
    requests: Pool,
    watches: Pool,
}

impl Transport {
    pub(crate) fn new(connector: &Connector, server: &Uri) -> Self {
        let pool = |window| Pool::new(connector.clone(), server.clone(), window);
        Self { requests: pool(REQUEST_WINDOW), watches: pool(WATCH_WINDOW) }
    }

    /// New connections from now on: certificates have rotated. Streams of the old ones go on until they end.
    pub(crate) fn retire(&self) {
        self.requests.retire();
        self.watches.retire();
    }

    /// Sends a request, or opens a watch, and gives the head of its answer; the slot is to be kept as long as its body.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        watch: bool,
    ) -> Result<(Response<Incoming>, Slot), SendError> {
        if watch { self.watches.send(request).await } else { self.requests.send(request).await }
    }
}
