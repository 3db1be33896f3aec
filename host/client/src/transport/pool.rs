//! [`Pool`]: the connections for one kind of calls, made when they are needed.
//!
//! Invariants:
//! * While it is not known what the server speaks, and for each further HTTP/2 connection, one connection is made at a
//!   time; all calls that need it wait for it, and fail with it.
//! * Connections are filled in the order of their age, so that those made for a flood fall idle after it; servers close idle
//!   ones, and the list forgets a closed one.
//! * Nothing is sent twice from here. [`SendError::repeats`] tells of calls that certainly were not processed.

use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt as _, Shared};
use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::client::legacy::connect::Connection as _;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tower::Service as _;

use crate::transport::connect::Connector;
use crate::transport::connection::{Connection, Reads, Slot};
use crate::transport::runtime::{AbortOnDrop, RuntimeExecutor, RuntimeTimer};
use crate::transport::{PING_AFTER, PING_TIMEOUT};

/// API servers close HTTP/1.1 connections without a request after 90 s; a request must not run into that.
const IDLE: Duration = Duration::from_secs(60);
/// HTTP/1.1 connections without a request that are kept.
const MOST_IDLE: usize = 32;
/// HTTP/2 connections of a pool. Beyond, calls wait for each other on the least busy one.
const MOST_CONNECTIONS: usize = 16;
/// Streams of a peer that is not known yet, as hyper assumes. More at once are refused by a peer that allows less, and sent
/// over another connection.
const ASSUMED_STREAMS: usize = 100;
/// Times that a call which was refused is sent over another connection.
const MOST_REFUSED: u32 = 3;
/// Connections in a row that the server closes at once before a call fails with it.
const MOST_CLOSED: usize = 3;
/// What a connection may have under way altogether: one call that nobody reads must not hold up the others.
const CONNECTION_WINDOW: u32 = 128 << 20;

type Http1 = http1::SendRequest<Full<Bytes>>;
type Dialing = Shared<BoxFuture<'static, Result<Option<Arc<Connection>>, Arc<SendFault>>>>;

/// The connections for one kind of calls; a clone is the same pool.
#[derive(Clone)]
pub(crate) struct Pool(Arc<PoolInner>);

struct PoolInner {
    connector: Connector,
    server: Uri,
    /// What one call may have under way.
    window: u32,
    state: Mutex<PoolState>,
    /// An HTTP/1.1 connection may have fallen free.
    free: Notify,
}

#[derive(Default)]
struct PoolState {
    connections: Vec<Arc<Connection>>,
    idle: Vec<(Http1, Instant)>,
    /// The server speaks HTTP/1.1 only, as far as is known.
    http1: bool,
    dialing: Option<(u64, Dialing)>,
    /// Numbers those.
    attempts: u64,
    /// Counts the times that all connections were taken out of use; one made for an earlier count is not used.
    generation: u64,
}

/// A new connection; one of HTTP/1.1 belongs to whoever asked for it, with the generation it was made for.
enum Dialed {
    Http1(Http1, u64),
    Http2(Arc<Connection>),
}

/// What a call is sent over.
enum CheckedOut {
    Http1(Http1, u64),
    Http2(http2::SendRequest<Full<Bytes>>, Slot),
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct SendError {
    fault: Arc<SendFault>,
    sent: Sent,
}

/// What is known of a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// The server may have done it.
    Maybe,
    /// It was refused, or the connection was being closed.
    Refused,
    /// It never left this process.
    No,
}

#[derive(Debug)]
enum SendFault {
    /// From TCP, TLS or a proxy.
    Connect(tower::BoxError),
    Http(hyper::Error),
    ClosedAtOnce,
    RuntimeGone,
}

impl Pool {
    pub(crate) fn new(connector: Connector, server: Uri, window: u32) -> Self {
        Self(Arc::new(PoolInner { connector, server, window, state: Mutex::default(), free: Notify::new() }))
    }

    /// Gives the connections that are there, or being made, no new calls; those that they have go on.
    pub(crate) fn retire(&self) {
        let mut state = self.0.state.lock();
        state.generation += 1;
        state.dialing = None;
        state.idle.clear();
        state.connections.drain(..).for_each(|connection| connection.take_out_of_use());
    }

    /// Sends a request and gives the head of its answer; the slot is to be kept as long as its body.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Slot), SendError> {
        match self.check_out().await? {
            CheckedOut::Http1(sender, generation) => self.send_http1(sender, generation, request).await,
            CheckedOut::Http2(mut sender, mut slot) => {
                let response = sender.try_send_request(request).await.map_err(SendError::of_http)?;
                slot.answered();
                Ok((response, slot))
            }
        }
    }

    async fn send_http1(
        &self,
        mut sender: Http1,
        generation: u64,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Slot), SendError> {
        if let Some(authority) = request.uri().authority()
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            request.headers_mut().entry(HOST).or_insert(host);
        }
        if let Some(path) = request.uri().path_and_query() {
            *request.uri_mut() = Uri::from(path.clone());
        }
        let response = sender.try_send_request(request).await.map_err(SendError::of_http)?;
        let inner = Arc::downgrade(&self.0);
        // Free again when the body has been read.
        self.0.connector.runtime.spawn(async move {
            if sender.ready().await.is_ok()
                && let Some(inner) = Weak::upgrade(&inner)
            {
                inner.keep(sender, generation);
            }
        });
        Ok((response, Slot::HTTP1))
    }

    async fn check_out(&self) -> Result<CheckedOut, SendError> {
        let mut closed = 0;
        loop {
            let dialing = {
                let mut state = self.0.state.lock();
                if let Some(way) = state.check_out() {
                    return Ok(way);
                }
                if state.http1 { None } else { Some(state.dialing(&self.0)) }
            };
            let Some(dialing) = dialing else {
                // HTTP/1.1 calls do not share, so each makes its own at once, unless one falls free before that.
                let dialed = tokio::select! {
                    biased;
                    () = self.0.free.notified() => continue,
                    dialed = PoolInner::dial(&self.0) => dialed,
                };
                match dialed.map_err(|fault| SendError::before(Arc::new(fault)))? {
                    Dialed::Http1(sender, generation) => return Ok(CheckedOut::Http1(sender, generation)),
                    Dialed::Http2(_) => continue,
                }
            };
            if let Some(connection) = dialing.await.map_err(SendError::before)?
                && !connection.is_open()
            {
                closed += 1;
                if closed == MOST_CLOSED {
                    return Err(SendError::before(Arc::new(SendFault::ClosedAtOnce)));
                }
            }
        }
    }
}

impl PoolState {
    /// A connection that is there and has room.
    fn check_out(&mut self) -> Option<CheckedOut> {
        while let Some((sender, since)) = self.idle.pop() {
            if sender.is_ready() && since.elapsed() < IDLE {
                return Some(CheckedOut::Http1(sender, self.generation));
            }
        }
        self.connections.retain(|connection| connection.is_open());
        let room = self.connections.iter().find(|connection| connection.has_room());
        let full = self.connections.len() >= MOST_CONNECTIONS;
        let least = || self.connections.iter().filter(|_| full).min_by_key(|connection| connection.calls());
        let connection = room.or_else(least)?;
        Some(CheckedOut::Http2(connection.sender.clone(), connection.reserve()))
    }

    /// The connection attempt that is under way, or a new one, which all wait for.
    fn dialing(&mut self, pool: &Arc<PoolInner>) -> Dialing {
        if let Some((_, dialing)) = &self.dialing {
            return dialing.clone();
        }
        self.attempts += 1;
        let (attempt, pool) = (self.attempts, Arc::clone(pool));
        let dialing = async move { PoolInner::dial_for_all(&pool, attempt).await.map_err(Arc::new) };
        let dialing = dialing.boxed().shared();
        self.dialing = Some((attempt, dialing.clone()));
        dialing
    }
}

impl PoolInner {
    /// Makes a connection for whoever waits for it, and goes on when nobody does any more. It is among the others when this is
    /// done; the answer is an HTTP/2 one.
    async fn dial_for_all(self: &Arc<Self>, attempt: u64) -> Result<Option<Arc<Connection>>, SendFault> {
        let inner = Arc::clone(self);
        let dialing = self.connector.runtime.spawn(async move {
            let dialed = inner.connect().await;
            let dialed = dialed.map(|dialed| match dialed {
                Dialed::Http1(sender, generation) => {
                    inner.keep(sender, generation);
                    None
                }
                Dialed::Http2(connection) => Some(connection),
            });
            // Here, and not by those who wait: a failure of long ago must not be the answer to a later call.
            let mut state = inner.state.lock();
            let over = state.dialing.take_if(|(current, _)| *current == attempt);
            drop(state);
            drop(over);
            dialed
        });
        dialing.await.unwrap_or(Err(SendFault::RuntimeGone))
    }

    /// Makes a connection, on the runtime of connections, for as long as somebody waits for it.
    async fn dial(self: &Arc<Self>) -> Result<Dialed, SendFault> {
        let inner = Arc::clone(self);
        let dialing = AbortOnDrop(self.connector.runtime.spawn(async move { inner.connect().await }));
        dialing.await.unwrap_or(Err(SendFault::RuntimeGone))
    }

    async fn connect(&self) -> Result<Dialed, SendFault> {
        let mut connector = self.connector.clone();
        let generation = self.state.lock().generation;
        let io = connector.call(self.server.clone()).await.map_err(SendFault::Connect)?;
        let is_http2 = io.connected().is_negotiated_h2();
        let reads = Reads::default();
        let io = reads.of(io);
        let runtime = &connector.runtime;
        if !is_http2 {
            let (mut sender, connection) = http1::handshake(io).await.map_err(SendFault::Http)?;
            runtime.spawn(connection);
            // Before its task has begun to run it would look like one that has closed.
            sender.ready().await.map_err(SendFault::Http)?;
            self.state.lock().http1 = true;
            return Ok(Dialed::Http1(sender, generation));
        }
        // Until the peer has said what it allows, it allows what it did on the connection before.
        let known = self.state.lock().connections.last().map(|connection| connection.allowed());
        let (sender, connection) = http2::Builder::new(RuntimeExecutor(runtime.clone()))
            .timer(RuntimeTimer(runtime.clone()))
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(self.window)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(known.filter(|streams| *streams > 0).unwrap_or(ASSUMED_STREAMS))
            .handshake(io)
            .await
            .map_err(SendFault::Http)?;
        let connection = Connection::start(sender, connection, reads, runtime);
        let mut state = self.state.lock();
        state.http1 = false;
        if state.generation == generation {
            state.connections.push(Arc::clone(&connection));
        }
        Ok(Dialed::Http2(connection))
    }

    /// Puts an HTTP/1.1 connection to the idle ones, if there is room for one more.
    fn keep(&self, sender: Http1, generation: u64) {
        let mut state = self.state.lock();
        state.http1 = true;
        state.idle.retain(|(sender, since)| sender.is_ready() && since.elapsed() < IDLE);
        if state.generation == generation && state.idle.len() < MOST_IDLE {
            state.idle.push((sender, Instant::now()));
            self.free.notify_one();
        }
    }
}

impl SendError {
    fn before(fault: Arc<SendFault>) -> Self {
        Self { fault, sent: Sent::Maybe }
    }

    /// How often a call may be sent over another connection after failing like this: never, when the server may have done it.
    /// One that was not sent may have met all the connections that are there, each of which had closed.
    pub(crate) fn repeats(&self) -> u32 {
        match self.sent {
            Sent::Maybe => 0,
            Sent::Refused => MOST_REFUSED,
            Sent::No => MOST_CONNECTIONS as u32,
        }
    }

    fn of_http(mut error: hyper::client::conn::TrySendError<Request<Full<Bytes>>>) -> Self {
        // The connection closed before it took the call.
        let unsent = error.take_message().is_some();
        let error = error.into_error();
        let sent = match unsent {
            true => Sent::No,
            false if refused(&error) => Sent::Refused,
            false => Sent::Maybe,
        };
        Self { fault: Arc::new(SendFault::Http(error)), sent }
    }
}

/// RFC 9113, section 8.7: a stream that is refused has not been processed, nor has one above the last that a GOAWAY names, which
/// is what h2 gives this error to.
fn refused(error: &hyper::Error) -> bool {
    let Some(error) = error.source().and_then(|source| source.downcast_ref::<h2::Error>()) else {
        return false;
    };
    let gone = error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR);
    gone || (error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM))
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.fault {
            SendFault::Connect(_) => f.write_str("cannot connect"),
            SendFault::Http(_) => f.write_str("no answer"),
            SendFault::ClosedAtOnce => {
                f.write_str("the server closes each connection as soon as it is there")
            }
            SendFault::RuntimeGone => f.write_str("the runtime of the connections is gone"),
        }
    }
}

impl StdError for SendError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &*self.fault {
            SendFault::Connect(error) => Some(&**error),
            SendFault::Http(error) => Some(error),
            SendFault::ClosedAtOnce | SendFault::RuntimeGone => None,
        }
    }
}
