//! [`LeaderElector`]: when to try, whom to tell, and the end of a term.
//!
//! Invariants: at most one work of an elector runs at a time, that of a lost term or of a dropped run included; the term has ended before a
//! lease is released, and before [`LeaderElector::run`] returns or its future is dropped.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::callbacks::LeaderCallbacks;
use crate::candidate::{Attempt, Candidate};
use crate::config::{ConfigError, JITTER_FACTOR, LeaderElectionConfig};
use crate::leadership::Leadership;
use crate::lock::Lock;
use crate::status::ElectionStatus;

/// When a watch shows that the lock is free, or has run out, candidates try within so long of each other: a tenth of the
/// retry period, at most this.
const SPREAD: Duration = Duration::from_millis(250);
/// And a candidate does not try more often than so, should it come to nothing: four times in a retry period, or in this.
const SPACING: Duration = Duration::from_secs(1);

/// How an election ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It was told to, while it led or before.
    Cancelled,
    /// It led, and does not any more; why. The work was told to stop, and may not have stopped yet; or the work panicked.
    Lost(String),
}

/// How a term ended.
enum Over {
    /// The work has ended after it was told to.
    Cancelled,
    /// The lock is no longer this candidate's, as far as it knows; why.
    Lost(String),
    /// The work has ended by a panic; which.
    Panicked(String),
}

/// Competes for a lock, and has work done while it holds it.
pub struct LeaderElector<L> {
    candidate: Candidate<L>,
    /// The work of the present term, or of an earlier one, until it has ended.
    work: Option<JoinHandle<()>>,
}

impl<L> std::fmt::Debug for LeaderElector<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaderElector").field("status", &self.candidate.status).finish_non_exhaustive()
    }
}

impl<L: Lock> LeaderElector<L> {
    /// A candidate that does nothing yet.
    ///
    /// # Errors
    /// As [`LeaderElectionConfig::validate`].
    pub fn new(lock: L, config: LeaderElectionConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self { candidate: Candidate::new(lock, config), work: None })
    }

    /// How the election stands, for everybody else.
    #[must_use]
    pub fn status(&self) -> ElectionStatus {
        self.candidate.status.clone()
    }

    /// Competes until the lock is held, has the work done and renews the lock until the term is lost or `cancel` says
    /// so. In the second case the lock is renewed until the work has ended, and then released. Work that ends by itself
    /// ends no term; work that panics does, and the lock is released: another may do better than a leader that does
    /// nothing. May be run again afterwards; work of a lost term that has not ended by then is waited for.
    ///
    /// A future that is dropped ends the term and releases nothing.
    pub async fn run<W, F>(&mut self, cancel: &CancellationToken, callbacks: LeaderCallbacks<W>) -> Ended
    where
        W: FnOnce(Leadership) -> F + Send,
        F: Future<Output = ()> + Send + 'static,
    {
        let _stopped = AtEnd(Some(callbacks.on_stopped_leading));
        let mut observer = Observer::start(callbacks.on_new_leader);
        if self.work.is_some() && cancel.run_until_cancelled(end_of(&mut self.work)).await.is_none() {
            return Ended::Cancelled;
        }
        // A run whose future was dropped has left its term.
        self.candidate.term = None;
        let Some(term) = self.acquire(cancel, &mut observer).await else {
            if self.candidate.config.release_on_cancel && self.candidate.unsettled() {
                self.candidate.release().await;
            }
            return Ended::Cancelled;
        };
        let over = AtEnd(Some({
            let term = term.clone();
            move || term.end()
        }));
        // Kept here before anything is awaited: if this future is dropped, the next run waits for the work.
        self.work = Some(tokio::spawn((callbacks.on_started_leading)(term.clone())));
        let over_by = self.renew(cancel, &term).await;
        drop(over);
        self.candidate.term = None;
        observer.tell(&self.candidate.status);
        let (ended, release) = match over_by {
            Over::Cancelled => (Ended::Cancelled, true),
            Over::Panicked(why) => (Ended::Lost(why), true),
            Over::Lost(why) => (Ended::Lost(why), false),
        };
        if release && self.candidate.config.release_on_cancel {
            self.candidate.release().await;
        }
        ended
    }

    /// Tries until the lock is held; none when cancelled before.
    async fn acquire(&mut self, cancel: &CancellationToken, observer: &mut Observer) -> Option<Leadership> {
        let config = self.candidate.config.clone();
        let lock = Arc::clone(&self.candidate.lock);
        let name = lock.describe();
        tracing::info!(
            event = "lease_acquiring",
            lock = name,
            identity = config.identity,
            "attempting to acquire leader lease"
        );
        let (seen, mut changes) = unbounded_channel();
        let mut watch = pin!(async {
            lock.watch(seen).await;
            // It should not have ended.
            std::future::pending::<()>().await;
        });
        let mut last = String::new();
        loop {
            let began = Instant::now();
            let attempt = self.candidate.try_acquire(cancel).await;
            observer.tell(&self.candidate.status);
            match attempt {
                Attempt::Held => {
                    if let Some(term) = self.candidate.term.clone() {
                        let token = term.token();
                        tracing::info!(
                            event = "lease_acquired",
                            lock = name,
                            identity = config.identity,
                            transitions = token.transitions,
                            "successfully acquired lease"
                        );
                        return Some(term);
                    }
                }
                Attempt::Not(why) | Attempt::Lost(why) => {
                    if why != last {
                        tracing::info!(
                            event = "lease_not_acquired",
                            lock = name,
                            "lease not acquired, trying on: {why}"
                        );
                        last = why;
                    }
                }
            }
            let again =
                Instant::now() + config.retry_period.mul_f64(1.0 + JITTER_FACTOR * rand::random::<f64>());
            // Not all candidates at the same moment.
            let spread = (config.retry_period / 10).min(SPREAD).mul_f64(rand::random());
            loop {
                let now = Instant::now();
                let expired = self.candidate.expires().filter(|at| *at > now).map(|at| at + spread);
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => return None,
                    () = sleep_until(expired.map_or(again, |at| at.min(again))) => break,
                    () = &mut watch => {}
                    Some(change) = changes.recv() => {
                        let free = self.candidate.see(change);
                        observer.tell(&self.candidate.status);
                        if free {
                            // Not in a loop when it comes to nothing.
                            let at = (Instant::now() + spread).max(began + (config.retry_period / 4).min(SPACING));
                            cancel.run_until_cancelled(sleep_until(at.min(again))).await?;
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Renews until the term is lost, or the work has ended after `cancel` said so, or has panicked.
    async fn renew(&mut self, cancel: &CancellationToken, term: &Leadership) -> Over {
        let last_failure = Mutex::new(None);
        let retry_period = self.candidate.config.retry_period;
        let Self { candidate, work } = self;
        let mut renewing = pin!(async {
            loop {
                sleep(retry_period).await;
                match candidate.try_renew(term).await {
                    Attempt::Held => *last_failure.lock() = None,
                    Attempt::Not(why) => {
                        tracing::warn!(
                            event = "lease_not_renewed",
                            lock = term.token().lock,
                            "Lease not renewed, retrying: {why}"
                        );
                        *last_failure.lock() = Some(why);
                    }
                    Attempt::Lost(why) => return why,
                }
            }
        });
        let mut stopping = false;
        let over = loop {
            if stopping && work.is_none() {
                return Over::Cancelled;
            }
            tokio::select! {
                biased;
                // First, so that a term is not prolonged by an answer that this process was too late to look at.
                () = sleep_until(term.deadline()) => {
                    if !term.is_leading() {
                        let why = last_failure.lock().take();
                        break Over::Lost(why.unwrap_or_else(|| "no answer in time".to_owned()));
                    }
                }
                () = cancel.cancelled(), if !stopping => {
                    stopping = true;
                    term.cancel();
                }
                ended = end_of(work), if work.is_some() => {
                    if let Err(error) = ended {
                        break Over::Panicked(format!("the work failed: {error}"));
                    }
                }
                why = &mut renewing => break Over::Lost(why),
            }
        };
        term.end();
        if let Over::Lost(why) | Over::Panicked(why) = &over {
            tracing::error!(
                event = "leader_election_lost",
                lock = term.token().lock,
                "leader election lost: {why}"
            );
        }
        over
    }
}

/// Waits until the work has ended, and forgets it then. A call that is dropped leaves it. Without work it never ends.
async fn end_of(work: &mut Option<JoinHandle<()>>) -> Result<(), JoinError> {
    let Some(running) = work else { return std::future::pending().await };
    let ended = running.await;
    *work = None;
    ended
}

/// Tells of new leaders, in a task of its own and in order.
struct Observer {
    told: String,
    tell: UnboundedSender<String>,
}

impl Observer {
    fn start(call: Box<dyn Fn(&str) + Send>) -> Self {
        let (tell, mut leaders) = unbounded_channel::<String>();
        tokio::spawn(async move {
            while let Some(leader) = leaders.recv().await {
                call(&leader);
            }
        });
        Self { told: String::new(), tell }
    }

    /// A lock without a holder is no news.
    fn tell(&mut self, status: &ElectionStatus) {
        let leader = status.leader();
        if !leader.is_empty() && leader != self.told {
            self.told.clone_from(&leader);
            // The task ends with the sender.
            let _ = self.tell.send(leader);
        }
    }
}

/// Calls when it goes out of scope, however that comes.
struct AtEnd<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}
