//! State that the handles of one queue share.
//!
//! Invariants: adds compute hashes outside the mutex, and wakers are called outside; `state` hashes with the same hasher.
//! Called by the public handle, the futures and the timekeeper.

use std::hash::Hash;
use std::mem;
use std::sync::Arc;
use std::task::Waker;

use foldhash::fast::RandomState;

use crate::Merge;
use crate::clock::Clock;
use crate::get::Attempt;
use crate::limiter::RateLimiter;
use crate::state::State;
use crate::sync::{Mutex, MutexGuard};
use crate::timekeeper::Hook;
use crate::waiters::Ticket;

/// The settings of a queue.
pub(crate) struct Settings {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) hasher: RandomState,
    pub(crate) clock: Clock,
    pub(crate) has_hook: bool,
}

/// Holds the state behind its mutex, and constants beside it.
pub(crate) struct Shared<K, M> {
    state: Mutex<State<K, M>>,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) clock: Clock,
    pub(crate) hasher: RandomState,
    hook: Option<Hook>,
}

impl<K, M> Shared<K, M> {
    pub(crate) fn new(settings: Settings, limiter: Box<dyn RateLimiter>, hook: Option<Hook>) -> Self {
        let state = Mutex::new(State::new(&settings, limiter));
        let Settings { name, hasher, clock, .. } = settings;
        Self { state, name, clock, hasher, hook }
    }

    /// The hook of a queue that has one.
    pub(crate) fn hook(&self) -> Option<&Hook> {
        self.hook.as_ref()
    }

    /// Runs `action` under the mutex, and delivers the wake-ups that it caused after unlocking.
    #[inline]
    pub(crate) fn locked<R>(&self, action: impl FnOnce(&mut State<K, M>) -> R) -> R {
        let mut locked = Locked { state: Some(self.state.lock()), shared: self };
        let state = locked.state.as_mut().expect("it is unlocked by drop alone");
        action(state)
    }
}

/// The locked state. Its drop unlocks it and then delivers the wake-ups that were collected: also when `action` panics,
/// which code of the user's (a [`Merge`], a filter) may do after other keys became ready.
struct Locked<'a, K, M> {
    state: Option<MutexGuard<'a, State<K, M>>>,
    shared: &'a Shared<K, M>,
}

impl<K, M> Drop for Locked<'_, K, M> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(state) = self.state.take()
            && !state.wakes.is_empty()
        {
            deliver(state, self.shared.hook());
        }
    }
}

/// Unlocks the state and delivers the wake-ups.
#[inline(never)]
fn deliver<K, M>(mut state: MutexGuard<'_, State<K, M>>, hook: Option<&Hook>) {
    let wakes = mem::take(&mut state.wakes);
    drop(state);
    if let Some(hook) = hook {
        if let Some(at) = wakes.alarm {
            hook.set_alarm(at);
        }
        if wakes.ready {
            hook.ready();
        }
    }
    wakes.wake();
}

impl<K: Clone + Eq + Hash, M: Merge> Shared<K, M> {
    /// Makes all due keys ready, and runs `action` under the mutex. That lets others in meanwhile if these are many.
    pub(crate) fn caught_up<R>(&self, action: impl FnOnce(&mut State<K, M>) -> R) -> R {
        let mut action = Some(action);
        loop {
            let act = |state: &mut State<K, M>| match state.has_more_due() {
                true => None,
                false => action.take().map(|action| action(state)),
            };
            if let Some(result) = self.locked(act) {
                return result;
            }
        }
    }

    /// Takes a key and ends the registration of `ticket`; without a key, registers `waker` with it.
    pub(crate) fn attempt(&self, ticket: &mut Option<Ticket>, waker: &Waker) -> Attempt<K, M> {
        self.locked(|state| {
            let mut item = state.take();
            if item.is_none() && !state.is_closed() && state.has_deadline() {
                state.has_more_due();
                item = state.take();
            }
            if item.is_none() && !state.is_closed() {
                let deadline = state.enrol(ticket, waker);
                return Attempt::Sleep(deadline.map(|at| self.clock.instant(at)));
            }
            if let Some(ticket) = ticket.take() {
                state.leave(ticket);
            }
            Attempt::Over(item)
        })
    }
}
