//! [`Document`]: one document of discovery, as it was fetched last.
//!
//! Invariants: one fetch of a document runs at a time, and calls that waited for it take its outcome, failure or not; a
//! document is replaced only by one whose fetch began later; nothing whose fetch began before an invalidation is used after
//! it; a good document stays while a newer one cannot be had, with the failure beside it.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::{Error, Result};

/// For how long a document is trusted about what it does not hold, and how long after a failure it is not fetched again
/// where the document before can be used.
pub(crate) const REFRESH_SPACING: Duration = Duration::from_secs(10);

/// Which documents a caller accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    /// Not one that the server confirmed longer ago.
    pub(crate) max_age: Option<Duration>,
    /// Not a failure that may have passed.
    pub(crate) retry: bool,
    /// Also one that has expired.
    pub(crate) expired: bool,
}

impl Access {
    /// Whatever is cached, except failures that may have passed.
    pub(crate) const PLAIN: Self = Self { max_age: None, retry: true, expired: false };
    /// Whatever is cached.
    pub(crate) const CACHED: Self = Self { retry: false, ..Self::PLAIN };

    /// Whatever is cached and no older than this.
    pub(crate) fn newer_than(max_age: Duration) -> Self {
        Self { max_age: Some(max_age), ..Self::CACHED }
    }
}

/// Numbers the fetches of a cache by their beginnings, and tells which of them count.
#[derive(Debug, Default)]
pub(crate) struct FetchClock {
    begun: AtomicU64,
    /// Fetches up to this one began before the last invalidation.
    invalidated: AtomicU64,
    pub(super) ttl: Option<Duration>,
}

impl FetchClock {
    pub(super) fn with_ttl(ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..Self::default() }
    }

    /// The number of the fetch that began last.
    pub(crate) fn last(&self) -> u64 {
        self.begun.load(SeqCst)
    }

    pub(super) fn invalidate(&self) {
        self.invalidated.store(self.last(), SeqCst);
    }

    fn counts(&self, began: u64) -> bool {
        began > self.invalidated.load(SeqCst)
    }

    fn is_expired(&self, checked: Instant) -> bool {
        self.ttl.is_some_and(|ttl| checked.elapsed() >= ttl)
    }
}

/// What a fetch gave.
pub(crate) struct Fetched<T> {
    pub(crate) value: Result<T>,
    /// When the server confirmed it.
    pub(crate) checked: Instant,
}

impl<T> Fetched<T> {
    pub(crate) fn now(value: Result<T>) -> Self {
        Self { value, checked: Instant::now() }
    }
}

/// One document.
#[derive(Debug)]
pub(crate) struct Document<T> {
    state: Mutex<DocumentState<T>>,
    fetching: tokio::sync::Mutex<()>,
    /// After which failures a good document stays.
    stays: fn(&Error) -> bool,
}

#[derive(Debug)]
struct DocumentState<T> {
    cached: Option<CachedDocument<T>>,
    /// The last fetch, where it failed and the good document before it stayed.
    failure: Option<FetchFailure>,
}

#[derive(Debug)]
struct CachedDocument<T> {
    value: Result<T>,
    /// Number of its fetch.
    began: u64,
    checked: Instant,
}

#[derive(Debug)]
struct FetchFailure {
    error: Error,
    at: Instant,
    began: u64,
}

/// What a look at a document gives: it, or the number of its last fetch when another is needed.
enum Look<T> {
    Use(Result<T>),
    Fetch(u64),
}

impl<T: Clone> Document<T> {
    pub(super) fn new(stays: fn(&Error) -> bool) -> Self {
        let state = DocumentState { cached: None, failure: None };
        Self { state: Mutex::new(state), fetching: tokio::sync::Mutex::default(), stays }
    }

    /// The document, if the caller accepts it as it is cached.
    pub(crate) fn cached(&self, clock: &FetchClock, access: Access) -> Option<Result<T>> {
        match self.state.lock().look(clock, access) {
            Look::Use(value) => Some(value),
            Look::Fetch(_) => None,
        }
    }

    /// The document as it is cached, or fetched; `fetch` gets the number of the fetch.
    pub(crate) async fn get<F: Future<Output = Fetched<T>>>(
        &self,
        clock: &FetchClock,
        access: Access,
        fetch: impl FnOnce(u64) -> F,
    ) -> Result<T> {
        let before = match self.state.lock().look(clock, access) {
            Look::Use(value) => return value,
            Look::Fetch(before) => before,
        };
        let _fetching = self.fetching.lock().await;
        if let Some(value) = self.state.lock().fetched_since(clock, before, access) {
            return value;
        }
        let began = clock.begun.fetch_add(1, SeqCst) + 1;
        let Fetched { value, checked } = fetch(began).await;
        self.put(clock, value.clone(), began, checked);
        let state = self.state.lock();
        match (value, &state.failure) {
            (Err(error), Some(failure)) if failure.began == began => {
                state.after_failure(access).unwrap_or(Err(error))
            }
            (value, _) => value,
        }
    }

    /// Caches what the fetch of this number gave.
    pub(super) fn put(&self, clock: &FetchClock, value: Result<T>, began: u64, checked: Instant) {
        let state = &mut *self.state.lock();
        if state.last_fetch() > began {
            return;
        }
        match value {
            Err(error) if clock.counts(began) && (self.stays)(&error) && state.is_good(clock) => {
                state.failure = Some(FetchFailure { error, at: checked, began });
            }
            value => {
                *state =
                    DocumentState { cached: Some(CachedDocument { value, began, checked }), failure: None };
            }
        }
    }

    /// The last good document, whether or not it may still be used.
    pub(crate) fn last_good(&self) -> Option<T> {
        self.state.lock().cached.as_ref()?.value.as_ref().ok().cloned()
    }

    /// Number of the fetch that gave what is cached; 0 when nothing is.
    pub(crate) fn began(&self) -> u64 {
        self.state.lock().cached.as_ref().map_or(0, |cached| cached.began)
    }

    /// Whether a moment ago a newer one could not be had.
    pub(crate) fn failed_of_late(&self) -> bool {
        self.state.lock().failed_of_late()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().cached.is_none()
    }

    /// Whether it holds nothing, or a failure that is older than this.
    pub(super) fn is_old_failure(&self, age: Duration) -> bool {
        let state = self.state.lock();
        state.cached.as_ref().is_none_or(|cached| cached.value.is_err() && cached.checked.elapsed() >= age)
    }
}

impl<T: Clone> DocumentState<T> {
    fn look(&self, clock: &FetchClock, access: Access) -> Look<T> {
        let last = self.last_fetch();
        let Some(cached) = self.cached.as_ref().filter(|cached| clock.counts(cached.began)) else {
            return Look::Fetch(last);
        };
        let old = access.max_age.is_some_and(|age| cached.checked.elapsed() >= age);
        if old || (!access.expired && clock.is_expired(cached.checked)) {
            let instead = self.after_failure(access).filter(|_| self.failed_of_late());
            return instead.map_or(Look::Fetch(last), Look::Use);
        }
        match &cached.value {
            Err(error) if access.retry && may_pass(error) => Look::Fetch(last),
            value => Look::Use(value.clone()),
        }
    }

    /// What came after the fetch of this number, if anything did.
    fn fetched_since(&self, clock: &FetchClock, before: u64, access: Access) -> Option<Result<T>> {
        let cached = self.cached.as_ref().filter(|cached| clock.counts(cached.began))?;
        if cached.began > before {
            return Some(cached.value.clone());
        }
        if self.last_fetch() > before { self.after_failure(access) } else { None }
    }

    /// What is used where no newer document could be had: this one, unless the caller does not accept its age.
    fn after_failure(&self, access: Access) -> Option<Result<T>> {
        let (cached, failure) = (self.cached.as_ref()?, self.failure.as_ref()?);
        Some(if access.max_age.is_none() { cached.value.clone() } else { Err(failure.error.clone()) })
    }

    fn failed_of_late(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.at.elapsed() < REFRESH_SPACING)
    }

    fn is_good(&self, clock: &FetchClock) -> bool {
        self.cached.as_ref().is_some_and(|cached| cached.value.is_ok() && clock.counts(cached.began))
    }

    fn last_fetch(&self) -> u64 {
        let cached = self.cached.as_ref().map_or(0, |cached| cached.began);
        self.failure.as_ref().map_or(cached, |failure| failure.began)
    }
}

/// Whether another fetch could help: nothing answered, something else than an API server did, or the server is busy.
/// Local faults are no response either, and cost no request.
pub(crate) fn may_pass(error: &Error) -> bool {
    match error {
        Error::Api(status) => status.code >= 500 || matches!(status.code, 408 | 429),
        _ => true,
    }
}
