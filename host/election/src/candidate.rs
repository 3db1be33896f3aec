//! [`Candidate`]: the rules of the election, one try at a time: acquire, renew, release.
//!
//! Invariants:
//! - `observed_at` is the local time at which the record in `stored` was first seen, or at which the write that made it was
//!   *sent*: others cannot have seen that one earlier;
//! - a term exists only from a good write on, and is valid for the renew deadline from when that was sent;
//! - `unsettled` is set while a write may have been, or may yet be, done that nobody has answered, or not in time for a
//!   term.
//!
//! Called by the elector, which decides when; nothing here waits except for the lock, and [`Candidate::release`].

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::clock::BootInstant;
use crate::config::LeaderElectionConfig;
use crate::leadership::{FencingToken, Leadership};
use crate::lock::{Lock, LockError, Stored};
use crate::record::LeaderElectionRecord;
use crate::status::ElectionStatus;

/// What came of a try.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// The lock is held, or was renewed.
    Held,
    /// Not now; why.
    Not(String),
    /// Somebody else has it: the term is over.
    Lost(String),
}

/// One that competes for a lock.
pub(crate) struct Candidate<L> {
    pub(crate) lock: Arc<L>,
    pub(crate) config: LeaderElectionConfig,
    pub(crate) status: ElectionStatus,
    stored: Option<Stored>,
    observed_at: Option<Instant>,
    pub(crate) term: Option<Leadership>,
    unsettled: bool,
}

impl<L: Lock> Candidate<L> {
    pub(crate) fn new(lock: L, config: LeaderElectionConfig) -> Self {
        let name = if config.name.is_empty() { lock.describe() } else { config.name.clone() };
        let status = ElectionStatus::new(name, &config);
        Self {
            lock: Arc::new(lock),
            config,
            status,
            stored: None,
            observed_at: None,
            term: None,
            unsettled: false,
        }
    }

    /// Whether a lock may be held that this candidate does not know of.
    pub(crate) fn unsettled(&self) -> bool {
        self.unsettled
    }

    /// Tries to begin a term. Reading stops when `cancel` says so; a write does not, since it may be done all the same.
    pub(crate) async fn try_acquire(&mut self, cancel: &CancellationToken) -> Attempt {
        let read = match cancel.run_until_cancelled(self.read()).await {
            None => return Attempt::Not("cancelled".to_owned()),
            Some(read) => read,
        };
        let now = Timestamp::now();
        match read {
            Err(LockError::NotFound(_)) => {
                // Who deletes a lock has not told its leader, who may lead for as long as if it were there.
                if let Some(why) = self.held_by_another() {
                    return Attempt::Not(why);
                }
                // Terms are counted on: a token never goes back because of this candidate.
                let before = self.stored.as_ref().map(|stored| stored.record.leader_transitions);
                let record = self.record(now, now, before.map_or(0, |before| before.saturating_add(1)));
                self.write(None, record).await
            }
            Err(error) => Attempt::Not(error.to_string()),
            Ok(stored) => {
                self.observe(stored.clone());
                if let Some(why) = self.held_by_another() {
                    return Attempt::Not(why);
                }
                let LeaderElectionRecord { acquire_time, leader_transitions, .. } = stored.record;
                let record = if stored.record.holder_identity == self.config.identity {
                    self.record(acquire_time.unwrap_or(now), now, leader_transitions)
                } else {
                    self.record(now, now, leader_transitions.saturating_add(1))
                };
                self.write(Some(stored), record).await
            }
        }
    }

    /// Tries to renew the term: from what was written last, and if that does not work from what is there now.
    pub(crate) async fn try_renew(&mut self, term: &Leadership) -> Attempt {
        let now = Timestamp::now();
        let transitions = term.token().transitions;
        if let Some(stored) = self.stored.clone() {
            let record = self.record(stored.record.acquire_time.unwrap_or(now), now, transitions);
            match self.write(Some(stored), record).await {
                decided @ (Attempt::Held | Attempt::Lost(_)) => return decided,
                other @ Attempt::Not(_) => {
                    tracing::debug!(lock = self.lock.describe(), ?other, "renewing without reading failed");
                }
            }
        }
        match self.read().await {
            // Made anew with the same count: whoever sees it finds this term.
            Err(LockError::NotFound(_)) => {
                let record = self.record(now, now, transitions);
                self.write(None, record).await
            }
            Err(error) => Attempt::Not(error.to_string()),
            Ok(stored) => {
                self.observe(stored.clone());
                let LeaderElectionRecord { holder_identity, leader_transitions, .. } = &stored.record;
                if *holder_identity != self.config.identity || *leader_transitions != transitions {
                    let who = if holder_identity.is_empty() { "nobody" } else { holder_identity };
                    return Attempt::Lost(format!("{} is held by {who}", self.lock.describe()));
                }
                self.status.slowpath();
                let record = self.record(stored.record.acquire_time.unwrap_or(now), now, transitions);
                self.write(Some(stored), record).await
            }
        }
    }

    /// Gives the lock up if it is this candidate's by what the lock itself says; tried again for the renew deadline.
    pub(crate) async fn release(&mut self) {
        let until = Instant::now() + self.config.renew_deadline;
        let lock = self.lock.describe();
        let mut why = "no answer".to_owned();
        let releasing = async {
            loop {
                match self.try_release().await {
                    Ok(released) => return released,
                    // A conflict as well: others who write, or refuse so, are not to be hammered.
                    Err(error) => why = error.to_string(),
                }
                sleep(self.config.retry_period / 4).await;
            }
        };
        match timeout_at(until, releasing).await {
            Ok(true) => tracing::info!(event = "lease_released", lock, "lease released"),
            Ok(false) => tracing::info!(event = "lease_absent", lock, "there is no lease to release"),
            Err(_) => tracing::warn!(
                event = "lease_not_released",
                lock,
                "Lease not released, others take over after it expires: {why}"
            ),
        }
    }

    /// `false` when it is not this candidate's.
    async fn try_release(&mut self) -> Result<bool, LockError> {
        let stored = match self.read().await {
            Err(LockError::NotFound(_)) => return Ok(false),
            read => read?,
        };
        self.observe(stored.clone());
        if stored.record.holder_identity != self.config.identity {
            return Ok(false);
        }
        let now = Some(Timestamp::now());
        let record = LeaderElectionRecord {
            holder_identity: String::new(),
            lease_duration_seconds: 1,
            acquire_time: now,
            renew_time: now,
            leader_transitions: stored.record.leader_transitions,
        };
        let stored = self.within(self.lock.update(&stored, &record)).await?;
        self.unsettled = false;
        self.observe(stored);
        Ok(true)
    }

    fn record(&self, acquired: Timestamp, renewed: Timestamp, transitions: i32) -> LeaderElectionRecord {
        LeaderElectionRecord {
            holder_identity: self.config.identity.clone(),
            // Whole and small enough: it was checked.
            lease_duration_seconds: i32::try_from(self.config.lease_duration.as_secs()).unwrap_or(i32::MAX),
            acquire_time: Some(acquired),
            renew_time: Some(renewed),
            leader_transitions: transitions,
        }
    }

    async fn read(&self) -> Result<Stored, LockError> {
        self.within(self.lock.get()).await
    }

    /// A request under the time that each may take.
    async fn within<T>(&self, request: impl Future<Output = Result<T, LockError>>) -> Result<T, LockError> {
        let limit = self.config.request_timeout();
        timeout(limit, request)
            .await
            .unwrap_or_else(|_| Err(LockError::NoAnswer(format!("no answer within {limit:?}"))))
    }

    /// Writes a record of this candidate, over `from` or as a new one; a good write begins or renews the term.
    async fn write(&mut self, from: Option<Stored>, mut record: LeaderElectionRecord) -> Attempt {
        if let Some(from) = &from {
            record.differ_from(&from.record);
        }
        let before = std::mem::replace(&mut self.unsettled, true);
        let sent = BootInstant::now();
        let written = match &from {
            Some(from) => self.within(self.lock.update(from, &record)).await,
            None => self.within(self.lock.create(&record)).await,
        };
        match written {
            Ok(stored) => {
                let held = self.hold(&stored, sent);
                // Else the lock is held all the same, without a term.
                self.unsettled = !matches!(held, Attempt::Held);
                self.status.observed(&stored.record.holder_identity, sent.awake);
                self.observed_at = Some(sent.awake);
                self.stored = Some(stored);
                held
            }
            Err(error) => {
                self.unsettled = before || matches!(error, LockError::NoAnswer(_));
                Attempt::Not(error.to_string())
            }
        }
    }

    /// The lock took what was sent at `sent`.
    fn hold(&mut self, stored: &Stored, sent: BootInstant) -> Attempt {
        let valid = self.config.renew_deadline;
        if let Some(term) = &self.term {
            return match term.renewed(sent, valid) {
                true => Attempt::Held,
                false => Attempt::Lost("the answer came after the end of the term".to_owned()),
            };
        }
        if sent.elapsed() >= valid {
            return Attempt::Not("the answer came too late".to_owned());
        }
        let token = FencingToken {
            lock: self.lock.describe(),
            uid: stored.uid.clone(),
            transitions: stored.record.leader_transitions,
            resource_version: stored.resource_version.clone(),
        };
        let term = Leadership::new(token, sent, valid);
        self.status.leads(term.clone());
        self.term = Some(term);
        Attempt::Held
    }

    /// The lock was read. Only a record that differs from the one before is a sign of life: another version of the object with
    /// the same record was written by somebody else, as for a label.
    fn observe(&mut self, stored: Stored) {
        let now = Instant::now();
        if self.stored.as_ref().is_none_or(|before| before.record != stored.record) {
            self.observed_at = Some(now);
            self.status.observed(&stored.record.holder_identity, now);
        }
        self.status.looked(now);
        self.stored = Some(stored);
    }

    /// What a watch has shown; whether the lock is free.
    pub(crate) fn see(&mut self, change: Option<Stored>) -> bool {
        let free = change.as_ref().is_none_or(|stored| stored.record.holder_identity.is_empty());
        // What was deleted is remembered: its leader may not know.
        if let Some(stored) = change {
            self.observe(stored);
        }
        free
    }

    /// When the lock can be taken from another that holds it, as far as it was seen.
    pub(crate) fn expires(&self) -> Option<Instant> {
        let record = &self.stored.as_ref()?.record;
        // A lease without a length lasts as long as one of ours.
        let length = u64::try_from(record.lease_duration_seconds).ok().filter(|seconds| *seconds > 0);
        let length = length.map_or(self.config.lease_duration, Duration::from_secs);
        Some(self.observed_at? + length)
    }

    /// Why the lock cannot be taken: another holds it, and has renewed it not long ago as seen from here.
    fn held_by_another(&self) -> Option<String> {
        let record = &self.stored.as_ref()?.record;
        let holder = &record.holder_identity;
        if holder.is_empty() || *holder == self.config.identity {
            return None;
        }
        (Instant::now() < self.expires()?).then(|| format!("{} is held by {holder}", self.lock.describe()))
    }
}
