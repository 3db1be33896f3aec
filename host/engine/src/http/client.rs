//! [`HttpClient`]: checks and sends the HTTP requests of one generation of a plugin.

use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use http::header::{HOST, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;
use pilothouse_plugin::OutgoingHosts;
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until, timeout_at};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::body::{BodyProgress, RequestBody, ResponseBody};
use super::connection::{Connection, hyper_error};
use super::destination::{Destination, origin_form};
use super::pace::Pace;
use super::pool::ConnectionPool;
use super::resolve::{Lookup, NoAddress, Resolver};
use super::{CONNECT_TIMEOUT, MAX_BODY};

/// The result of a request, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HttpResult {
    /// The server responded with this status code.
    Status(u16),
    /// The manifest does not grant the host or the address. Nothing was sent.
    Denied,
    /// The request failed without a response.
    Error,
}

/// Receives the results of a plugin's requests, for metrics. The client calls it on the runtime of the requests or on a
/// guest's thread; implementations must not block.
pub trait HttpObserver: Send + Sync + 'static {
    /// Called when a request has got a response or has failed.
    fn request(&self, result: HttpResult);
    /// Called at the end of an exchange with the number of body bytes sent and received.
    fn moved(&self, sent: u64, received: u64);
    /// Called after each step of a request or of a connection with the time that it took: TLS, mostly.
    fn worked(&self, _time: Duration) {}
}

/// The options of [`HttpClient::new`].
pub struct HttpClientOptions {
    /// The plugin's name, for messages.
    pub plugin: Arc<str>,
    /// The hosts that the manifest grants.
    pub hosts: OutgoingHosts,
    /// Requests per second on average: `limits.httpQPS`.
    pub qps: f64,
    /// `User-Agent` of requests in which the guest sets none.
    pub user_agent: String,
    /// Resolves names; [`SystemResolver`](super::SystemResolver) except in tests.
    pub resolver: Arc<dyn Resolver>,
    /// The runtime of the connections: not that of the guests, whose computations would delay them, and not that of watches,
    /// which the TLS of a plugin would delay.
    pub runtime: Handle,
    /// Receives the results of requests.
    pub observer: Arc<dyn HttpObserver>,
}

/// The HTTP client of one generation of a plugin. Clones share the connections; dropping the last one closes the idle
/// connections.
#[derive(Clone)]
pub struct HttpClient(Arc<ClientInner>);

struct ClientInner {
    plugin: Arc<str>,
    hosts: OutgoingHosts,
    pace: Pace,
    user_agent: Option<HeaderValue>,
    lookup: Lookup,
    runtime: Handle,
    observer: Arc<dyn HttpObserver>,
    pool: Arc<ConnectionPool>,
    tls: TlsConfigFn,
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpClient").field("hosts", &self.0.hosts).finish_non_exhaustive()
    }
}

/// Returns the TLS configuration with the trusted certificate authorities; `None` when there are none.
type TlsConfigFn = fn() -> Option<Arc<ClientConfig>>;

/// The TLS configuration with the platform's certificate authorities, loaded when the first plugin needs it. `None`
/// when the platform has none.
static PLATFORM: LazyLock<Option<Arc<ClientConfig>>> = LazyLock::new(|| {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let built = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(rustls::ConfigBuilder::with_platform_verifier);
    match built {
        Ok(config) => Some(Arc::new(config.with_no_client_auth())),
        Err(error) => {
            tracing::error!(
                event = "no_trusted_certificates", %error,
                "no trusted CA certificates, so plugins cannot use HTTPS: install the system's CA certificates, or set SSL_CERT_FILE"
            );
            None
        }
    }
});

/// The error of a request, with the message to log if there is one.
#[derive(Debug)]
pub(super) struct RequestError {
    pub(super) error: Error,
    pub(super) message: Option<String>,
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        Self { error, message: None }
    }
}

/// The time limits of one exchange.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExchangeLimits {
    /// Deadline for getting a connection.
    connect_by: Instant,
    /// Maximum time from the connection to the head of the response.
    first_byte: Option<Duration>,
    /// Maximum time between two chunks of the response body.
    between: Option<Duration>,
    /// Deadline of the whole exchange.
    deadline: Instant,
}

impl ExchangeLimits {
    /// The guest's options, reduced to the host's limits.
    pub(super) fn new(options: RequestOptions, deadline: Instant) -> Self {
        let connect = options.connect_timeout.unwrap_or(CONNECT_TIMEOUT).min(CONNECT_TIMEOUT);
        Self {
            connect_by: deadline.min(Instant::now() + connect),
            first_byte: options.first_byte_timeout,
            between: options.between_bytes_timeout,
            deadline,
        }
    }

    fn answer_by(&self) -> Instant {
        self.first_byte
            .and_then(|wait| Instant::now().checked_add(wait))
            .map_or(self.deadline, |at| at.min(self.deadline))
    }
}

impl HttpClient {
    /// Creates a client. It opens no connection yet.
    #[must_use]
    pub fn new(options: HttpClientOptions) -> Self {
        Self::with_tls(options, || PLATFORM.clone())
    }

    pub(super) fn with_tls(options: HttpClientOptions, tls: TlsConfigFn) -> Self {
        let HttpClientOptions { plugin, hosts, qps, user_agent, resolver, runtime, observer } = options;
        let lookup = Lookup::new(resolver);
        // The conversion only fails for control characters, which a plugin's name cannot contain.
        let user_agent = HeaderValue::from_str(&user_agent).ok();
        Self(Arc::new(ClientInner {
            plugin,
            hosts,
            pace: Pace::new(qps),
            user_agent,
            lookup,
            runtime,
            observer,
            pool: ConnectionPool::new(),
            tls,
        }))
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.0.runtime
    }

    pub(super) fn observer(&self) -> &Arc<dyn HttpObserver> {
        &self.0.observer
    }

    pub(super) fn observe(&self, result: HttpResult) {
        self.0.observer.request(result);
    }

    /// Checks a request before a lookup or a connection, and returns its destination.
    pub(super) fn check(&self, request: &Request<WasiBody>) -> Result<Destination, RequestError> {
        let plugin = &self.0.plugin;
        if *request.method() == Method::CONNECT {
            return Err(Error::HttpRequestMethodInvalid.into());
        }
        let to = Destination::of(request.uri()).map_err(|reason| RequestError {
            error: Error::HttpRequestUriInvalid,
            message: Some(format!("plugin {plugin}: a request was refused: {reason}")),
        })?;
        if !self.0.hosts.permits(&to.host, to.port) {
            return Err(RequestError {
                error: Error::HttpRequestDenied,
                message: Some(not_granted(plugin, &to)),
            });
        }
        if length(request).is_some_and(|length| length > MAX_BODY) {
            return Err(Error::HttpRequestBodySize(Some(MAX_BODY)).into());
        }
        Ok(to)
    }

    /// Sends a request that [`check`](Self::check) has accepted. Dropping the future, or the body of the response
    /// before its end, closes the connection.
    pub(super) async fn send(
        self,
        to: Destination,
        mut request: Request<WasiBody>,
        times: ExchangeLimits,
        guest_lives: Weak<()>,
    ) -> Result<Response<WasiBody>, RequestError> {
        let inner = &self.0;
        *request.uri_mut() = origin_form(request.uri()).map_err(|_| Error::HttpRequestUriInvalid)?;
        let host = HeaderValue::from_str(&to.host_header()).map_err(|_| Error::HttpRequestUriInvalid)?;
        let headers = request.headers_mut();
        headers.insert(HOST, host);
        if let (false, Some(user_agent)) = (headers.contains_key(USER_AGENT), &inner.user_agent) {
            headers.insert(USER_AGENT, user_agent.clone());
        }
        let length = length(&request);
        let head = *request.method() == Method::HEAD;
        let (parts, guest) = request.into_parts();
        let (body, sent) = RequestBody::new(guest, length, guest_lives);
        let request = Request::from_parts(parts, body);

        let turn = inner.pace.turn(Instant::now(), times.connect_by).ok_or_else(|| RequestError {
            error: Error::ConnectionLimitReached,
            message: Some(format!(
                "plugin {}: a request to {to} was not sent: its turn came too late for its timeout; send fewer requests, or \
                 raise spec.limits.httpQPS of the manifest",
                inner.plugin
            )),
        })?;
        sleep_until(turn).await;
        let permit = timeout_at(times.connect_by, inner.pool.permit())
            .await
            .map_err(|_| Error::ConnectionLimitReached)?
            .map_err(|_| Error::ConnectionLimitReached)?;
        let (connection, answer) = self.exchange(&to, request, &sent, times).await?;
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Error::HttpProtocolError.into());
        }
        let announced = answer.body().size_hint().lower();
        if !head && announced > MAX_BODY {
            return Err(Error::HttpResponseBodySize(Some(announced)).into());
        }
        let lease = Lease::new(&self, to, connection, permit, sent, times.deadline);
        Ok(answer.map(|body| ResponseBody::new(body, lease, times.between, times.deadline).boxed_unsync()))
    }

    /// Sends a request over an idle connection or a new one and waits for the head of the response. Retries only when
    /// an idle connection turns out to be closed and no byte of the request was sent.
    async fn exchange(
        &self,
        to: &Destination,
        mut request: Request<RequestBody>,
        sent: &BodyProgress,
        times: ExchangeLimits,
    ) -> Result<(Connection, Response<Incoming>), RequestError> {
        loop {
            let (mut connection, kept) = match self.0.pool.take(to) {
                Some(connection) => (connection, true),
                None => (self.connect(to, times.connect_by).await?, false),
            };
            // The server may have closed an idle connection.
            match timeout_at(times.connect_by, connection.sender.ready()).await {
                Ok(Ok(())) => {}
                _ if kept => continue,
                Ok(Err(error)) => return Err(hyper_error(&error).into()),
                Err(_) => return Err(Error::ConnectionTimeout.into()),
            }
            let answer = timeout_at(times.answer_by(), connection.sender.try_send_request(request)).await;
            match answer.map_err(|_| Error::HttpResponseTimeout)? {
                Ok(answer) => return Ok((connection, answer)),
                Err(mut error) => match error.take_message() {
                    // hyper returns the request when it has sent no byte of it.
                    Some(unsent) if kept => request = unsent,
                    _ if sent.is_too_large() => return Err(Error::HttpRequestBodySize(Some(MAX_BODY)).into()),
                    _ => return Err(hyper_error(error.error()).into()),
                },
            }
        }
    }

    async fn connect(&self, to: &Destination, by: Instant) -> Result<Connection, RequestError> {
        let inner = &self.0;
        let tls = match to.tls {
            true => Some((inner.tls)().ok_or(Error::TlsCertificateError)?),
            false => None,
        };
        inner.pool.make_room();
        let addresses = match timeout_at(by, inner.lookup.addresses(to, &inner.hosts)).await {
            Err(_) => return Err(Error::DnsTimeout.into()),
            Ok(Err(NoAddress::Dns(error))) => return Err(error.into()),
            Ok(Err(NoAddress::Prohibited(address, what))) => {
                return Err(RequestError {
                    error: Error::DestinationIpProhibited,
                    message: Some(format!(
                        "plugin {}: {to} leads to {address}, {what}, which a name may not lead to; if that is meant, name the \
                         address itself in the manifest: spec.outgoingHosts: [\"{address}\"]",
                        inner.plugin
                    )),
                });
            }
            Ok(Ok(addresses)) => addresses,
        };
        Ok(Connection::open(to, &addresses, tls.as_ref(), by, &inner.observer).await?)
    }
}

/// The log message for a request to a host that is not granted.
pub(super) fn not_granted(plugin: &str, to: &Destination) -> String {
    format!(
        "plugin {plugin}: a request to {to} was denied; if it is meant, add it to the manifest: spec.outgoingHosts: [\"{to}\"]"
    )
}

fn length(request: &Request<WasiBody>) -> Option<u64> {
    request.headers().get(http::header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A connection during an exchange. It is closed at the deadline, even when the guest has stopped reading.
pub(super) struct Lease {
    leased: Arc<Mutex<Option<LeasedConnection>>>,
    watchdog: tokio::task::JoinHandle<()>,
    runtime: Handle,
}

struct LeasedConnection {
    pool: Arc<ConnectionPool>,
    to: Destination,
    connection: Connection,
    _permit: OwnedSemaphorePermit,
    sent: Arc<BodyProgress>,
    observer: Arc<dyn HttpObserver>,
}

impl Lease {
    fn new(
        client: &HttpClient,
        to: Destination,
        connection: Connection,
        permit: OwnedSemaphorePermit,
        sent: Arc<BodyProgress>,
        deadline: Instant,
    ) -> Self {
        let inner = &client.0;
        let (pool, observer) = (Arc::clone(&inner.pool), Arc::clone(&inner.observer));
        let leased = Arc::new(Mutex::new(Some(LeasedConnection {
            pool,
            to,
            connection,
            _permit: permit,
            sent,
            observer,
        })));
        let watched = Arc::downgrade(&leased);
        let watchdog = inner.runtime.spawn(async move {
            tokio::time::sleep_until(deadline).await;
            if let Some(leased) = watched.upgrade() {
                leased.lock().take();
            }
        });
        Self { leased, watchdog, runtime: inner.runtime.clone() }
    }

    /// Ends an exchange whose response was read to its end. The connection returns to the pool if the request was sent
    /// completely.
    pub(super) fn finish(&mut self, received: u64) {
        if let Some(LeasedConnection { pool, to, connection, _permit, sent, observer }) = self.end(received) {
            drop(observer);
            if sent.is_whole() && !connection.sender.is_closed() {
                let _within = self.runtime.enter();
                pool.keep(to, connection);
            }
        }
    }

    /// Ends the exchange and closes the connection.
    pub(super) fn close(&mut self, received: u64) {
        drop(self.end(received));
    }

    /// Takes the connection and reports the transferred bytes; `None` when the exchange has ended before.
    fn end(&mut self, received: u64) -> Option<LeasedConnection> {
        self.watchdog.abort();
        let leased = self.leased.lock().take()?;
        leased.observer.moved(leased.sent.bytes(), received);
        Some(leased)
    }
}
