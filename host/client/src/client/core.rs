//! [`ClientCore`]: what the clients of all identities share: configuration, credentials, connections, caches.

use std::sync::Arc;

use http::{Request, Response, Uri};
use tokio::runtime::Handle;
use tower::{BoxError, ServiceExt as _};

use crate::config;
use crate::credentials::{Authorizer, Tls};
use crate::documents::DocumentCache;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::identity::RequestIdentity;
use crate::observer::RequestObserver;
use crate::options::ClientOptions;
use crate::rate_limiter::RateLimiter;
use crate::transport::{
    Connector, HttpService, Middleware, RequestBody, ResponseBody, SendOptions, Transport, system_resolver,
};
use crate::warnings::Warnings;

/// What the clients of all identities share.
pub(crate) struct ClientCore {
    /// Scheme, host and port, and the path prefix of the server's address; without a `/` at the end.
    pub(crate) base: String,
    /// Host and port.
    pub(super) host: String,
    pub(crate) default_namespace: String,
    pub(crate) runtime: Handle,
    pub(super) authorizer: Authorizer,
    pub(super) tls: Arc<Tls>,
    pub(super) connections: Arc<Connections>,
    pub(super) connector: Connector,
    pub(super) server: Uri,
    pub(super) max_connections: usize,
    pub(super) middleware: Option<Middleware>,
    pub(super) observer: Option<Arc<dyn RequestObserver>>,
    /// The host's own identity.
    pub(crate) own: Arc<RequestIdentity>,
    pub(crate) discovery: Arc<DocumentCache>,
    pub(super) warnings: Warnings,
    pub(super) rate_limiter: Option<RateLimiter>,
    pub(super) compress_lists: bool,
}

impl ClientCore {
    pub(crate) async fn new(options: ClientOptions) -> Result<Self> {
        let loaded = config::load(&options).await?;
        let runtime = Handle::current();
        let identity = Identity {
            user_agent: options.user_agent,
            field_manager: options.field_manager,
            impersonate: loaded.impersonate,
            rate_limit: None,
        };
        let own = RequestIdentity::own(identity, &runtime)?;
        let rate_limiter =
            options.rate_limit.map(|limit| RateLimiter::new(limit, runtime.clone())).transpose()?;
        let server: Uri = loaded.base.parse().map_err(|_| {
            // It has been parsed before.
            Error::Config(format!("{}: not an address", loaded.base))
        })?;
        let connector = Connector::new(
            system_resolver(),
            runtime.clone(),
            Arc::clone(&loaded.tls),
            loaded.proxy,
            options.connect_timeout,
        );
        let connections =
            Connections::new(&connector, &server, options.max_connections, options.middleware.as_ref());
        Ok(Self {
            base: loaded.base,
            host: loaded.host,
            default_namespace: loaded.default_namespace,
            runtime,
            authorizer: loaded.authorizer,
            tls: loaded.tls,
            connections,
            connector,
            server,
            max_connections: options.max_connections,
            middleware: options.middleware,
            observer: options.observer,
            own: Arc::new(own),
            discovery: Arc::new(DocumentCache::shared()),
            warnings: Warnings::default(),
            rate_limiter,
            compress_lists: options.compress_lists,
        })
    }
}

/// The connections that the calls of a client go over, under the middleware.
pub(crate) enum Connections {
    Plain(Transport),
    Wrapped(HttpService),
}

impl Connections {
    fn new(
        connector: &Connector,
        server: &Uri,
        max_connections: usize,
        middleware: Option<&Middleware>,
    ) -> Arc<Self> {
        let transport = Transport::new(connector, server, max_connections);
        Arc::new(match middleware {
            None => Self::Plain(transport),
            Some(middleware) => Self::Wrapped(middleware.around(Arc::new(transport))),
        })
    }

    /// Sends a request and gives the head of its response.
    pub(super) async fn send(
        &self,
        mut request: Request<RequestBody>,
        options: SendOptions,
    ) -> std::result::Result<Response<ResponseBody>, BoxError> {
        request.extensions_mut().insert(options);
        match self {
            Self::Plain(transport) => Ok(transport.send(request).await?),
            Self::Wrapped(service) => service.clone().oneshot(request).await,
        }
    }
}

impl ClientCore {
    /// Connections that no other client uses, on a runtime.
    pub(super) fn connections_on(&self, runtime: &Handle) -> Arc<Connections> {
        let connector = self.connector.on(runtime);
        Connections::new(&connector, &self.server, self.max_connections, self.middleware.as_ref())
    }
}
