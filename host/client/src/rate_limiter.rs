//! [`RateLimiter`]: requests a second, shared fairly among those who ask.
//!
//! ```text
//!   flow A ── share of its own ─┐
//!   flow B ── share of its own ─┼── the whole's rate and burst
//!   flow C ── share of its own ─┘   what the others leave, by turns
//! ```
//!
//! Invariants:
//! * A flow that asks for less than its share (the rate over the number of busy flows) never waits for another: its turn is
//!   taken from what the whole will have, and who asked for more than its share waits for that.
//! * What a busy flow leaves goes to those that wait, by turns; within a flow, in the order of asking.
//! * Of `n` flows that begin one after another, in any time `t` at most `burst * (1 + 1/1 + 1/2 + … + 1/n) + qps * t` requests
//!   begin, or one more for each flow whose part of the burst is less than one: the whole's burst, and of each flow the share that
//!   was its own when it began.
//! * A caller that goes gives up its place, and those behind it move up. Only flows in which somebody waits stand in `turns`, each
//!   once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::error::{Error, Result};

/// Requests a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Requests a second in the long run; between 0.001 and 1,000,000.
    pub qps: f64,
    /// Requests that may begin at once after a rest; at least 1.
    pub burst: u32,
}

impl RateLimit {
    /// The default burst for a rate: twice the rate, as client-go's defaults.
    #[must_use]
    pub fn usual_burst(qps: f64) -> u32 {
        // What is out of bounds ends up at one of them.
        ((2.0 * qps).ceil() as u32).max(1)
    }
}

/// How long a flow counts as busy after its last request, at least.
const BUSY: Duration = Duration::from_secs(1);
/// How long a flow is remembered, at least.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Requests a second, shared fairly among flows; a clone is the same limiter.
#[derive(Clone)]
pub(crate) struct RateLimiter(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// There is a turn that may come sooner than the one that is waited for.
    sooner: Notify,
    runtime: Handle,
}

struct State {
    /// Between two requests of the whole, at its rate.
    interval: Duration,
    burst: u32,
    whole: Bucket,
    flows: HashMap<Arc<str>, Flow>,
    /// Flows with waiting calls, the next one first.
    turns: VecDeque<Arc<str>>,
    /// Whether a task hands out turns.
    handing_out: bool,
    cleaned: Instant,
}

struct Flow {
    share: Bucket,
    waiting: VecDeque<oneshot::Sender<()>>,
    used: Instant,
}

impl Flow {
    /// Whether it has a part of the rate: somebody waits, its share has not filled up again, or it has asked a moment ago.
    fn is_busy(&self, now: Instant) -> bool {
        !self.waiting.is_empty() || self.share.full_at > now || now.duration_since(self.used) < BUSY
    }
}

/// A token bucket, kept as the time at which it will be full (the generic cell rate algorithm).
#[derive(Clone, Copy)]
struct Bucket {
    full_at: Instant,
}

impl Bucket {
    /// When a token is there, in a bucket that gets one each `interval` and holds `burst`.
    fn ready_at(self, interval: Duration, burst: u32) -> Instant {
        // The clock does not go before its start.
        self.full_at.checked_sub(interval * (burst - 1)).unwrap_or(self.full_at)
    }

    fn take(&mut self, now: Instant, interval: Duration) {
        self.full_at = self.full_at.max(now) + interval;
    }
}

impl RateLimiter {
    /// Turns are handed out on `runtime`.
    ///
    /// # Errors
    /// [`Error::Config`] for a limit that lets nothing through.
    pub(crate) fn new(limit: RateLimit, runtime: Handle) -> Result<Self> {
        let RateLimit { qps, burst } = limit;
        if !(qps.is_finite() && (0.001..=1e6).contains(&qps)) || burst == 0 {
            let message = format!(
                "rate limit of {qps} requests a second with a burst of {burst}: the rate must lie between 0.001 and \
                 1000000 and the burst be at least 1; leave the limit out to have none"
            );
            return Err(Error::Config(message));
        }
        let now = Instant::now();
        let state = State {
            interval: Duration::from_secs_f64(1.0 / qps),
            burst,
            whole: Bucket { full_at: now },
            flows: HashMap::new(),
            turns: VecDeque::new(),
            handing_out: false,
            cleaned: now,
        };
        Ok(Self(Arc::new(Inner { state: Mutex::new(state), sooner: Notify::new(), runtime })))
    }

    /// Waits for a turn of this flow.
    pub(crate) async fn turn(&self, flow: &Arc<str>) {
        let turn = {
            let mut state = self.0.state.lock();
            let Some(turn) = state.ask(flow, Instant::now()) else { return };
            if std::mem::replace(&mut state.handing_out, true) {
                self.0.sooner.notify_one();
            } else {
                self.0.runtime.spawn(hand_out(Arc::clone(&self.0)));
            }
            turn
        };
        // The other end is dropped only with the runtime.
        let _ = turn.await;
    }
}

/// Hands out turns until no call waits.
async fn hand_out(limiter: Arc<Inner>) {
    loop {
        let next = {
            let mut state = limiter.state.lock();
            let next = state.hand_out(Instant::now());
            state.handing_out = next.is_some();
            next
        };
        let Some(next) = next else { return };
        tokio::select! {
            () = sleep_until(next) => {}
            () = limiter.sooner.notified() => {}
        }
    }
}

impl State {
    /// A turn at once, or the place to wait for it.
    fn ask(&mut self, name: &Arc<str>, now: Instant) -> Option<oneshot::Receiver<()>> {
        if now.duration_since(self.cleaned) > REMEMBERED {
            self.cleaned = now;
            // What is forgotten begins anew with a full share, so it must have one.
            self.flows.retain(|_, f| f.is_busy(now) || now.duration_since(f.used) < REMEMBERED);
        }
        let new = || Flow { share: Bucket { full_at: now }, waiting: VecDeque::new(), used: now };
        let flow = self.flows.entry(Arc::clone(name)).or_insert_with(new);
        flow.used = now;
        let nobody_before = flow.waiting.is_empty();
        let nobody_waits = self.turns.is_empty();
        if nobody_before && (self.take_of_share(name, now) || (nobody_waits && self.take_of_whole(now))) {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        if let Some(flow) = self.flows.get_mut(name) {
            if nobody_before {
                self.turns.push_back(Arc::clone(name));
            }
            flow.waiting.push_back(sender);
        }
        Some(receiver)
    }

    /// Hands out what is there; when there will be more, if somebody still waits.
    fn hand_out(&mut self, now: Instant) -> Option<Instant> {
        // Shares first: they are owed.
        for name in self.turns.clone() {
            while self.somebody_waits(&name) && self.take_of_share(&name, now) {
                self.let_go(&name, now);
            }
        }
        let mut turns = std::mem::take(&mut self.turns);
        turns.retain(|name| self.somebody_waits(name));
        self.turns = turns;
        while let Some(name) = self.turns.front().cloned() {
            if !self.take_of_whole(now) {
                break;
            }
            self.let_go(&name, now);
            self.turns.pop_front();
            if self.somebody_waits(&name) {
                self.turns.push_back(name);
            }
        }
        let whole = self.turns.front().map(|_| self.whole.ready_at(self.interval, self.burst))?;
        let (interval, burst) = self.share(now);
        let shares = self.turns.iter().filter_map(|name| self.flows.get(name));
        shares.map(|flow| flow.share.ready_at(interval, burst)).chain([whole]).min()
    }

    /// Whether somebody waits in a flow; those that have gone are forgotten.
    fn somebody_waits(&mut self, name: &Arc<str>) -> bool {
        let Some(flow) = self.flows.get_mut(name) else { return false };
        while flow.waiting.front().is_some_and(oneshot::Sender::is_closed) {
            flow.waiting.pop_front();
        }
        !flow.waiting.is_empty()
    }

    fn let_go(&mut self, name: &Arc<str>, now: Instant) {
        let Some(flow) = self.flows.get_mut(name) else { return };
        flow.used = now;
        while let Some(waiting) = flow.waiting.pop_front() {
            if waiting.send(()).is_ok() {
                return;
            }
        }
    }

    /// Interval and burst of a flow's share.
    fn share(&self, now: Instant) -> (Duration, u32) {
        let busy = |f: &&Flow| f.is_busy(now);
        let busy = u32::try_from(self.flows.values().filter(busy).count()).unwrap_or(u32::MAX).max(1);
        (self.interval * busy, (self.burst / busy).max(1))
    }

    fn take_of_share(&mut self, name: &Arc<str>, now: Instant) -> bool {
        let (interval, burst) = self.share(now);
        let Some(flow) = self.flows.get_mut(name) else { return false };
        if flow.share.ready_at(interval, burst) > now {
            return false;
        }
        flow.share.take(now, interval);
        self.whole.take(now, self.interval);
        true
    }

    fn take_of_whole(&mut self, now: Instant) -> bool {
        if self.whole.ready_at(self.interval, self.burst) > now {
            return false;
        }
        self.whole.take(now, self.interval);
        true
    }
}

#[cfg(test)]
mod tests;
