//! What the handles of one queue share.
//!
//! Invariants: hashes are computed and wakers called outside the mutex; `state` hashes with the same hasher. Called by
//! the public handle and by the two futures.

use std::mem;

use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::limiter::RateLimiter;
use crate::state::State;

/// Holds the state behind its mutex, and what never changes beside it.
pub(crate) struct Shared<K, M> {
    state: Mutex<State<K, M>>,
    pub(crate) clock: Clock,
    pub(crate) hasher: RandomState,
    pub(crate) limiter: Box<dyn RateLimiter<K>>,
}

impl<K, M> Shared<K, M> {
    pub(crate) fn new(limiter: Box<dyn RateLimiter<K>>) -> Self {
        let hasher = RandomState::default();
        Self { state: Mutex::new(State::new(hasher.clone())), clock: Clock::start(), hasher, limiter }
    }

    /// Runs `action` under the mutex, then wakes whom it notified.
    #[inline]
    pub(crate) fn locked<R>(&self, action: impl FnOnce(&mut State<K, M>) -> R) -> R {
        let mut state = self.state.lock();
        let result = action(&mut state);
        if !state.wakes.is_empty() {
            let wakes = mem::take(&mut state.wakes);
            drop(state);
            wakes.wake();
        }
        result
    }
}
