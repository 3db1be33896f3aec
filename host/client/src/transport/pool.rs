//! [`Pool`]: the connections for one kind of calls, made when they are needed.
//!
//! Invariants:
//! * Until the protocol of the server is known, and for each further HTTP/2 connection, one connection is made at a time;
//!   all calls that need it wait for it, and fail with it.
//! * Connections are filled in the order of their age, so that those made for a flood fall idle after it; servers close idle
//!   ones, and the list forgets a closed one.
//! * With as many connections as the options allow, each of them full, calls wait here for a free place, and fail with an
//!   error that names the limit.
//! * Nothing is sent twice from here. [`SendError::repeats`] tells which calls certainly were not processed.

use std::error::Error as StdError;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt as _, Shared};
use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::body::ResponseBody;
use super::connect::Connector;
use super::connection::{Connection, Reads, Slot};
use super::runtime::{RuntimeExecutor, RuntimeTimer};
use super::{PING_AFTER, PING_TIMEOUT, RETIRED_LIFE, WriteGate};

/// API servers close HTTP/1.1 connections without a request after 90 s; a request must not run into that.
const IDLE: Duration = Duration::from_secs(60);
/// HTTP/1.1 connections without a request that are kept.
const MOST_IDLE: usize = 32;
/// Streams of a peer that is not known yet, as hyper assumes. More at once are refused by a peer that allows less, and sent
/// over another connection.
const ASSUMED_STREAMS: usize = 100;
/// Times that a call which was refused is sent over another connection.
const MOST_REFUSED: u32 = 3;
/// Connections in a row that the server closes at once before a call fails with it.
const MOST_CLOSED: usize = 3;
/// Unread bytes of a connection: one call that nobody reads must not hold up the others.
const CONNECTION_WINDOW: u32 = 128 << 20;

type Http1 = http1::SendRequest<Full<Bytes>>;
type Dialing = Shared<BoxFuture<'static, Result<Option<Arc<Connection>>, Arc<SendFault>>>>;

/// The connections for one kind of calls; a clone is the same pool.
#[derive(Clone)]
pub(super) struct Pool(Arc<PoolInner>);

struct PoolInner {
    connector: Connector,
    server: Uri,
    /// Unread bytes of one call.
    window: u32,
    /// HTTP/2 connections at most.
    max_connections: usize,
    state: Mutex<PoolState>,
    /// An HTTP/1.1 connection, or a place on an HTTP/2 connection, may be free.
    free: Arc<Notify>,
}

#[derive(Default)]
struct PoolState {
    connections: Vec<Arc<Connection>>,
    idle: Vec<(Http1, Instant)>,
    /// The server speaks HTTP/1.1 only, as far as is known.
    http1: bool,
    /// The connection attempt under way, by its number.
    dialing: Option<(u64, Dialing)>,
    /// Connection attempts begun.
    attempts: u64,
    generation: Generation,
}

/// The connections made between two rotations of certificates; one of an earlier generation gets no new calls.
#[derive(Clone, Default)]
struct Generation {
    number: u64,
    /// Closes its connections.
    closing: CancellationToken,
}

/// A new connection; one of HTTP/1.1 belongs to the call that asked for it, with the generation it was made for.
enum Dialed {
    Http1(Http1, u64),
    Http2(Arc<Connection>),
}

/// The connection that a call is sent over.
enum CheckedOut {
    Http1(Http1, u64),
    Http2(http2::SendRequest<Full<Bytes>>, Slot),
}

/// Where a call can go.
enum CheckOut {
    Now(CheckedOut),
    /// Over a new HTTP/1.1 connection.
    DialHttp1,
    /// When this connection attempt has ended.
    Dialing(Dialing),
    /// When a call on one of so many connections has ended.
    Full {
        connections: usize,
        calls: usize,
    },
}

/// Why there is no response.
#[derive(Debug)]
pub(crate) struct SendError(Arc<SendFault>);

#[derive(Debug)]
enum SendFault {
    /// From TCP, TLS or a proxy.
    Connect(tower::BoxError),
    /// The connection failed after it took the call; the server may have processed it.
    Http(hyper::Error),
    /// The server refused the stream, or closed the connection before it processed the call.
    Refused(hyper::Error),
    /// The connection closed before it took the call.
    Closed(hyper::Error),
    ClosedAtOnce,
    /// No place was free in time.
    Full {
        connections: usize,
        calls: usize,
    },
    RuntimeGone,
    /// A write that may not be sent any more; why.
    Gated(String),
}

impl Pool {
    pub(super) fn new(connector: Connector, server: Uri, window: u32, max_connections: usize) -> Self {
        let (state, free) = (Mutex::default(), Arc::default());
        let max_connections = max_connections.max(1);
        Self(Arc::new(PoolInner { connector, server, window, max_connections, state, free }))
    }

    /// Gives the connections that exist, or are being made, no new calls, and closes them after [`RETIRED_LIFE`].
    pub(super) fn retire(&self) {
        let mut state = self.0.state.lock();
        let number = state.generation.number + 1;
        let old = std::mem::replace(
            &mut state.generation,
            Generation { number, closing: CancellationToken::new() },
        );
        state.dialing = None;
        state.idle.clear();
        state.connections.drain(..).for_each(|connection| connection.take_out_of_use());
        drop(state);
        self.0.free.notify_waiters();
        let runtime = &self.0.connector.runtime;
        let _in_runtime = runtime.enter();
        let life = tokio::time::sleep(RETIRED_LIFE);
        runtime.spawn(async move {
            life.await;
            old.closing.cancel();
        });
    }

    /// Sends a request and gives the head of its response; `until` is how long to wait for a free place.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        until: Option<Instant>,
    ) -> Result<Response<ResponseBody>, SendError> {
        let checked_out = self.check_out(until).await?;
        if let Some(gate) = request.extensions().get::<WriteGate>() {
            gate.ask().map_err(SendFault::Gated)?;
        }
        match checked_out {
            CheckedOut::Http1(sender, generation) => self.send_http1(sender, generation, request).await,
            CheckedOut::Http2(mut sender, mut slot) => {
                let response = sender.try_send_request(request).await.map_err(SendError::of_http)?;
                slot.answered();
                Ok(response.map(|body| ResponseBody::of_connection(body, Some(slot))))
            }
        }
    }

    async fn send_http1(
        &self,
        mut sender: Http1,
        generation: u64,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<ResponseBody>, SendError> {
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
        Ok(response.map(|body| ResponseBody::of_connection(body, None)))
    }

    async fn check_out(&self, until: Option<Instant>) -> Result<CheckedOut, SendError> {
        let mut closed = 0;
        loop {
            let mut next = PoolInner::check_out(&self.0);
            let mut freed = pin!(self.0.free.notified());
            if matches!(next, CheckOut::Full { .. }) {
                // A place that falls free from here on is not missed.
                freed.as_mut().enable();
                next = PoolInner::check_out(&self.0);
            }
            match next {
                CheckOut::Now(checked_out) => return Ok(checked_out),
                // HTTP/1.1 calls do not share, so each makes its own at once, unless one falls free before that.
                CheckOut::DialHttp1 => {
                    let dialed = tokio::select! {
                        biased;
                        () = freed => continue,
                        dialed = async {
                            // One whose body has just been read is put back by a task that has not run yet.
                            tokio::task::yield_now().await;
                            PoolInner::dial(&self.0).await
                        } => dialed,
                    };
                    match dialed? {
                        Dialed::Http1(sender, generation) => {
                            return Ok(CheckedOut::Http1(sender, generation));
                        }
                        Dialed::Http2(_) => {}
                    }
                }
                CheckOut::Dialing(dialing) => {
                    if let Some(connection) = dialing.await.map_err(SendError)?
                        && !connection.is_open()
                    {
                        closed += 1;
                        if closed == MOST_CLOSED {
                            return Err(SendFault::ClosedAtOnce.into());
                        }
                    }
                }
                CheckOut::Full { connections, calls } => match until {
                    None => freed.await,
                    Some(until) => {
                        timeout_at(until, freed).await.map_err(|_| SendFault::Full { connections, calls })?;
                    }
                },
            }
        }
    }
}

impl PoolState {
    /// A connection that exists and has room; the least busy one that is not full, if no further one may be made.
    fn check_out(&mut self, max_connections: usize) -> Option<CheckedOut> {
        while let Some((sender, since)) = self.idle.pop() {
            if sender.is_ready() && since.elapsed() < IDLE {
                return Some(CheckedOut::Http1(sender, self.generation.number));
            }
        }
        self.connections.retain(|connection| connection.is_open());
        let room = self.connections.iter().find(|connection| connection.has_room());
        let last = self.connections.len() >= max_connections;
        let least_busy = || {
            let open = self.connections.iter().filter(|connection| last && !connection.is_full());
            open.min_by_key(|connection| connection.calls())
        };
        let connection = room.or_else(least_busy)?;
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
    fn check_out(self: &Arc<Self>) -> CheckOut {
        let state = &mut *self.state.lock();
        if let Some(checked_out) = state.check_out(self.max_connections) {
            return CheckOut::Now(checked_out);
        }
        if state.http1 {
            return CheckOut::DialHttp1;
        }
        let connections = state.connections.len();
        if connections >= self.max_connections {
            let calls = state.connections.iter().map(|connection| connection.calls()).sum();
            return CheckOut::Full { connections, calls };
        }
        CheckOut::Dialing(state.dialing(self))
    }

    /// Makes a connection for all calls that wait for it, and goes on when none does any more. It is among the others when
    /// this is done; the result is an HTTP/2 one.
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

    /// Makes a connection, on the runtime of connections, for as long as the caller waits for it.
    async fn dial(self: &Arc<Self>) -> Result<Dialed, SendFault> {
        let inner = Arc::clone(self);
        let dialing = self.connector.runtime.spawn(async move { inner.connect().await });
        AbortOnDropHandle::new(dialing).await.unwrap_or(Err(SendFault::RuntimeGone))
    }

    async fn connect(&self) -> Result<Dialed, SendFault> {
        let generation = self.state.lock().generation.clone();
        let reads = Reads::default();
        let connected = self.connector.connect(&self.server, reads.clone()).await;
        let (io, is_http2) = connected.map_err(SendFault::Connect)?;
        let runtime = &self.connector.runtime;
        if !is_http2 {
            let (mut sender, driver) = http1::handshake(io).await.map_err(SendFault::of_handshake)?;
            runtime.spawn(generation.closing.run_until_cancelled_owned(driver));
            // Before its task has begun to run it would look like one that has closed.
            sender.ready().await.map_err(SendFault::of_handshake)?;
            self.state.lock().http1 = true;
            return Ok(Dialed::Http1(sender, generation.number));
        }
        // Until the peer has told its limit, it is taken to be that of the connection before.
        let known = self.state.lock().connections.last().map(|connection| connection.allowed());
        let executor = RuntimeExecutor { runtime: runtime.clone(), closing: generation.closing.clone() };
        let (sender, driver) = http2::Builder::new(executor.clone())
            .timer(RuntimeTimer(runtime.clone()))
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(self.window)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(known.filter(|streams| *streams > 0).unwrap_or(ASSUMED_STREAMS))
            .handshake(io)
            .await
            .map_err(SendFault::of_handshake)?;
        let connection = Connection::start(sender, driver, reads, Arc::clone(&self.free), &executor);
        let mut state = self.state.lock();
        state.http1 = false;
        if state.generation.number == generation.number {
            state.connections.push(Arc::clone(&connection));
        }
        Ok(Dialed::Http2(connection))
    }

    /// Puts an HTTP/1.1 connection to the idle ones, if there is room for one more.
    fn keep(&self, sender: Http1, generation: u64) {
        let mut state = self.state.lock();
        state.http1 = true;
        state.idle.retain(|(sender, since)| sender.is_ready() && since.elapsed() < IDLE);
        if state.generation.number == generation && state.idle.len() < MOST_IDLE {
            state.idle.push((sender, Instant::now()));
            self.free.notify_one();
        }
    }
}

impl SendError {
    /// How often a call may be sent over another connection after failing like this: never, when the server may have
    /// processed it, or when another try would fail as well. One that was not taken may have met all the connections of a
    /// pool, each of which had closed.
    pub(super) fn repeats(&self, connections: usize) -> u32 {
        match &*self.0 {
            SendFault::Refused(_) => MOST_REFUSED,
            SendFault::Closed(_) => u32::try_from(connections).unwrap_or(u32::MAX).max(MOST_REFUSED),
            _ => 0,
        }
    }

    /// Whether the server certainly did not process the call.
    pub(crate) fn is_unsent(&self) -> bool {
        !matches!(*self.0, SendFault::Http(_))
    }

    /// Whether no place was free in time.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(*self.0, SendFault::Full { .. })
    }

    fn of_http(mut error: hyper::client::conn::TrySendError<Request<Full<Bytes>>>) -> Self {
        let unsent = error.take_message().is_some();
        let error = error.into_error();
        Self::from(match unsent {
            true => SendFault::Closed(error),
            false if refused(&error) => SendFault::Refused(error),
            false => SendFault::Http(error),
        })
    }
}

impl SendFault {
    fn of_handshake(error: hyper::Error) -> Self {
        Self::Connect(error.into())
    }
}

impl From<SendFault> for SendError {
    fn from(fault: SendFault) -> Self {
        Self(Arc::new(fault))
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
        match &*self.0 {
            SendFault::Connect(_) => f.write_str("cannot connect"),
            SendFault::Http(_) | SendFault::Refused(_) | SendFault::Closed(_) => f.write_str("no response"),
            SendFault::ClosedAtOnce => f.write_str("the server closes each connection as soon as it is made"),
            SendFault::Full { connections, calls } => write!(
                f,
                "not sent: no connection was free in time, {calls} calls are on all {connections} connections; \
                 raise ClientOptions::max_connections, or make fewer calls at once"
            ),
            SendFault::RuntimeGone => f.write_str("the runtime of the connections has ended"),
            SendFault::Gated(why) => write!(f, "not sent: {why}"),
        }
    }
}

impl StdError for SendError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &*self.0 {
            SendFault::Connect(error) => Some(&**error),
            SendFault::Http(error) | SendFault::Refused(error) | SendFault::Closed(error) => Some(error),
            SendFault::ClosedAtOnce
            | SendFault::Full { .. }
            | SendFault::RuntimeGone
            | SendFault::Gated(_) => None,
        }
    }
}
