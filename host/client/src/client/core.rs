//! [`ClientCore`]: what the clients of all identities share: configuration, credentials, connections, caches.

use std::sync::Arc;

use http::Uri;
use tokio::runtime::Handle;

use crate::config;
use crate::credentials::{Authorizer, Tls};
use crate::documents::DocumentCache;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::identity::RequestIdentity;
use crate::observer::RequestObserver;
use crate::options::ClientOptions;
use crate::rate_limiter::RateLimiter;
use crate::transport::{Connector, Transport, system_resolver};
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
    pub(super) connections: Arc<Transport>,
    pub(super) connector: Connector,
    pub(super) server: Uri,
    pub(super) max_connections: usize,
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
        let connections = Arc::new(Transport::new(&connector, &server, options.max_connections));
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
            observer: options.observer,
            own: Arc::new(own),
            discovery: Arc::new(DocumentCache::shared()),
            warnings: Warnings::default(),
            rate_limiter,
            compress_lists: options.compress_lists,
        })
    }

    /// Connections that no other client uses, on a runtime.
    pub(super) fn connections_on(&self, runtime: &Handle) -> Arc<Transport> {
        let connector = self.connector.on(runtime);
        Arc::new(Transport::new(&connector, &self.server, self.max_connections))
    }
}
