//! [`ClientOptions`]: what a [`Client`](crate::Client) is made from.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::observer::RequestObserver;
use crate::rate_limiter::RateLimit;
use crate::retry::RetryPolicy;

/// Options of a client. The fields left alone take the values of [`Default`].
#[derive(Clone)]
pub struct ClientOptions {
    /// Kubeconfig file. `None` looks as kubectl does: `KUBECONFIG`, `~/.kube/config`, then the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; `None` takes its `current-context`.
    pub context: Option<String>,
    /// Address of a server that needs no credentials, as that of `kubectl proxy`; no kubeconfig is read then.
    pub server: Option<String>,
    /// `User-Agent` of requests.
    pub user_agent: String,
    /// Field manager of writes that name none.
    pub field_manager: String,
    /// Time to reach the server, TLS included.
    pub connect_timeout: Duration,
    /// Time for a call from its beginning, with waits for rate limits and retries, to the last byte of the answer, and for
    /// a watch to open. A list without a limit may take longer as long as bytes keep coming.
    pub request_timeout: Duration,
    /// Which calls are repeated when the server asks for that.
    pub retry: RetryPolicy,
    /// Limit for all requests together; `None` leaves it to the server, which shares itself out better than a client can.
    /// Identities share it fairly. Watches are not counted.
    pub rate_limit: Option<RateLimit>,
    /// Whether lists are asked for in gzip: fewer bytes over a slow line for more processor time on both ends.
    pub compress_lists: bool,
    /// HTTP/2 connections at most: so many for requests, and as many for watches and streams. Another is made when four
    /// fifths of the streams that the server allows on the others are in use; servers allow 100 to 250 on each. Calls
    /// beyond wait for a free place within their timeout. At least 1.
    pub max_connections: usize,
    /// Is called for each request.
    pub observer: Option<Arc<dyn RequestObserver>>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            server: None,
            user_agent: concat!("pilothouse/", env!("CARGO_PKG_VERSION")).to_owned(),
            field_manager: "pilothouse".to_owned(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            retry: RetryPolicy::default(),
            rate_limit: None,
            compress_lists: false,
            max_connections: 16,
            observer: None,
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("kubeconfig", &self.kubeconfig)
            .field("context", &self.context)
            .field("server", &self.server)
            .field("user_agent", &self.user_agent)
            .field("field_manager", &self.field_manager)
            .field("connect_timeout", &self.connect_timeout)
            .field("request_timeout", &self.request_timeout)
            .field("retry", &self.retry)
            .field("rate_limit", &self.rate_limit)
            .field("compress_lists", &self.compress_lists)
            .field("max_connections", &self.max_connections)
            .finish_non_exhaustive()
    }
}
