//! [`Transport`]: the connections to one API server.
//!
//! ```text
//!                    ┌ requests ── pool ── HTTP/2 connections, or HTTP/1.1 ── connect
//!  head of a call ───┤
//!                    └ watches ─── pool ── others
//! ```
//!
//! Invariants:
//! * A watch and a request never share a connection, so that no flood of events delays a response.
//! * Sockets, timers and tasks of connections belong to the runtime of the [`Connector`], whichever runtime a call comes
//!   from.
//! * A dead peer is found by pings on HTTP/2 and by TCP keep-alive on HTTP/1.1; and before that by a call that was given
//!   up while no byte was read, after which the next call takes a new connection.
//! * A call is sent again only if the server certainly did not process it.
//! * After certificates have rotated, calls use new connections; the old ones are closed after [`RETIRED_LIFE`].

mod body;
mod connect;
mod connection;
mod pool;
mod runtime;
#[cfg(test)]
mod tests;
mod write_gate;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use tokio::time::Instant;

pub(crate) use body::ResponseBody;
pub(crate) use connect::{Connector, system_resolver};
use pool::Pool;
pub(crate) use pool::SendError;
pub use write_gate::WriteGate;

/// As client-go: a connection without a byte for 30 s is asked, and dropped after 15 s without an answer.
const PING_AFTER: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// How long calls may stay on a connection that was made with certificates which have rotated since: long enough for a
/// large list, short enough that a revoked certificate is not in use for days.
const RETIRED_LIFE: Duration = Duration::from_secs(300);
/// Unread bytes of a watch: one that nobody reads must not hold up the others on its connection.
const WATCH_WINDOW: u32 = 1 << 20;
/// Unread bytes of a response. Responses are read at once; large lists over a slow line need the room.
const REQUEST_WINDOW: u32 = 8 << 20;

/// How a request is sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SendOptions {
    /// Whether it goes over the connections of watches.
    pub(crate) watch: bool,
    /// Until when to wait for a free connection.
    pub(crate) until: Option<Instant>,
}

/// The connections to one API server.
pub(crate) struct Transport {
    connector: Connector,
    requests: Pool,
    watches: Pool,
    max_connections: usize,
    /// The certificates that the connections were made with.
    rotation: AtomicU64,
}

impl Transport {
    /// Connections to `server`, at most `max_connections` for requests and as many for watches.
    pub(crate) fn new(connector: &Connector, server: &Uri, max_connections: usize) -> Self {
        let pool = |window| Pool::new(connector.clone(), server.clone(), window, max_connections);
        Self {
            connector: connector.clone(),
            requests: pool(REQUEST_WINDOW),
            watches: pool(WATCH_WINDOW),
            max_connections,
            rotation: AtomicU64::new(connector.rotations()),
        }
    }

    /// Sends a request, or opens a watch, and gives the head of its response.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        options: SendOptions,
    ) -> Result<Response<ResponseBody>, SendError> {
        let rotation = self.connector.rotations();
        // Rotations are counted: of several requests that see a new number one retires the pools.
        if self.rotation.fetch_max(rotation, Ordering::Relaxed) < rotation {
            self.requests.retire();
            self.watches.retire();
        }
        let pool = if options.watch { &self.watches } else { &self.requests };
        let mut repeated = 0;
        loop {
            match pool.send(request.clone(), options.until).await {
                Err(error) if repeated < error.repeats(self.max_connections) => {
                    tracing::debug!("sent over another connection: {error}");
                    repeated += 1;
                }
                result => return result,
            }
        }
    }
}
