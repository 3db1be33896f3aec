//! [`QueueBuilder`]: a queue with options.
//!
//! Invariant: the defaults are client-go's. Called by the owner of a queue.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::classes::GroupOf;
use crate::clock::Clock;
use crate::limiter::{RateLimiter, default_controller_rate_limiter};
use crate::shared::{Settings, Shared};
use crate::timekeeper::Hook;
use crate::{Merge, Queue};

/// The options of a queue. Made by [`Queue::builder`].
#[must_use]
pub struct QueueBuilder<K, M = ()> {
    name: Option<Arc<str>>,
    group: Option<GroupOf<K>>,
    limiter: Option<Box<dyn RateLimiter>>,
    payload: std::marker::PhantomData<fn() -> M>,
}

impl<K: Clone + Eq + Hash + Send + 'static, M: Merge> QueueBuilder<K, M> {
    pub(crate) fn new() -> Self {
        Self { name: None, group: None, limiter: None, payload: std::marker::PhantomData }
    }

    /// Sets the name for metrics; as in client-go, only a queue with a name measures durations.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the limiter of [`Queue::add_rate_limited`]; else it is [`default_controller_rate_limiter`].
    pub fn rate_limiter(mut self, limiter: impl RateLimiter + 'static) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Shares the queue fairly between groups of keys, such as namespaces: of the keys of one priority, each group gets
    /// one handed out in turn, however many another has waiting.
    ///
    /// `group` runs under the queue's lock and must not call the queue.
    pub fn fair_by<G: Hash>(mut self, group: impl Fn(&K) -> G + Send + Sync + 'static) -> Self {
        let hasher = RandomState::default();
        self.group = Some(Arc::new(move |key| hasher.hash_one(group(key))));
        self
    }

    /// Makes the queue.
    #[must_use]
    pub fn build(self) -> Queue<K, M> {
        self.make(Clock::start(), None)
    }

    pub(crate) fn make(self, clock: Clock, hook: Option<Hook>) -> Queue<K, M> {
        let Self { name, group, limiter, .. } = self;
        let limiter = limiter.unwrap_or_else(|| Box::new(default_controller_rate_limiter()));
        let settings =
            Settings { name, group, hasher: RandomState::default(), clock, has_hook: hook.is_some() };
        Queue { shared: Arc::new(Shared::new(settings, limiter, hook)) }
    }
}
