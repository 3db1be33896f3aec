//! [`Dialer`]: bytes to and from the server, over TCP or through a proxy, before any TLS with the server itself.
//!
//! The tunnels are hyper-util's. `read_ahead` puts its buffer around what comes out of here.

use std::error::Error as StdError;
use std::fmt;
use std::future::ready;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper::rt::{Read, Write};
use hyper_rustls::{DefaultServerNameResolver, HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tower::{BoxError, Service, service_fn};

use crate::credentials::Tls;
use crate::proxy::{Protocol, Proxy};

/// Connects to the server, through the proxy if there is one.
#[derive(Clone)]
pub(crate) struct Dialer {
    pub(crate) tcp: HttpConnector,
    pub(crate) proxy: Option<Arc<Proxy>>,
    pub(crate) tls: Arc<Tls>,
}

/// A connection to the server, or a tunnel to it.
pub(crate) enum Line {
    Tcp(TcpStream),
    /// The way to the proxy is under TLS.
    OverTls(Box<TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>>),
}

/// Why there is no way through a proxy.
#[derive(Debug)]
struct ProxyError {
    message: String,
    cause: Option<BoxError>,
}

impl Service<Uri> for Dialer {
    type Response = Line;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Line, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let Some(proxy) = self.proxy.clone() else {
            let connecting = self.tcp.call(server);
            return Box::pin(async move { Ok(Line::Tcp(connecting.await?.into_inner())) });
        };
        let (tcp, tls) = (self.tcp.clone(), Arc::clone(&self.tls));
        Box::pin(async move {
            let server = with_port(&server).ok_or("no host")?;
            let far = |e| proxy.unreachable(e);
            match proxy.protocol {
                Protocol::Http => {
                    let near = tcp.clone().call(proxy.address.clone()).await.map_err(|e| far(e.into()))?;
                    Ok(Line::Tcp(proxy.tunnel(near, &server).await?.into_inner()))
                }
                Protocol::Https => {
                    let names = Arc::new(DefaultServerNameResolver::default());
                    let mut secure = HttpsConnector::new(tcp, tls.for_proxy(), true, names);
                    let near = secure.call(proxy.address.clone()).await.map_err(far)?;
                    Ok(Line::OverTls(Box::new(TokioIo::new(proxy.tunnel(near, &server).await?))))
                }
                Protocol::Socks5 => {
                    let near = tcp.clone().call(proxy.address.clone()).await.map_err(|e| far(e.into()))?;
                    Ok(Line::Tcp(proxy.socks(near, &server).await?.into_inner()))
                }
            }
        })
    }
}

/// A connector that has connected already.
fn connected<T: Send + 'static>(
    stream: T,
) -> impl Service<Uri, Response = T, Error = io::Error, Future: Send + 'static> {
    let mut stream = Some(stream);
    service_fn(move |_| ready(stream.take().ok_or_else(|| io::Error::other("connected twice"))))
}

/// The address with the port that is meant; the tunnels would take 443 for all.
fn with_port(server: &Uri) -> Option<Uri> {
    if server.port().is_some() {
        return Some(server.clone());
    }
    let port = if server.scheme_str() == Some("http") { 80 } else { 443 };
    let authority = format!("{}:{port}", server.host()?);
    Uri::builder().scheme(server.scheme_str()?).authority(authority).path_and_query("/").build().ok()
}

impl Proxy {
    fn error(&self, why: &str, cause: Option<BoxError>) -> BoxError {
        Box::new(ProxyError { message: format!("{self} {why}"), cause })
    }

    fn unreachable(&self, cause: BoxError) -> BoxError {
        let why = format!("cannot be reached; is {} right, and the proxy up?", self.origin);
        self.error(&why, Some(cause))
    }

    async fn tunnel<T>(&self, near: T, server: &Uri) -> Result<T, BoxError>
    where
        T: Read + Write + Unpin + Send + 'static,
    {
        let mut tunnel = Tunnel::new(self.address.clone(), connected(near));
        if let Some(basic) = self.basic.clone() {
            tunnel = tunnel.with_auth(basic);
        }
        tunnel.call(server.clone()).await.map_err(|e| self.refused(e.into(), server))
    }

    async fn socks<T>(&self, near: T, server: &Uri) -> Result<T, BoxError>
    where
        T: Read + Write + Unpin + Send + 'static,
    {
        let mut socks = SocksV5::new(self.address.clone(), connected(near));
        if let Some((user, password)) = self.user.clone() {
            socks = socks.with_auth(user, password);
        }
        socks.call(server.clone()).await.map_err(|e| self.refused(e.into(), server))
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
        self.error(&why, Some(cause))
    }
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for ProxyError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn StdError + 'static))
    }
}

impl Line {
    pub(crate) fn connected(&self) -> Connected {
        match self {
            Self::Tcp(tcp) => tcp.connected(),
            Self::OverTls(_) => Connected::new(),
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Self::OverTls(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Line {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Self::OverTls(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::OverTls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::OverTls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.is_write_vectored(),
            Self::OverTls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_write_vectored(cx, bufs),
            Self::OverTls(tls) => Pin::new(tls).poll_write_vectored(cx, bufs),
        }
    }
}
