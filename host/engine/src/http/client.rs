//! [`HttpClient`]: what one generation of a plugin sends its requests with, and where each is checked.

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
use tokio::time::{Instant, timeout_at};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::body::{RequestBody, ResponseBody, Sent};
use super::connection::{Connection, hyper_error};
use super::destination::{Destination, origin_form};
use super::pool::Pool;
use super::resolve::{Lookup, NoAddress, Resolver};
use super::{CONNECT_TIMEOUT, MAX_BODY};

/// How a request ended, as metrics count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HttpResult {
    /// The server answered with this status.
    Status(u16),
    /// The manifest does not grant the host or the address; nothing was sent.
    Denied,
    /// No answer came.
    Error,
}

/// Is told what a plugin sends. Called on the runtime of the requests or on a guest's thread; must not block.
pub trait HttpObserver: Send + Sync + 'static {
    /// A request was answered or failed.
    fn request(&self, result: HttpResult);
    /// Bytes of bodies that an exchange moved.
    fn moved(&self, sent: u64, received: u64);
}

/// How the client of a generation is made.
pub struct HttpClientOptions {
    /// The plugin's name, for messages.
    pub plugin: Arc<str>,
    /// What is granted.
    pub hosts: OutgoingHosts,
    /// `User-Agent` of requests to which the guest gives none.
    pub user_agent: String,
    /// Finds addresses; [`SystemResolver`](super::SystemResolver) outside of tests.
    pub resolver: Arc<dyn Resolver>,
    /// Where connections live: not on the threads of guests, which would delay them.
    pub io: Handle,
    /// Is told what the plugin sends.
    pub observer: Arc<dyn HttpObserver>,
}

/// What one generation of a plugin sends its requests with; a cheap clone. Its idle connections go with the last one.
#[derive(Clone)]
pub struct HttpClient(Arc<Inner>);

struct Inner {
    plugin: Arc<str>,
    hosts: OutgoingHosts,
    user_agent: Option<HeaderValue>,
    lookup: Lookup,
    io: Handle,
    observer: Arc<dyn HttpObserver>,
    pool: Arc<Pool>,
    tls: Tls,
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpClient").field("hosts", &self.0.hosts).finish_non_exhaustive()
    }
}

/// Whom servers must have their certificates from.
type Tls = fn() -> Option<Arc<ClientConfig>>;

/// The platform's certificates, as for API servers; read once, when the first plugin needs them. None when there are none.
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

/// A request that was not sent, and what the log should say of it.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) error: Error,
    pub(super) message: Option<String>,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self { error, message: None }
    }
}

/// The times of one exchange.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// When there must be a connection.
    connect_by: Instant,
    /// Longest wait for the head of the response, from the connection on.
    first_byte: Option<Duration>,
    /// Longest wait between two pieces of its body.
    between: Option<Duration>,
    /// When all must be over.
    deadline: Instant,
}

impl Times {
    /// What the guest asks for, within the host's bounds.
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
    /// A client without connections.
    #[must_use]
    pub fn new(options: HttpClientOptions) -> Self {
        Self::with_tls(options, || PLATFORM.clone())
    }

    pub(super) fn with_tls(options: HttpClientOptions, tls: Tls) -> Self {
        let HttpClientOptions { plugin, hosts, user_agent, resolver, io, observer } = options;
        let lookup = Lookup::new(resolver);
        // A header value only fails for control characters, which a name cannot have.
        let user_agent = HeaderValue::from_str(&user_agent).ok();
        Self(Arc::new(Inner { plugin, hosts, user_agent, lookup, io, observer, pool: Pool::new(), tls }))
    }

    pub(super) fn io(&self) -> &Handle {
        &self.0.io
    }

    pub(super) fn observe(&self, result: HttpResult) {
        self.0.observer.request(result);
    }

    /// Whether a request may be made, before anything is looked up or sent; where it goes.
    pub(super) fn check(&self, request: &Request<WasiBody>) -> Result<Destination, Refused> {
        let plugin = &self.0.plugin;
        if *request.method() == Method::CONNECT {
            return Err(Error::HttpRequestMethodInvalid.into());
        }
        let to = Destination::of(request.uri()).map_err(|reason| Refused {
            error: Error::HttpRequestUriInvalid,
            message: Some(format!("plugin {plugin}: a request was refused: {reason}")),
        })?;
        if !self.0.hosts.permits(&to.host, to.port) {
            return Err(Refused { error: Error::HttpRequestDenied, message: Some(not_granted(plugin, &to)) });
        }
        if length(request).is_some_and(|length| length > MAX_BODY) {
            return Err(Error::HttpRequestBodySize(Some(MAX_BODY)).into());
        }
        Ok(to)
    }

    /// Makes a request that was [checked](Self::check). Dropping the future, or the body of the response, closes the connection.
    pub(super) async fn send(
        self,
        to: Destination,
        mut request: Request<WasiBody>,
        times: Times,
        guest_lives: Weak<()>,
    ) -> Result<Response<WasiBody>, Refused> {
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

    /// Sends a request over a kept connection or a new one, until there is an answer.
    async fn exchange(
        &self,
        to: &Destination,
        mut request: Request<RequestBody>,
        sent: &Sent,
        times: Times,
    ) -> Result<(Connection, Response<Incoming>), Refused> {
        loop {
            let (mut connection, kept) = match self.0.pool.take(to) {
                Some(connection) => (connection, true),
                None => (self.connect(to, times.connect_by).await?, false),
            };
            // A kept connection may have ended, or be about to.
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
                    // Not a byte of it was sent.
                    Some(unsent) if kept => request = unsent,
                    _ if sent.is_too_large() => return Err(Error::HttpRequestBodySize(Some(MAX_BODY)).into()),
                    _ => return Err(hyper_error(error.error()).into()),
                },
            }
        }
    }

    async fn connect(&self, to: &Destination, by: Instant) -> Result<Connection, Refused> {
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
                return Err(Refused {
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
        Ok(Connection::open(to, &addresses, tls.as_ref(), by).await?)
    }
}

/// What the log says of a request to a host that is not granted.
pub(super) fn not_granted(plugin: &str, to: &Destination) -> String {
    format!(
        "plugin {plugin}: a request to {to} was denied; if it is meant, add it to the manifest: spec.outgoingHosts: [\"{to}\"]"
    )
}

fn length(request: &Request<WasiBody>) -> Option<u64> {
    request.headers().get(http::header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A connection with a response under way on it. At the deadline it is closed even if the guest reads no further.
pub(super) struct Lease {
    held: Arc<Mutex<Option<Held>>>,
    watchdog: tokio::task::JoinHandle<()>,
    io: Handle,
}

struct Held {
    pool: Arc<Pool>,
    to: Destination,
    connection: Connection,
    _permit: OwnedSemaphorePermit,
    sent: Arc<Sent>,
    observer: Arc<dyn HttpObserver>,
}

impl Lease {
    fn new(
        client: &HttpClient,
        to: Destination,
        connection: Connection,
        permit: OwnedSemaphorePermit,
        sent: Arc<Sent>,
        deadline: Instant,
    ) -> Self {
        let inner = &client.0;
        let (pool, observer) = (Arc::clone(&inner.pool), Arc::clone(&inner.observer));
        let held = Arc::new(Mutex::new(Some(Held { pool, to, connection, _permit: permit, sent, observer })));
        let watched = Arc::downgrade(&held);
        let watchdog = inner.io.spawn(async move {
            tokio::time::sleep_until(deadline).await;
            if let Some(held) = watched.upgrade() {
                held.lock().take();
            }
        });
        Self { held, watchdog, io: inner.io.clone() }
    }

    /// The response was read to its end: the connection can serve another, if the request was sent to its end too.
    pub(super) fn finish(&mut self, received: u64) {
        if let Some(Held { pool, to, connection, _permit, sent, observer }) = self.end(received) {
            drop(observer);
            if sent.is_whole() && !connection.sender.is_closed() {
                let _within = self.io.enter();
                pool.keep(to, connection);
            }
        }
    }

    /// The exchange ends here: the connection is closed.
    pub(super) fn close(&mut self, received: u64) {
        drop(self.end(received));
    }

    fn end(&mut self, received: u64) -> Option<Held> {
        self.watchdog.abort();
        let held = self.held.lock().take()?;
        held.observer.moved(held.sent.bytes(), received);
        Some(held)
    }
}
