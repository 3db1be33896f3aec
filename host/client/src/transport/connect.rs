//! [`Connector`]: one new connection to the API server, proxy and TLS included, under a time limit. `transport` asks for
//! them. Certificates are those of now, since [`Tls`] follows their files.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{
    DefaultServerNameResolver, FixedServerNameResolver, HttpsConnector, MaybeHttpsStream, ResolveServerName,
};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::runtime::Handle;
use tower::{BoxError, Service};

use crate::credentials::Tls;
use crate::proxy::Proxy;
use crate::transport::dial::Dialer;
use crate::transport::read_ahead::{ReadAhead, Socket};
use crate::transport::runtime::AbortOnDrop;
use crate::transport::{PING_AFTER, PING_TIMEOUT};

/// Connects on the transport's runtime, under a time limit that includes proxy and TLS.
#[derive(Clone)]
pub(crate) struct Connector {
    line: ReadAhead,
    tls: Arc<Tls>,
    names: Arc<dyn ResolveServerName + Send + Sync>,
    proxy: Option<Arc<Proxy>>,
    pub(crate) runtime: Handle,
    timeout: Duration,
}

impl Connector {
    /// Connections whose sockets belong to `runtime`; `timeout` is for TCP, proxy and TLS together.
    pub(crate) fn new(runtime: Handle, tls: Arc<Tls>, proxy: Option<Proxy>, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(PING_AFTER));
        tcp.set_keepalive_interval(Some(PING_TIMEOUT / 3));
        tcp.set_keepalive_retries(Some(3));
        // Shared out among the addresses of the host, so that a dead first one leaves time for the next.
        tcp.set_connect_timeout(Some(timeout));
        let names: Arc<dyn ResolveServerName + Send + Sync> = match tls.server_name.clone() {
            Some(name) => Arc::new(FixedServerNameResolver::new(name)),
            None => Arc::new(DefaultServerNameResolver::default()),
        };
        let proxy = proxy.map(Arc::new);
        let line = ReadAhead(Dialer { tcp, proxy: proxy.clone(), tls: Arc::clone(&tls) });
        Self { line, tls, names, proxy, runtime, timeout }
    }

    async fn connect(self, server: Uri) -> Result<MaybeHttpsStream<Socket>, BoxError> {
        let limit = self.timeout;
        let through = self.proxy.as_ref().map(|proxy| format!(" through {proxy}")).unwrap_or_default();
        // A plugin that is asked for a certificate has a limit of its own: somebody may have to log in.
        let tls = self.tls.for_handshake().await?;
        let mut https = HttpsConnector::new(self.line, tls, false, self.names);
        match tokio::time::timeout(limit, https.call(server)).await {
            Ok(connected) => connected,
            Err(_) => {
                let message = format!("not connected within {limit:?}{through}");
                Err(io::Error::new(io::ErrorKind::TimedOut, message).into())
            }
        }
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<Socket>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.line.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = AbortOnDrop(self.runtime.spawn(self.clone().connect(uri)));
        Box::pin(async move {
            connecting.await.map_err(|_| io::Error::other("the runtime of the connections is gone"))?
        })
    }
}
