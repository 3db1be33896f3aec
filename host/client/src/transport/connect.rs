//! [`Connector`]: one new connection to the API server, proxy and TLS included, under a time limit. `pool` asks for them.
//!
//! ```text
//!   TCP, or a tunnel through the proxy ── reads of 64 KiB ── TLS ── count of reads ── HTTP
//! ```
//!
//! Certificates are those of now, since [`Tls`] follows their files. The tunnels are hyper-util's.

use std::error::Error as StdError;
use std::fmt;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use tokio_util::io::InspectReader;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt as _, service_fn};

use super::connection::Reads;
use super::{PING_AFTER, PING_TIMEOUT};
use crate::credentials::Tls;
use crate::proxy::{Protocol, Proxy};

/// Bytes of one read. TLS asks for 4 KiB at a time: an event of 9 KB would take three system calls, and a list thousands.
/// Each connection costs so much memory for it.
const READ_SIZE: usize = 64 << 10;

/// TCP to the server or through a proxy, or a tunnel through a proxy that is reached by TLS.
type Line = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// The addresses of a host. It is asked for each connection, so that a server that has moved is found.
pub(crate) type NameResolver = BoxCloneSyncService<Name, std::vec::IntoIter<SocketAddr>, io::Error>;

/// The resolver of the system.
pub(crate) fn system_resolver() -> NameResolver {
    let addresses = GaiResolver::new().map_response(|found| found.collect::<Vec<_>>().into_iter());
    BoxCloneSyncService::new(addresses)
}

/// Connects under a time limit that includes proxy and TLS. A clone costs some reference counts.
#[derive(Clone)]
pub(crate) struct Connector {
    tcp: HttpConnector<NameResolver>,
    tls: Arc<Tls>,
    proxy: Option<Arc<Proxy>>,
    pub(super) runtime: Handle,
    timeout: Duration,
}

/// Why no connection through a proxy was made.
#[derive(Debug)]
struct ProxyError {
    message: String,
    cause: BoxError,
}

impl Connector {
    /// Connections whose tasks run on `runtime`; `timeout` is for TCP, proxy and TLS together.
    pub(crate) fn new(
        resolver: NameResolver,
        runtime: Handle,
        tls: Arc<Tls>,
        proxy: Option<Proxy>,
        timeout: Duration,
    ) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(resolver);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(PING_AFTER));
        tcp.set_keepalive_interval(Some(PING_TIMEOUT / 3));
        tcp.set_keepalive_retries(Some(3));
        // Divided among the addresses of the host, so that a dead first one leaves time for the next.
        tcp.set_connect_timeout(Some(timeout));
        Self { tcp, tls, proxy: proxy.map(Arc::new), runtime, timeout }
    }

    /// The same, with connections whose tasks run on another runtime.
    pub(crate) fn on(&self, runtime: &Handle) -> Self {
        Self { runtime: runtime.clone(), ..self.clone() }
    }

    /// The number of the certificates in use, which changes as they rotate.
    pub(super) fn rotations(&self) -> u64 {
        self.tls.rotations()
    }

    /// Connects on the calling runtime; tells also whether the server chose HTTP/2.
    pub(super) async fn connect(
        &self,
        server: &Uri,
        reads: Reads,
    ) -> Result<(impl Read + Write + Unpin + Send + use<>, bool), BoxError> {
        let through = self.proxy.as_ref().map(|proxy| format!(" through {proxy}")).unwrap_or_default();
        // An exec plugin that is asked for a certificate has a limit of its own: a person may have to log in.
        let config = self.tls.for_handshake().await?;
        let connecting = async {
            let line = BufReader::with_capacity(READ_SIZE, self.dial(server).await?);
            if server.scheme_str() != Some("https") {
                return Ok((Either::Left(line), false));
            }
            let name = match &self.tls.server_name {
                Some(name) => name.clone(),
                None => server_name(server)?,
            };
            let secure = TlsConnector::from(config).connect(name, line).await?;
            let is_http2 = secure.get_ref().1.alpn_protocol() == Some(b"h2");
            Ok((Either::Right(Box::new(secure)), is_http2))
        };
        match tokio::time::timeout(self.timeout, connecting).await {
            Ok(connected) => connected.map(|(io, is_http2)| {
                (TokioIo::new(InspectReader::new(io, move |_: &[u8]| reads.add())), is_http2)
            }),
            Err(_) => {
                let message = format!("not connected within {:?}{through}", self.timeout);
                Err(io::Error::new(io::ErrorKind::TimedOut, message).into())
            }
        }
    }

    /// Bytes to and from the server, before any TLS with the server itself.
    async fn dial(&self, server: &Uri) -> Result<Line, BoxError> {
        let Some(proxy) = &self.proxy else {
            return Ok(Either::Left(self.tcp.clone().oneshot(server.clone()).await?.into_inner()));
        };
        let server = with_port(server).ok_or("no host")?;
        let near = self.tcp.clone().oneshot(proxy.address.clone()).await;
        let near = near.map_err(|e| proxy.unreachable(e.into()))?;
        Ok(match proxy.protocol {
            Protocol::Http => Either::Left(proxy.tunnel(near, &server).await?.into_inner()),
            Protocol::Https => {
                let connector = TlsConnector::from(self.tls.for_proxy());
                let name = server_name(&proxy.address)?;
                let near = connector.connect(name, near.into_inner()).await;
                let near = near.map_err(|e| proxy.unreachable(e.into()))?;
                Either::Right(Box::new(proxy.tunnel(TokioIo::new(near), &server).await?.into_inner()))
            }
            Protocol::Socks5 => Either::Left(proxy.socks(near, &server).await?.into_inner()),
        })
    }
}

/// The name that the certificate of this address must be for.
fn server_name(address: &Uri) -> Result<ServerName<'static>, BoxError> {
    let host = address.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    Ok(ServerName::try_from(host.to_owned())?)
}

/// A connector that has connected already.
fn connected<T: Send + 'static>(
    stream: T,
) -> impl Service<Uri, Response = T, Error = io::Error, Future: Send + 'static> {
    let mut stream = Some(stream);
    service_fn(move |_| ready(stream.take().ok_or_else(|| io::Error::other("connected twice"))))
}

/// The address with its port written out; the tunnels would take 443 for all schemes.
fn with_port(server: &Uri) -> Option<Uri> {
    if server.port().is_some() {
        return Some(server.clone());
    }
    let port = if server.scheme_str() == Some("http") { 80 } else { 443 };
    let authority = format!("{}:{port}", server.host()?);
    Uri::builder().scheme(server.scheme_str()?).authority(authority).path_and_query("/").build().ok()
}

impl Proxy {
    fn error(&self, why: &str, cause: BoxError) -> BoxError {
        Box::new(ProxyError { message: format!("{self} {why}"), cause })
    }

    fn unreachable(&self, cause: BoxError) -> BoxError {
        self.error(&format!("cannot be reached; is {} right, and the proxy up?", self.origin), cause)
    }

    async fn tunnel<T>(&self, near: T, server: &Uri) -> Result<T, BoxError>
    where
        T: Read + Write + Unpin + Send + 'static,
    {
        let mut tunnel = Tunnel::new(self.address.clone(), connected(near));
        if let Some(basic) = self.basic.clone() {
            tunnel = tunnel.with_auth(basic);
        }
        tunnel.oneshot(server.clone()).await.map_err(|e| self.refused(e.into(), server))
    }

    async fn socks<T>(&self, near: T, server: &Uri) -> Result<T, BoxError>
    where
        T: Read + Write + Unpin + Send + 'static,
    {
        let mut socks = SocksV5::new(self.address.clone(), connected(near));
        if let Some((user, password)) = self.user.clone() {
            socks = socks.with_auth(user, password);
        }
        socks.oneshot(server.clone()).await.map_err(|e| self.refused(e.into(), server))
    }

    /// hyper-util shows the kinds of its errors in their texts only.
    fn refused(&self, cause: BoxError, server: &Uri) -> BoxError {
        let to = server.authority().map(ToString::to_string).unwrap_or_default();
        let text = cause.to_string();
        let login = ["authorization required", "credentials", "user/pass", "implements authentication"];
        let why = if login.iter().any(|part| text.contains(part)) {
            format!(
                "wants another user name and password; put USER:PASSWORD@ before the host in {}",
                self.origin
            )
        } else {
            format!(
                "made no way to {to}; does it allow connections to there, and speak the protocol of {}?",
                self.origin
            )
        };
        self.error(&why, cause)
    }
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for ProxyError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.cause)
    }
}
