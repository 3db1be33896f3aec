//! [`Reflector`]: keeps a [`DeltaFifo`] fed with the objects of a server: it lists once, then watches until it is cancelled.
//!
//! ```text
//!          ┌────────── backoff ◄── error ──────────────┬──────────────────────┐
//!          ▼                                           │                      │
//!        watch-list ("", later the last version) ───────────────────────►  the same watch
//!          │ not known to the server, no bookmark                             │
//!          ▼                                                                  ▼
//!        list ("0", later the last version, "" when that is refused) ──► watch from the last version
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
//! Run by the `SharedInformer`.

mod absent;
mod internal_error;
mod list;
mod open;
mod options;
mod receive;
mod status;
mod watch;
mod watch_list;
mod watch_list_check;

use std::sync::Arc;
use std::time::Duration;

use pilothouse_client::{Error, Result};
use pilothouse_object::Gvr;
use tokio::sync::watch as signal;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::availability::Availability;
use crate::backoff::Backoff;
use crate::delta_fifo::DeltaFifo;
use crate::indexer::Indexer;
use crate::source::lister_watcher::ListerWatcher;
use crate::version::ResourceVersion;
use absent::Absence;
use internal_error::InternalErrorRetry;
pub use options::{ReflectorOptions, Transform, WatchErrorHandler};
use receive::ObjectReceiver;
pub use status::ReflectorStatus;
pub(crate) use status::{Shared, count, get};

/// Feeds a [`DeltaFifo`] from a [`ListerWatcher`].
pub struct Reflector {
    resource: Gvr,
    source: Arc<dyn ListerWatcher>,
    fifo: Arc<DeltaFifo>,
    receiver: ObjectReceiver,
    options: ReflectorOptions,
    shared: Arc<Shared>,
    /// Changes when a list is asked for.
    relist: signal::Receiver<()>,

    /// Where the next watch or list goes on; empty before the first list.
    version: ResourceVersion,
    /// The newest version ever seen, also by an earlier process.
    newest: ResourceVersion,
    /// The server does not serve `version` any more (or not yet): the next list is a quorum read.
    version_unavailable: bool,
    /// A list from "0" came in pages, so the server has no watch cache and large lists must be asked for in pages.
    paged_from_zero: bool,
    /// Streaming lists did not work: until then there are none.
    list_until: Option<Instant>,
    /// Streaming lists in a row that ended too soon.
    unfinished_rounds: u32,
    /// Begin with a watch from `version`: the store is complete up to it.
    resume: bool,
    /// The kind is not served.
    absence: Option<Absence>,
    internal_errors: InternalErrorRetry,
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
        let shared = Arc::new(Shared::new(options.cluster.clone()));
        Self {
            receiver: ObjectReceiver {
                resource: resource.clone(),
                transform: options.transform.clone(),
                indexer,
                shared: shared.clone(),
            },
            resource,
            source,
            fifo,
            internal_errors: InternalErrorRetry::new(options.max_internal_error_retry),
            options,
            relist: shared.relist.subscribe(),
            shared,
            version: ResourceVersion::default(),
            newest,
            version_unavailable: false,
            paged_from_zero: false,
            list_until: None,
            unfinished_rounds: 0,
            resume: false,
            absence: None,
            backoff: Backoff::reflector(),
            next_open: Instant::now(),
        }
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Goes on with the figures and the status of an earlier reflector.
    pub(crate) fn with_shared(mut self, shared: Arc<Shared>) -> Self {
        self.relist = shared.relist.subscribe();
        self.receiver.shared = shared.clone();
        self.shared = shared;
        self
    }

    /// Begins with a watch from this version, without a list: the store is complete up to it.
    pub(crate) fn resume_at(mut self, version: &str) -> Self {
        self.set_version(version.into());
        self.resume = true;
        self
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
                Ok(Again::AtOnce) => Duration::ZERO,
                Ok(Again::AfterBackoff) => self.backoff.failure(),
                Err(Stop::Closed) => return,
                // Waiting is the gate's: it tries on behalf of all.
                Err(Stop::Failed(error)) if error.is_connection_refused() => Duration::ZERO,
                Err(Stop::Failed(error)) => {
                    let wait = self.delay(&error);
                    if error.is_not_found() {
                        let Ok(wait) = self.not_served(wait).await else { return };
                        wait
                    } else {
                        self.absence = None;
                        wait
                    }
                }
            };
            sleep(wait).await;
        }
    }

    /// One list and the watches behind it. `Ok`: list again, for a reason that is no failure.
    async fn list_and_watch(&mut self) -> std::result::Result<Again, Stop> {
        if std::mem::take(&mut self.resume) {
            return self.watch(None).await.inspect_err(|stop| self.note(stop));
        }
        let open = if self.may_watch_list() {
            self.watch_list().await.inspect_err(|stop| self.note(stop))?
        } else {
            None
        };
        if open.is_none() {
            self.list().await.inspect_err(|stop| self.note(stop))?;
        }
        self.watch(open).await.inspect_err(|stop| self.note(stop))
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
            tracing::debug!(cluster = self.shared.cluster(), %resource, %error, "list or watch failed; trying again");
        } else {
            tracing::warn!(event = "watch_failed", cluster = self.shared.cluster(), %resource,
                %error, "list or watch failed; trying again");
        }
        if let Some(handler) = &self.options.watch_error_handler {
            handler(resource, error);
        }
    }

    fn succeeded(&mut self) {
        self.backoff.success();
        self.absence = None;
        if self.shared.last_error.lock().take().is_some() {
            tracing::info!(event = "watch_recovered", cluster = self.shared.cluster(), resource = %self.resource,
                "list and watch work again");
        }
    }

    fn set_version(&mut self, version: ResourceVersion) {
        self.shared.version.lock().clone_from(&version);
        if !version.is_older_than(&self.newest) {
            self.newest.clone_from(&version);
        }
        self.version = version;
    }
}

/// When to list again without a failure.
enum Again {
    /// It was asked for.
    AtOnce,
    AfterBackoff,
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
