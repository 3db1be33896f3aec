//! [`Reflector`]: keeps a [`DeltaFifo`] fed with what a server has; list once, then watch, for ever.
//!
//! ```text
//!          ┌────────── backoff ◄── error ──────────────┬──────────────────────┐
//!          ▼                                           │                      │
//!        list ("0", later the last version, "" when that is refused) ──► watch from the list's version
//!                                                                   ▲         │ ended, refused, 429
//!                                                                   └─────────┘ the last version again: no relist
//! ```
//!
//! Invariants:
//! - nothing goes back in time: a list older than what was seen is not taken over, unless the server says so in a
//!   quorum read (then it was restored from a backup);
//! - a list reaches the queue complete or not at all, and only then does the version move;
//! - however the server fails, tries are spaced by a jittered backoff that only success resets, watches are opened at
//!   least a second apart, and a server that is away is asked by one reflector of the process at a time;
//! - cancelling ends the run at the next await, whichever that is.
//!
//! Run by the `SharedInformer`. Streaming lists (`sendInitialEvents`) will be a sibling of [`list`], chosen in
//! [`Reflector::list_and_watch`].

mod list;
mod status;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use pilothouse_client::{Error, Result};
use pilothouse_object::Gvr;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::availability::Availability;
use crate::backoff::Backoff;
use crate::delta_fifo::DeltaFifo;
use crate::indexer::Indexer;
use crate::lister_watcher::ListerWatcher;
pub use status::ReflectorStatus;
pub(crate) use status::{Shared, count, get};

/// Is called with each failure of a list or a watch, before the backoff.
pub type WatchErrorHandler = Arc<dyn Fn(&Gvr, &Error) + Send + Sync>;

/// How a reflector behaves.
#[derive(Clone)]
pub struct ReflectorOptions {
    /// Shared by all reflectors of one API server.
    pub availability: Arc<Availability>,
    /// Told of each failure.
    pub watch_error_handler: Option<WatchErrorHandler>,
    /// Begin with a quorum read instead of what the server's watch cache has.
    pub first_list_quorum: bool,
    /// A version that an earlier process has seen: older lists are not taken over.
    pub not_older_than: Option<String>,
    /// Shortest time that a watch asks for; the longest is twice that. Values below 5 min are not honoured.
    pub min_watch_timeout: Duration,
    /// Items in a page of a list that cannot come from the server's watch cache.
    pub page_size: u32,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        Self {
            availability: Availability::new(),
            watch_error_handler: None,
            first_list_quorum: false,
            not_older_than: None,
            min_watch_timeout: MIN_WATCH_TIMEOUT,
            page_size: 500,
        }
    }
}

const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Feeds a [`DeltaFifo`] from a [`ListerWatcher`].
pub struct Reflector {
    resource: Gvr,
    source: Arc<dyn ListerWatcher>,
    fifo: Arc<DeltaFifo>,
    /// What is held already: a relist keeps what did not change instead of a second copy.
    indexer: Arc<Indexer>,
    options: ReflectorOptions,
    shared: Arc<Shared>,

    /// Where the next watch or list goes on; empty before the first list.
    version: Arc<str>,
    /// The newest version ever seen, also by an earlier process.
    newest: Arc<str>,
    /// The server does not serve `version` any more (or not yet): the next list is a quorum read.
    version_unavailable: bool,
    /// A list from "0" came in pages, so the server has no watch cache and large lists must be asked for in pages.
    paged_from_zero: bool,
    backoff: Backoff,
    next_open: Instant,
}

impl Reflector {
    /// A reflector that has not begun. `indexer` is the store that the consumer of `fifo` fills.
    #[must_use]
    pub fn new(
        resource: Gvr,
        source: Arc<dyn ListerWatcher>,
        fifo: Arc<DeltaFifo>,
        indexer: Arc<Indexer>,
        options: ReflectorOptions,
    ) -> Self {
        let newest = options.not_older_than.as_deref().unwrap_or_default().into();
        Self {
            resource,
            source,
            fifo,
            indexer,
            options,
            shared: Arc::default(),
            version: "".into(),
            newest,
            version_unavailable: false,
            paged_from_zero: false,
            backoff: Backoff::reflector(),
            next_open: Instant::now(),
        }
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// How it fares.
    #[must_use]
    pub fn status(&self) -> ReflectorStatus {
        self.shared.status(self.fifo.has_synced())
    }

    /// Lists and watches until cancelled or until the queue is closed.
    pub async fn run(mut self, cancel: CancellationToken) {
        // Every await below may be the last one: nothing is left half done between two of them.
        let _ = cancel.run_until_cancelled(self.run_on()).await;
    }

    async fn run_on(&mut self) {
        loop {
            let wait = match self.list_and_watch().await {
                Ok(()) => self.backoff.failure(),
                Err(Stop::Closed) => return,
                // Waiting is the gate's: it tries on behalf of all.
                Err(Stop::Failed(error)) if error.is_connection_refused() => Duration::ZERO,
                Err(Stop::Failed(error)) => self.delay(&error),
            };
            sleep(wait).await;
        }
    }

    /// One list and the watches behind it. `Ok`: list again, for a reason that is no failure.
    async fn list_and_watch(&mut self) -> std::result::Result<(), Stop> {
        self.list().await.inspect_err(|stop| self.note(stop))?;
        self.watch().await.inspect_err(|stop| self.note(stop))
    }

    /// How long to wait after a failure: the backoff, or longer when the server asks for it.
    fn delay(&mut self, error: &Error) -> Duration {
        self.backoff.failure().max(error.retry_after().unwrap_or_default())
    }

    fn note(&self, stop: &Stop) {
        if let Stop::Failed(error) = stop {
            self.report(error);
        }
    }

    /// Shows a failure in the status, the log and to the hook.
    fn report(&self, error: &Error) {
        let again = self.shared.last_error.lock().replace(error.clone()).map(|last| last.to_string());
        let resource = &self.resource;
        // A kind that is not served is a state of affairs; the same failure again is no news.
        if error.is_not_found() || again.as_deref() == Some(error.to_string().as_str()) {
            tracing::debug!(%resource, %error, "list or watch failed; trying again");
        } else {
            tracing::warn!(%resource, %error, "list or watch failed; trying again");
        }
        if let Some(handler) = &self.options.watch_error_handler {
            handler(resource, error);
        }
    }

    fn succeeded(&mut self) {
        self.backoff.success();
        if self.shared.last_error.lock().take().is_some() {
            tracing::info!(resource = %self.resource, "list and watch work again");
        }
    }

    fn set_version(&mut self, version: &str) {
        self.version = version.into();
        *self.shared.version.lock() = self.version.clone();
        if !crate::version::is_older(version, &self.newest) {
            self.newest = self.version.clone();
        }
    }
}

/// Why listing and watching ended.
enum Stop {
    /// The queue is closed: for good.
    Closed,
    /// After a backoff, again.
    Failed(Error),
}

impl From<crate::error::CacheError> for Stop {
    fn from(_: crate::error::CacheError) -> Self {
        Self::Closed
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Makes one request when the gate lets it through, and tells the gate how it went.
async fn gated<T>(availability: &Arc<Availability>, request: impl Future<Output = Result<T>>) -> Result<T> {
    let permit = availability.enter().await;
    let outcome = request.await;
    match &outcome {
        // Not reached, but not refused either: says nothing about the others' chances.
        Err(Error::Transport { connection_refused: false, .. }) => drop(permit),
        Err(error) => permit.settle(error.is_connection_refused()),
        Ok(_) => permit.settle(false),
    }
    outcome
}
