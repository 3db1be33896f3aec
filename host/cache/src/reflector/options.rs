//! [`ReflectorOptions`]: how a reflector behaves.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_client::Error;
use pilothouse_object::{Gvr, Object};

use crate::availability::Availability;

/// Is called with each failure of a list or a watch, before the backoff.
pub type WatchErrorHandler = Arc<dyn Fn(&Gvr, &Error) + Send + Sync>;

/// Makes of each object that comes what is kept of it, once, before anybody sees it. It must keep namespace, name, UID
/// and resource version. On an error the object is passed over: what was held under its key stays.
pub type Transform = Arc<dyn Fn(Object) -> Result<Object, Box<dyn StdError + Send + Sync>> + Send + Sync>;

/// How a reflector behaves.
#[derive(Clone)]
pub struct ReflectorOptions {
    /// Shared by all reflectors of one API server.
    pub availability: Arc<Availability>,
    /// Name of the cluster, for the lines of the log of a process that has several; without it they have no field `cluster`.
    pub cluster: Option<Arc<str>>,
    /// Told of each failure.
    pub watch_error_handler: Option<WatchErrorHandler>,
    /// Applied to each object that comes, from lists and watches alike.
    pub transform: Option<Transform>,
    /// Begin with a watch that sends the present objects first (`sendInitialEvents`), where source and server can; a
    /// list otherwise.
    pub watch_list: bool,
    /// Compare each streaming list with a list of its version, and log a difference; client-go's
    /// `KUBE_WATCHLIST_INCONSISTENCY_DETECTOR`. For tests.
    pub check_watch_lists: bool,
    /// Begin a list with a quorum read instead of what the server's watch cache has.
    pub first_list_quorum: bool,
    /// A version that an earlier process has seen: older lists are not taken over.
    pub not_older_than: Option<String>,
    /// Shortest time that a watch asks for; the longest is twice that. Values below 5 min are not honoured.
    pub min_watch_timeout: Duration,
    /// Items in a page of a list that cannot come from the server's watch cache.
    pub page_size: u32,
    /// For how long watches that end with `InternalError` are opened again without a list; zero: a list at once.
    pub max_internal_error_retry: Duration,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        Self {
            availability: Availability::new(),
            cluster: None,
            watch_error_handler: None,
            transform: None,
            watch_list: true,
            check_watch_lists: false,
            first_list_quorum: false,
            not_older_than: None,
            min_watch_timeout: MIN_WATCH_TIMEOUT,
            page_size: 500,
            max_internal_error_retry: Duration::ZERO,
        }
    }
}

/// client-go's `minWatchTimeout`.
pub(super) const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(5 * 60);
