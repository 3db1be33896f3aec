//! [`Connection`]: one HTTP/1.1 connection to an address that the caller has checked.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use pilothouse_plugin::Host;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use wasmtime_wasi_http::Error;

use super::body::RequestBody;
use super::client::HttpObserver;
use super::destination::Destination;
use super::metered::metered;
use super::{MAX_HEAD, MAX_HEADERS};

/// An HTTP/1.1 connection. Dropping it closes it, even during an exchange.
pub(super) struct Connection {
    pub(super) sender: SendRequest<RequestBody>,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Tries the addresses in order until one accepts; fails at `by`.
    pub(super) async fn open(
        to: &Destination,
        addresses: &[SocketAddr],
        tls: Option<&Arc<ClientConfig>>,
        by: Instant,
        observer: &Arc<dyn HttpObserver>,
    ) -> Result<Self, Error> {
        let mut last = Error::DestinationUnavailable;
        for (tried, address) in addresses.iter().enumerate() {
            // Each attempt gets an equal share of the remaining time, so a silent address leaves time for the next.
            let left = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
            let until = Instant::now() + by.saturating_duration_since(Instant::now()) / left;
            match timeout_at(until, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Self::over(stream, to, tls, by, observer).await,
                Ok(Err(error)) => last = connect_error(&error),
                Err(_) => last = Error::ConnectionTimeout,
            }
        }
        Err(last)
    }

    async fn over(
        stream: TcpStream,
        to: &Destination,
        tls: Option<&Arc<ClientConfig>>,
        by: Instant,
        observer: &Arc<dyn HttpObserver>,
    ) -> Result<Self, Error> {
        // Each request is written at once, so Nagle's algorithm would only delay it.
        stream.set_nodelay(true).map_err(|error| connect_error(&error))?;
        let Some(tls) = tls else { return Self::speak(stream, observer).await };
        let name = match &to.host {
            Host::Name(name) => {
                ServerName::try_from(name.clone()).map_err(|_| Error::HttpRequestUriInvalid)?
            }
            Host::Address(address) => ServerName::from(*address),
        };
        let handshake = TlsConnector::from(Arc::clone(tls)).connect(name, stream);
        let stream = timeout_at(by, handshake)
            .await
            .map_err(|_| Error::ConnectionTimeout)?
            .map_err(|error| tls_error(&error))?;
        Self::speak(stream, observer).await
    }

    async fn speak(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        observer: &Arc<dyn HttpObserver>,
    ) -> Result<Self, Error> {
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_HEADERS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| hyper_error(&error))?;
        let driver = async move {
            // The future of the response returns the error to its caller.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection of a guest ended");
            }
        };
        let driver = tokio::spawn(metered(driver, Arc::clone(observer)));
        Ok(Self { sender, driver })
    }
}

fn connect_error(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Error::ConnectionRefused,
        io::ErrorKind::TimedOut => Error::ConnectionTimeout,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Error::DestinationUnavailable,
        _ => Error::ConnectionTerminated,
    }
}

fn tls_error(error: &io::Error) -> Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    tracing::debug!(%error, "TLS handshake of a guest failed");
    match cause {
        Some(
            rustls::Error::InvalidCertificate(_)
            | rustls::Error::NoCertificatesPresented
            | rustls::Error::InvalidCertRevocationList(_),
        ) => Error::TlsCertificateError,
        Some(rustls::Error::AlertReceived(alert)) => Error::TlsAlertReceived {
            alert_id: Some(u8::from(*alert)),
            alert_message: Some(format!("{alert:?}")),
        },
        Some(_) => Error::TlsProtocolError,
        None => Error::ConnectionTerminated,
    }
}

/// The error of the interface for an error of hyper.
pub(super) fn hyper_error(error: &hyper::Error) -> Error {
    if error.is_parse_too_large() {
        return Error::HttpResponseHeaderSectionSize(u32::try_from(MAX_HEAD).ok());
    }
    if error.is_parse() || error.is_parse_status() {
        return Error::HttpProtocolError;
    }
    if error.is_incomplete_message() {
        return Error::HttpResponseIncomplete;
    }
    Error::ConnectionTerminated
}
