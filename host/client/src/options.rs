//! What a [`Client`](crate::Client) is made from: options of the whole, identity of each user, observer of requests.
//!
//! The host makes one client from [`ClientOptions`] and hands each plugin a copy under its own [`Identity`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::client_config::{ClientConfig, ConfigOverrides};
use crate::retry::RetryPolicy;
use crate::transport::Middleware;

/// Options of a client. The fields left alone take the values of [`Default`].
#[derive(Clone)]
pub struct ClientOptions {
    /// Kubeconfig file. `None` looks as kubectl does: `KUBECONFIG`, `~/.kube/config`, then the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; `None` takes its `current-context`.
    pub context: Option<String>,
    /// Address of a server that needs no credentials, as of `kubectl proxy`; no kubeconfig is read then.
    pub server: Option<String>,
    /// A server and credentials from memory; no kubeconfig is read then.
    pub config: Option<ClientConfig>,
    /// What replaces parts of the kubeconfig.
    pub overrides: ConfigOverrides,
    /// `User-Agent` of requests.
    pub user_agent: String,
    /// Field manager of writes that name none.
    pub field_manager: String,
    /// Time to reach the server, TLS included.
    pub connect_timeout: Duration,
    /// Time for a call from its beginning, with waits for rate limits and retries, to the last byte of the answer, and for
    /// a watch to open. A list without a limit may take longer as long as bytes keep coming.
    pub request_timeout: Duration,
    /// What is asked for again when the server asks for that.
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
    /// Layers around the transport, or a service in its place.
    pub middleware: Option<Middleware>,
    /// Is called for each request.
    pub observer: Option<Arc<dyn RequestObserver>>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            server: None,
            config: None,
            overrides: ConfigOverrides::default(),
            user_agent: concat!("pilothouse/", env!("CARGO_PKG_VERSION")).to_owned(),
            field_manager: "pilothouse".to_owned(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            retry: RetryPolicy::default(),
            rate_limit: None,
            compress_lists: false,
            max_connections: 16,
            middleware: None,
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
            .field("config", &self.config)
            .field("overrides", &self.overrides)
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

/// As whom a client speaks. Empty texts leave the client's own values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Identity {
    /// `User-Agent` of requests.
    pub user_agent: String,
    /// Field manager of writes that name none.
    pub field_manager: String,
    /// User to act as; `None` keeps what the kubeconfig says.
    pub impersonate: Option<Impersonation>,
    /// Limit for the requests of this identity, beside that of [`ClientOptions`]. Watches are not counted.
    pub rate_limit: Option<RateLimit>,
}

/// Requests a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Requests a second in the long run; between 0.001 and 1,000,000.
    pub qps: f64,
    /// Requests that may begin at once after a rest; at least 1.
    pub burst: u32,
}

impl RateLimit {
    /// The burst that goes with a rate where nobody names one: twice the rate, as client-go's defaults stand to each other.
    #[must_use]
    pub fn usual_burst(qps: f64) -> u32 {
        // What is out of bounds ends up at one of them.
        ((2.0 * qps).ceil() as u32).max(1)
    }
}

/// A user to act as; the server checks that the client's own user may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impersonation {
    /// User name, as `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
    /// Groups.
    pub groups: Vec<String>,
    /// UID.
    pub uid: Option<String>,
    /// Extra attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Told of each request, for metrics. Called on the path of requests: it must not block.
pub trait RequestObserver: Send + Sync {
    /// A request has its answer's head, or will get none.
    fn request(&self, request: &ObservedRequest<'_>);

    /// A request has had its turn of the rate limits, which it waited for this long. Not called where there are none.
    fn rate_limited(&self, method: &str, host: &str, waited: Duration) {
        let _ = (method, host, waited);
    }

    /// The answer of a request asked to come again, and it will.
    fn retried(&self, method: &str, host: &str, code: u16) {
        let _ = (method, host, code);
    }

    /// An exec plugin for credentials has run.
    fn exec_plugin(&self, _event: &ExecPluginEvent) {}
}

/// What an exec plugin for credentials did, for metrics.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ExecPluginEvent {
    /// The program has run, or could not.
    Called {
        /// Its exit code; 1 when it did not run, -1 when a signal ended it.
        code: i32,
        /// client-go's word for the outcome: `no_error`, `plugin_execution_error`, `plugin_not_found_error` or
        /// `client_internal_error`.
        status: &'static str,
    },
    /// The certificate in use; told after each run.
    Certificate {
        /// When it expires; `None` when the program gives tokens only.
        expires: Option<SystemTime>,
    },
    /// A certificate was replaced by another.
    Rotated {
        /// Age of the old one.
        age: Duration,
    },
}

/// One request, as an observer sees it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ObservedRequest<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Host and port of the server.
    pub host: &'a str,
    /// HTTP status; `None` when no answer came, or the caller stopped waiting for it.
    pub code: Option<u16>,
    /// From sending to the answer's head.
    pub duration: Duration,
    /// `User-Agent` of the identity that sent it.
    pub user_agent: &'a str,
    /// Whether it opens a watch.
    pub watch: bool,
}
