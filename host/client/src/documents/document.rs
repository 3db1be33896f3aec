//! [`Document`]: one document of discovery, as it was fetched last.
//!
//! Invariants: one fetch of a document runs at a time, and calls that waited for it take its outcome, failure or not; a good
//! document stays while a newer one cannot be had, with the failure beside it.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::{Error, Result};

/// For how long a document is trusted about what it does not hold, and how long after a failure it is not fetched again
/// where the document before can be used.
pub(crate) const REFRESH_SPACING: Duration = Duration::from_secs(10);

/// Which documents a call accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    /// When the call began. A document that was fetched since then is accepted in any case.
    since: Instant,
    /// Not one that the server confirmed longer ago. A failed fetch is an error then, whatever is cached.
    pub(super) max_age: Option<Duration>,
    /// Not a failure that may have passed.
    retry: bool,
}

impl Access {
    /// Whatever is cached, except failures that may have passed.
    pub(crate) fn plain() -> Self {
        Self { since: Instant::now(), max_age: None, retry: true }
    }

    /// Whatever is cached.
    pub(crate) fn cached() -> Self {
        Self { retry: false, ..Self::plain() }
    }

    /// The same call, which accepts documents up to this age.
    pub(crate) fn newer_than(self, max_age: Duration) -> Self {
        Self { max_age: Some(max_age), retry: false, ..self }
    }

    /// The same call about a document without which there is no other.
    pub(crate) fn required(self) -> Self {
        Self { retry: self.max_age.is_none(), ..self }
    }
}

/// What a fetch gave.
#[derive(Debug, Clone)]
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
}

#[derive(Debug, Clone)]
struct DocumentState<T> {
    cached: Option<Fetched<T>>,
    /// The last fetch, where it failed and the good document before it stayed.
    failure: Option<(Error, Instant)>,
}

impl<T> Default for Document<T> {
    fn default() -> Self {
        let state = DocumentState { cached: None, failure: None };
        Self { state: Mutex::new(state), fetching: tokio::sync::Mutex::default() }
    }
}

impl<T: Clone> Document<T> {
    /// The document, if the caller accepts it as it is cached.
    pub(super) fn cached(&self, ttl: Duration, access: Access) -> Option<Result<T>> {
        self.state.lock().cached(ttl, access)
    }

    /// The document as it is cached, or fetched.
    pub(crate) async fn get(
        &self,
        ttl: Duration,
        access: Access,
        fetch: impl Future<Output = Fetched<T>>,
    ) -> Result<T> {
        if let Some(value) = self.cached(ttl, access) {
            return value;
        }
        let _fetching = self.fetching.lock().await;
        if let Some(value) = self.cached(ttl, access) {
            return value;
        }
        let fetched = fetch.await;
        let state = &mut *self.state.lock();
        let result = fetched.value.clone();
        state.put(fetched);
        // A failed fetch may have left the document before it.
        state.instead_of_failure(access).unwrap_or(result)
    }

    /// The document with the outcome of a later fetch. Calls that still fetch this one do not change it.
    pub(super) fn renewed(&self, fetched: Fetched<T>) -> Self {
        let mut state = self.state.lock().clone();
        state.put(fetched);
        Self { state: Mutex::new(state), fetching: tokio::sync::Mutex::default() }
    }

    /// What is cached, however old.
    pub(crate) fn last(&self) -> Option<Result<T>> {
        Some(self.state.lock().cached.as_ref()?.value.clone())
    }

    /// Whether it was fetched, or last confirmed, before this time.
    pub(super) fn is_older(&self, than: Instant) -> bool {
        self.state.lock().cached.as_ref().is_none_or(|cached| cached.checked < than)
    }

    /// Whether a moment ago a newer one could not be had.
    pub(crate) fn failed_of_late(&self) -> bool {
        self.state.lock().failure.as_ref().is_some_and(|(_, at)| at.elapsed() < REFRESH_SPACING)
    }
}

impl<T: Clone> DocumentState<T> {
    fn cached(&self, ttl: Duration, access: Access) -> Option<Result<T>> {
        let cached = self.cached.as_ref()?;
        let counts = |at: Instant, age| at >= access.since || at.elapsed() < age;
        if counts(cached.checked, access.max_age.map_or(ttl, |max_age| max_age.min(ttl))) {
            return match &cached.value {
                Err(error) if access.retry && cached.checked < access.since && may_pass(error) => None,
                value => Some(value.clone()),
            };
        }
        let (_, at) = self.failure.as_ref()?;
        if counts(*at, REFRESH_SPACING) { self.instead_of_failure(access) } else { None }
    }

    /// What a call gets that needs a newer document where none could be had.
    fn instead_of_failure(&self, access: Access) -> Option<Result<T>> {
        let (cached, (error, _)) = (self.cached.as_ref()?, self.failure.as_ref()?);
        Some(if access.max_age.is_none() { cached.value.clone() } else { Err(error.clone()) })
    }

    fn put(&mut self, fetched: Fetched<T>) {
        let good = self.cached.as_ref().is_some_and(|cached| cached.value.is_ok());
        match fetched.value {
            Err(error) if good && !error.is_not_found() => self.failure = Some((error, fetched.checked)),
            _ => *self = Self { cached: Some(fetched), failure: None },
        }
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
