//! [`Connector`]: one new connection to the API server, TCP and TLS, under a time limit. `transport` asks for them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::ServerName;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tower::{BoxError, Service};

use crate::read_ahead::{ReadAhead, Socket};
use crate::transport::{PING_AFTER, PING_TIMEOUT};

/// Connects on the transport's runtime, under a time limit that includes TLS.
#[derive(Clone)]
pub(crate) struct Connector {
    inner: HttpsConnector<ReadAhead>,
    pub(crate) runtime: Handle,
    timeout: Duration,
}

impl Connector {
    /// Connections whose sockets belong to `runtime`; `timeout` is for TCP and TLS together.
    pub(crate) fn new(
        runtime: Handle,
        tls: rustls::ClientConfig,
        server_name: Option<ServerName<'static>>,
        timeout: Duration,
    ) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(PING_AFTER));
        tcp.set_keepalive_interval(Some(PING_TIMEOUT / 3));
        tcp.set_keepalive_retries(Some(3));
        // Shared out among the addresses of the host, so that a dead first one leaves time for the next.
        tcp.set_connect_timeout(Some(timeout));
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let builder = match server_name {
            Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name)),
            None => builder,
        };
        let inner = builder.enable_all_versions().wrap_connector(ReadAhead(tcp));
        Self { inner, runtime, timeout }
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<Socket>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let mut inner = self.inner.clone();
        let limit = self.timeout;
        let mut connecting = AbortOnDrop(self.runtime.spawn(async move {
            match tokio::time::timeout(limit, inner.call(uri)).await {
                Ok(connected) => connected,
                Err(_) => {
                    let message = format!("not connected within {limit:?}");
                    Err(io::Error::new(io::ErrorKind::TimedOut, message).into())
                }
            }
        }));
        Box::pin(async move {
            (&mut connecting.0)
                .await
                .map_err(|_| io::Error::other("the runtime of the connections is gone"))?
        })
    }
}

/// A task that nobody wants to see through.
pub(crate) struct AbortOnDrop<T>(pub(crate) JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
