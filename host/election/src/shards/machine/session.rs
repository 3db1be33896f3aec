//! The host's own Lease, which makes its session; and the Lease of the group, which keeps hosts without shards away.

use std::time::Duration;

use super::shard::ShardSlot;
use super::{Answer, Effect, Machine, Purpose, Request};
use crate::lock::LockError;
use crate::record::LeaderElectionRecord;
use crate::shards::lease::{HostState, ShardLease};
use crate::shards::names::{group_holder, shards_of_holder};

/// For how long the group's Lease is taken: as long as a Lease can last. Nobody renews it; an operator who goes back to
/// hosts without shards deletes it.
const GROUP_SECONDS: i32 = i32::MAX;

/// The time from the first to the last good renewal, and a while more.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) number: u64,
    /// By this host's clock.
    pub(super) until: Duration,
}

/// The host's own Lease.
#[derive(Debug)]
pub(super) struct OwnLease {
    pub(super) state: HostState,
    pub(super) session: Option<Session>,
    last_session: u64,
    is_busy: bool,
    /// It must be read before it is written.
    is_unsure: bool,
    renew_at: Duration,
    /// It is being deleted.
    is_leaving: bool,
    pub(super) has_left: bool,
}

impl Default for OwnLease {
    fn default() -> Self {
        Self {
            state: HostState::Warming,
            session: None,
            last_session: 0,
            is_busy: false,
            is_unsure: false,
            renew_at: Duration::ZERO,
            is_leaving: false,
            has_left: false,
        }
    }
}

impl OwnLease {
    pub(super) fn set_state(&mut self, state: HostState) {
        self.state = state;
        self.renew_at = Duration::ZERO;
    }
}

impl Machine {
    /// Ends all terms when the session is over.
    pub(super) fn end_session_if_over(&mut self, now: Duration) {
        if self.own.session.as_ref().is_some_and(|session| now >= session.until) {
            self.own.session = None;
            self.end_terms();
        }
    }

    /// Renews the host's own Lease when it is due.
    pub(super) fn renew_own(&mut self, now: Duration) {
        if let Some(session) = &self.own.session {
            let until = session.until;
            self.wake(until);
        }
        if self.own.is_busy || self.own.is_leaving {
            return;
        }
        if now < self.own.renew_at {
            return self.wake(self.own.renew_at);
        }
        let name = self.config.names.host(&self.config.identity);
        self.own.is_busy = true;
        if self.own.is_unsure {
            return self.send(Purpose::ReadOwn, Request::Get { name });
        }
        self.own.renew_at = now + self.config.retry_period;
        let from = self.known.lease(&name).cloned();
        let before = from.as_ref().map(|lease| lease.record().clone()).unwrap_or_default();
        let mut record = LeaderElectionRecord {
            holder_identity: self.config.identity.clone(),
            lease_duration_seconds: self.lease_seconds(),
            acquire_time: before.acquire_time.or(Some(self.wall)),
            renew_time: Some(self.wall),
            leader_transitions: before.leader_transitions,
        };
        record.differ_from(&before);
        let state = Some(self.own.state);
        self.send(Purpose::Renew { sent: now }, Request::Write { name, from, record, state });
    }

    pub(super) fn own_read(&mut self, now: Duration, answer: &Answer) {
        self.own.is_busy = false;
        self.own.is_unsure = !matches!(answer, Ok(_) | Err(LockError::NotFound(_)));
        self.own.renew_at = if self.own.is_unsure { now + self.pause() } else { now };
    }

    /// What came of a renewal that was sent at `sent`.
    pub(super) fn renewed(&mut self, now: Duration, sent: Duration, answer: &Answer) {
        self.own.is_busy = false;
        if let Err(error) = answer {
            // Refused before it was done: as good as not sent.
            self.own.is_unsure |= !matches!(error, LockError::Refused(_));
            self.own.renew_at = self.own.renew_at.min(now + self.pause());
            return;
        }
        let until = sent + self.config.renew_deadline;
        if now >= until {
            return;
        }
        match &mut self.own.session {
            Some(session) => session.until = session.until.max(until),
            none => {
                self.own.last_session += 1;
                *none = Some(Session { number: self.own.last_session, until });
            }
        }
        self.effects.push(Effect::Renewed { until });
    }

    /// Whether the group's Lease is the group's.
    pub(super) fn has_group(&self) -> bool {
        let known = self.known.get(self.config.names.group());
        known.is_some_and(|known| known.holder() == group_holder(self.config.shards))
    }

    /// Takes the group's Lease where nobody has it, once for all hosts of the group; ends all terms when it is lost.
    pub(super) fn keep_group(&mut self, now: Duration) {
        if self.has_group() {
            return;
        }
        self.end_terms();
        let is_out = self.own.session.is_none() || self.own.state == HostState::Leaving;
        if is_out || self.group_busy {
            return;
        }
        if now < self.group_not_before {
            return self.wake(self.group_not_before);
        }
        let name = self.config.names.group().to_owned();
        if self.group_unsure {
            self.group_busy = true;
            self.group_not_before = now + self.pause();
            return self.send(Purpose::ReadGroup, Request::Get { name });
        }
        let usual = self.config.lease_duration;
        let known = self.known.expect(now, &name).clone();
        let holder = known.lease.as_ref().map(ShardLease::record).or(known.last.as_ref());
        let holder = holder.map_or("", |record| record.holder_identity.as_str());
        let free_at = match holder {
            "" => known.at,
            // It was deleted: hosts with as many shards as this one may make it again at any time.
            ours if *ours == group_holder(self.config.shards) => known.at,
            // Hosts with another number of shards: no time ends that.
            others if shards_of_holder(others).is_some() && known.lease.is_some() => return,
            others if shards_of_holder(others).is_some() => known.at + usual,
            _ => known.expires(usual),
        };
        if now < free_at {
            return self.wake(free_at);
        }
        let from = known.lease;
        let transitions =
            from.as_ref().map_or(0, |lease| lease.record().leader_transitions.saturating_add(1));
        let record = LeaderElectionRecord {
            holder_identity: group_holder(self.config.shards),
            lease_duration_seconds: GROUP_SECONDS,
            acquire_time: Some(self.wall),
            renew_time: Some(self.wall),
            leader_transitions: transitions,
        };
        self.group_busy = true;
        self.group_not_before = now + self.pause();
        self.send(Purpose::TakeGroup, Request::Write { name, from, record, state: None });
    }

    /// Deletes the host's own Lease when the host leaves and holds nothing any more.
    pub(super) fn leave_if_done(&mut self) {
        let is_done = self.own.state == HostState::Leaving
            && !self.own.is_busy
            && !self.own.is_leaving
            && self.shards.iter().all(ShardSlot::is_free)
            && (0..self.shards.len()).all(|shard| self.holder(shard).0 != self.config.identity);
        if !is_done {
            return;
        }
        self.own.is_leaving = true;
        match self.known.lease(&self.config.names.host(&self.config.identity)).cloned() {
            Some(lease) => self.send(Purpose::DeleteOwn, Request::Delete { lease }),
            None => {
                self.own.has_left = true;
                self.effects.push(Effect::Left);
            }
        }
    }

    /// Seconds in the records of this host; whole and small enough, which was checked.
    pub(super) fn lease_seconds(&self) -> i32 {
        i32::try_from(self.config.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }
}
