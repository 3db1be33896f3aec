//! What a [`Client`](crate::Client) is made from: options of the whole, identity of each user, observer of requests.
//!
//! The host makes one client from [`ClientOptions`] and hands each plugin a copy under its own [`Identity`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options of a client. The fields left alone take the values of [`Default`].
#[derive(Clone)]
pub struct ClientOptions {
    /// Kubeconfig file. `None` looks as kubectl does: `KUBECONFIG`, `~/.kube/config`, then the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; `None` takes its `current-context`.
    pub context: Option<String>,
    /// Address of a server that needs no credentials, as of `kubectl proxy`; no kubeconfig is read then.
    pub server: Option<String>,
    /// `User-Agent` of requests.
    pub user_agent: String,
    /// Field manager of writes that name none.
    pub field_manager: String,
    /// Time to reach the server, TLS included.
    pub connect_timeout: Duration,
    /// Time for a call from sending to the last byte of the answer, and for a watch to open. A list without a limit
    /// may take longer as long as bytes keep coming.
    pub request_timeout: Duration,
    /// Told of each request.
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
            .finish_non_exhaustive()
    }
}

/// As whom a client speaks. Empty texts leave the client's own values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// `User-Agent` of requests.
    pub user_agent: String,
    /// Field manager of writes that name none.
    pub field_manager: String,
    /// User to act as; `None` keeps what the kubeconfig says.
    pub impersonate: Option<Impersonation>,
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

    /// An exec plugin for credentials has run.
    fn exec_plugin(&self, _event: &crate::exec::ExecPluginEvent) {}
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
