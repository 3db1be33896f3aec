//! [`Availability`]: what all reflectors of a process know together about whether their API server is there.
//!
//! Each of them would find out on its own, with tens of requests a second while the server is away and all at once when
//! it is back. With this gate the first refused connection closes it for all: then one request at a time is let through
//! as a probe, with growing pauses, and when one is answered the others follow spread out over a moment.
//!
//! Invariant: while the gate is closed, at most one probe that is younger than [`PROBE_PATIENCE`] is under way.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::backoff::Backoff;

/// A probe that has not been answered for so long (a large list, a lost connection) does not hold up the next.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);

/// Between probes: sooner than a reflector alone would try, since one stands for all.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How far apart those who waited go on, on average, when the server is back.
const SPREAD_EACH: Duration = Duration::from_millis(50);
const LONGEST_SPREAD: Duration = Duration::from_secs(5);

/// The gate that reflectors of one API server share; see the module.
pub struct Availability {
    up: watch::Sender<bool>,
    state: Mutex<AvailabilityState>,
}

struct AvailabilityState {
    pauses: Backoff,
    next_probe: Instant,
    /// The probe under way: its number and when it began.
    probe: Option<(u64, Instant)>,
    next_number: u64,
    waiting: u32,
}

/// Leave to make one request; settle it with the outcome. Dropped unsettled, it says nothing.
#[must_use = "settle it with the outcome of the request"]
pub struct Permit {
    gate: Arc<Availability>,
    probe: Option<u64>,
}

impl Default for Availability {
    fn default() -> Self {
        Self {
            up: watch::Sender::new(true),
            state: Mutex::new(AvailabilityState {
                pauses: pauses(),
                next_probe: Instant::now(),
                probe: None,
                next_number: 0,
                waiting: 0,
            }),
        }
    }
}

fn pauses() -> Backoff {
    Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, Duration::MAX)
}

impl Availability {
    /// A gate that is open.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Whether the server is there, as far as is known.
    #[must_use]
    pub fn is_up(&self) -> bool {
        *self.up.borrow()
    }

    /// Waits for leave to make a request. Cancel-safe.
    pub async fn enter(self: &Arc<Self>) -> Permit {
        let mut up = self.up.subscribe();
        if *up.borrow_and_update() {
            return Permit { gate: self.clone(), probe: None };
        }
        let _waiting = Waiting::new(self);
        loop {
            let look_again = match self.try_probe() {
                Ok(number) => return Permit { gate: self.clone(), probe: Some(number) },
                Err(at) => at,
            };
            let opened = tokio::select! {
                // It cannot fail: the sender lives in `self`.
                _ = up.wait_for(|up| *up) => true,
                () = sleep_until(look_again) => false,
            };
            if opened {
                sleep(self.spread()).await;
                if *up.borrow_and_update() {
                    return Permit { gate: self.clone(), probe: None };
                }
            }
        }
    }

    /// Leave to make a request now, if the server is there as far as is known or if a probe is due; for those who would
    /// rather fail than wait.
    #[must_use]
    pub fn try_enter(self: &Arc<Self>) -> Option<Permit> {
        let probe = if self.is_up() { None } else { Some(self.try_probe().ok()?) };
        Some(Permit { gate: self.clone(), probe })
    }

    /// Becomes the probe, or tells when to ask again.
    fn try_probe(&self) -> Result<u64, Instant> {
        let mut state = self.state.lock();
        let now = Instant::now();
        let free_at = state.probe.map_or(now, |(_, since)| since + PROBE_PATIENCE).max(state.next_probe);
        if free_at > now {
            return Err(free_at);
        }
        let number = state.next_number;
        state.next_number += 1;
        state.probe = Some((number, now));
        Ok(number)
    }

    fn spread(&self) -> Duration {
        let waiting = self.state.lock().waiting;
        (SPREAD_EACH * waiting).min(LONGEST_SPREAD).mul_f64(rand::random::<f64>())
    }

    fn settle(&self, probe: Option<u64>, refused: bool) {
        let mut state = self.state.lock();
        if refused {
            let was_up = self.up.send_replace(false);
            // Requests that were under way together count as one failure.
            if was_up || probe.is_some() {
                state.next_probe = Instant::now() + state.pauses.failure();
            }
        } else {
            state.pauses = pauses();
            self.up.send_if_modified(|up| !std::mem::replace(up, true));
        }
        state.end_probe(probe);
    }
}

impl AvailabilityState {
    fn end_probe(&mut self, probe: Option<u64>) {
        if probe.is_some() && self.probe.map(|(number, _)| number) == probe {
            self.probe = None;
            self.next_probe = self.next_probe.max(Instant::now() + FIRST_PAUSE);
        }
    }
}

impl Permit {
    /// The outcome: whether the connection was refused. Any answer, even an error, shows that the server is there.
    pub fn settle(mut self, refused: bool) {
        self.gate.settle(self.probe.take(), refused);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.probe.is_some() {
            self.gate.state.lock().end_probe(self.probe);
        }
    }
}

struct Waiting<'a>(&'a Availability);

impl<'a> Waiting<'a> {
    fn new(gate: &'a Availability) -> Self {
        gate.state.lock().waiting += 1;
        Self(gate)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state.lock().waiting -= 1;
    }
}

impl std::fmt::Debug for Availability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Availability").field("up", &self.is_up()).finish_non_exhaustive()
    }
}
