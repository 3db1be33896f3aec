//! [`DevServerOptions`]: how a server is started.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::controllers::ControllerSet;
use crate::store::HistoryLimits;

/// How a [`DevServer`](crate::DevServer) is started.
#[derive(Debug, Clone)]
pub struct DevServerOptions {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Whether it speaks TLS, with a certificate of its own making that the kubeconfig trusts.
    pub tls: bool,
    /// Names and addresses by which it may be addressed besides loopback ones and the one on which it listens; others are
    /// answered with 403, since pages in a browser send them. With TLS the certificate is for them too.
    pub hosts: Vec<String>,
    /// How many changes of each resource are kept for watches that resume and for lists that go on; an older resource
    /// version is answered with 410. A change is kept whole: the object before and after it.
    pub window: usize,
    /// How many bytes of changes of each resource are kept, 64 MiB; older ones are forgotten as those beyond `window`. A change
    /// counts with the object before it and with the line that watches get.
    pub window_bytes: usize,
    /// How many bytes of changes of all resources together are kept, 256 MiB; the oldest are forgotten first.
    pub total_window_bytes: usize,
    /// How often a watch that asked for bookmarks gets one.
    pub bookmark_every: Duration,
    /// Which of its own controllers run.
    pub controllers: ControllerSet,
}

impl Default for DevServerOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            tls: false,
            hosts: Vec::new(),
            window: 4096,
            window_bytes: HistoryLimits::BYTES,
            total_window_bytes: HistoryLimits::TOTAL_BYTES,
            bookmark_every: Duration::from_secs(10),
            controllers: ControllerSet::default(),
        }
    }
}
