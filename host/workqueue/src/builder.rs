//! [`QueueBuilder`]: a queue with options.
//!
//! Invariant: the defaults are client-go's. Called by the owner of a queue.

use std::hash::Hash;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::clock::Clock;
use crate::limiter::{RateLimiter, default_controller_rate_limiter};
use crate::shared::{Settings, Shared};
use crate::timekeeper::Hook;
use crate::{Merge, Queue};

/// The options of a queue. Made by [`Queue::builder`].
#[must_use]
pub struct QueueBuilder<K, M = ()> {
    name: Option<Arc<str>>,
    limiter: Option<Box<dyn RateLimiter>>,
    payload: std::marker::PhantomData<fn(K) -> M>,
}

impl<K: Clone + Eq + Hash + Send + 'static, M: Merge> QueueBuilder<K, M> {
    pub(crate) fn new() -> Self {
        Self { name: None, limiter: None, payload: std::marker::PhantomData }
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

    /// Makes the queue.
    #[must_use]
    pub fn build(self) -> Queue<K, M> {
        self.make(Clock::start(), None)
    }

    pub(crate) fn make(self, clock: Clock, hook: Option<Hook>) -> Queue<K, M> {
        let Self { name, limiter, .. } = self;
        let limiter = limiter.unwrap_or_else(|| Box::new(default_controller_rate_limiter()));
        let settings = Settings { name, hasher: RandomState::default(), clock, has_hook: hook.is_some() };
        Queue { shared: Arc::new(Shared::new(settings, limiter, hook)) }
    }
}
