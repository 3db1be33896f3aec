//! [`Transport`]: the connections to one API server.
//!
//! ```text
//!                     ┌ requests ── pool ── one HTTP/2 connection (or several HTTP/1.1)
//!  head of a call ────┤
//!                     └ watches ─── pool, pool, … each with at most 80 streams
//! ```
//!
//! Invariants:
//! * A watch and a request never share a connection, so that no flood of events delays an answer.
//! * Sockets, timers and tasks of connections belong to the runtime given to the [`Connector`], whichever runtime a
//!   call comes from: guests run in one of their own, and must not take a connection with them when it goes.
//! * Nothing is sent twice.
//! * A dead peer is noticed by pings on HTTP/2 and by TCP keep-alive on HTTP/1.1.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::client::legacy::{Client, Error};
use parking_lot::Mutex;

use crate::connect::Connector;
use crate::runtime::{RuntimeExecutor, RuntimeTimer};

/// As client-go: a connection without a byte for 30 s is asked, and dropped after 15 s without an answer.
pub(crate) const PING_AFTER: Duration = Duration::from_secs(30);
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// API servers serve 100 streams on a connection; the 101st would wait for one of the others to end.
const WATCHES_PER_POOL: usize = 80;
/// API servers close connections without a stream after 90 s; a request must not run into that.
const IDLE: Duration = Duration::from_secs(60);
/// What a watch may have under way, and all of a connection together: one that nobody reads must not hold up the others
/// on its connection.
const WATCH_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 128 << 20;
/// Answers are read at once; large lists over a slow line need the room.
const REQUEST_WINDOW: u32 = 8 << 20;

type HttpClient = Client<Connector, Full<Bytes>>;

/// The connections to one API server.
pub(crate) struct Transport {
    requests: Mutex<Arc<Pool>>,
    watches: Mutex<Vec<Arc<Pool>>>,
    connector: Connector,
}

/// A watch's place on a connection, free again when dropped.
pub(crate) struct WatchSlot(Arc<Pool>);

struct Pool {
    http: HttpClient,
    /// Whether the last exchange went well, so that a connection is likely there.
    warm: AtomicBool,
    /// Held while the first connection is made. Without it each of many first requests would make one of its own,
    /// since only the TLS handshake tells whether they can share.
    first: tokio::sync::Mutex<()>,
    watches: AtomicUsize,
}

impl Transport {
    pub(crate) fn new(connector: Connector) -> Self {
        let requests = Mutex::new(Arc::new(Pool::new(&connector, REQUEST_WINDOW)));
        Self { requests, watches: Mutex::default(), connector }
    }

    /// New connections from now on: certificates have rotated. Streams of the old ones go on until they end.
    pub(crate) fn retire(&self) {
        *self.requests.lock() = Arc::new(Pool::new(&self.connector, REQUEST_WINDOW));
        self.watches.lock().clear();
    }

    /// Sends a request and gives the head of its answer.
    pub(crate) async fn request(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Error> {
        let pool = Arc::clone(&self.requests.lock());
        pool.send(request).await
    }

    /// Opens a watch on a connection that serves watches only.
    pub(crate) async fn watch(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, WatchSlot), Error> {
        let slot = self.slot();
        let response = slot.0.send(request).await?;
        Ok((response, slot))
    }

    fn slot(&self) -> WatchSlot {
        let mut pools = self.watches.lock();
        let free = pools.iter().find(|pool| pool.watches.load(Ordering::Relaxed) < WATCHES_PER_POOL);
        let pool = match free {
            Some(pool) => Arc::clone(pool),
            None => {
                let pool = Arc::new(Pool::new(&self.connector, WATCH_WINDOW));
                pools.push(Arc::clone(&pool));
                pool
            }
        };
        // Counted under the lock: only releases race with it.
        pool.watches.fetch_add(1, Ordering::Relaxed);
        WatchSlot(pool)
    }
}

impl WatchSlot {
    /// The connection broke.
    pub(crate) fn broken(&self) {
        self.0.warm.store(false, Ordering::Relaxed);
    }
}

impl Drop for WatchSlot {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
    fn new(connector: &Connector, window: u32) -> Self {
        let runtime = &connector.runtime;
        let timer = || RuntimeTimer(runtime.clone());
        let http = Client::builder(RuntimeExecutor(runtime.clone()))
            .timer(timer())
            .pool_timer(timer())
            .pool_idle_timeout(IDLE)
            .retry_canceled_requests(false)
            .http2_keep_alive_interval(PING_AFTER)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            .http2_keep_alive_while_idle(true)
            .http2_initial_stream_window_size(window)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .build(connector.clone());
        Self {
            http,
            warm: AtomicBool::new(false),
            first: tokio::sync::Mutex::new(()),
            watches: AtomicUsize::new(0),
        }
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Error> {
        let result = self.send_one(request).await;
        self.warm.store(result.is_ok(), Ordering::Relaxed);
        result
    }

    async fn send_one(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Error> {
        if self.warm.load(Ordering::Relaxed) {
            return self.http.request(request).await;
        }
        let first = self.first.lock().await;
        let mut connected = capture_connection(&mut request);
        let mut answer = self.http.request(request);
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = async { drop(connected.wait_for_connection_metadata().await) } => {}
        }
        self.warm.store(true, Ordering::Relaxed);
        drop(first);
        answer.await
    }
}
