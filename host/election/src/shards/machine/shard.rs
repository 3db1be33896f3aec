//! One shard: when this host claims it, holds it, gives it up and loses it.
//!
//! ```text
//!            holder is another, and silent            unchanged
//!   Idle ──────────────────────────────► Checking ──────────────► Confirmed
//!    │ ▲  free, or this host's                                        │
//!    │ │                            ┌──────────── Claiming ◄──────────┘
//!    │ └──── refused, late ─────────┤
//!    └───────────────────────► Claiming ──► Held ──► Yielding ──► Releasing ──► Idle
//!                                            │ cancelled  │ work ended
//!                              session over  └────────────┴──► Idle, which waits for the end of the work
//! ```

use std::time::Duration;

use super::{Answer, Effect, Machine, Purpose, Request};
use crate::lock::LockError;
use crate::record::LeaderElectionRecord;
use crate::shards::lease::{HostState, ShardLease, duration};
use crate::shards::names::weight;

/// Where a shard is on its way.
#[derive(Debug, Default)]
pub(super) enum Phase {
    #[default]
    Idle,
    /// The Lease of the holder's host is read again. With the version of the shard's Lease that was known before.
    Checking(ShardLease),
    /// That host is silent: the shard can be claimed from this version.
    Confirmed(ShardLease),
    Claiming,
    /// This host has a term.
    Held,
    /// It has a term, and its work was told to end.
    Yielding,
    Releasing,
}

impl Phase {
    pub(super) fn is_term(&self) -> bool {
        matches!(self, Self::Held | Self::Yielding)
    }
}

/// One shard as this host has it.
#[derive(Debug, Default)]
pub(super) struct ShardSlot {
    pub(super) phase: Phase,
    /// The work of a term may still go on, also after its end.
    pub(super) working: bool,
    /// The shard is to be released, and not to be taken again before another had it.
    gives_up: bool,
    /// The Lease must be read before it is written.
    is_unsure: bool,
    not_before: Duration,
    /// Since when this host has had its term.
    held_since: Duration,
}

impl ShardSlot {
    pub(super) fn is_free(&self) -> bool {
        matches!(self.phase, Phase::Idle) && !self.working
    }
}

impl Machine {
    /// Ends the terms of all shards.
    pub(super) fn end_terms(&mut self) {
        for shard in 0..self.shards.len() {
            self.end_term(shard);
        }
    }

    pub(super) fn end_term(&mut self, shard: usize) {
        let slot = &mut self.shards[shard];
        if slot.phase.is_term() {
            slot.phase = Phase::Idle;
            self.effects.push(Effect::End { shard });
        }
    }

    pub(super) fn poll_shard(&mut self, now: Duration, shard: usize) {
        let is_own = self.holder(shard).0 == self.config.identity;
        if !is_own {
            // Somebody else wrote into the Lease, or deleted it.
            self.end_term(shard);
            self.shards[shard].gives_up = false;
        }
        if matches!(self.shards[shard].phase, Phase::Held)
            && let Some(at) = self.yields_at(now, shard)
        {
            match now < at {
                true => self.wake(at),
                false => {
                    let slot = &mut self.shards[shard];
                    (slot.phase, slot.gives_up) = (Phase::Yielding, true);
                    self.effects.push(Effect::Cancel { shard });
                }
            }
        }
        let slot = &mut self.shards[shard];
        match &slot.phase {
            Phase::Yielding if !slot.working => {
                slot.phase = Phase::Idle;
                self.effects.push(Effect::End { shard });
                self.release(now, shard);
            }
            Phase::Confirmed(seen) => {
                let seen = seen.clone();
                slot.phase = Phase::Idle;
                let is_unchanged = self.known.lease(&seen.name).is_some_and(|lease| lease.is_same(&seen));
                if is_unchanged && self.may_claim() {
                    self.claim(shard);
                }
            }
            Phase::Idle if !slot.working => self.poll_idle(now, shard, is_own),
            _ => {}
        }
    }

    /// A shard that this host neither has nor asks for.
    fn poll_idle(&mut self, now: Duration, shard: usize, is_own: bool) {
        let slot = &self.shards[shard];
        if now < slot.not_before {
            let at = slot.not_before;
            return self.wake(at);
        }
        let name = self.config.names.shard(shard);
        if slot.is_unsure {
            self.shards[shard].not_before = now + self.pause();
            return self.send(Purpose::ReadShard { shard }, Request::Get { name });
        }
        if is_own && (slot.gives_up || self.own.state == HostState::Leaving) {
            return self.release(now, shard);
        }
        if !self.may_claim() {
            return;
        }
        if is_own {
            // Of a term that was lost, with its work ended: nobody else takes it while this host renews.
            return self.claim(shard);
        }
        let free_at = self.free_at(now, shard) + self.config.retry_period * self.rank(now, shard);
        if now < free_at {
            return self.wake(free_at);
        }
        let lease = self.known.lease(&name).cloned();
        match lease.filter(|lease| !lease.holder().is_empty()) {
            None => self.claim(shard),
            Some(lease) => {
                let name = self.config.names.host(lease.holder());
                self.shards[shard].phase = Phase::Checking(lease);
                self.send(Purpose::CheckHolder { shard }, Request::Get { name });
            }
        }
    }

    fn may_claim(&self) -> bool {
        self.own.session.is_some() && self.own.state != HostState::Leaving && self.has_group()
    }

    /// From when on a shard that this host does not hold is free, as far as is known.
    fn free_at(&mut self, now: Duration, shard: usize) -> Duration {
        let usual = self.config.lease_duration;
        let known = self.known.expect(now, &self.config.names.shard(shard));
        match &known.lease {
            None => match &known.last {
                // Deleted: its holder may not know yet.
                Some(last) if !last.holder_identity.is_empty() => known.at + duration(last, usual),
                _ => known.at,
            },
            Some(lease) if lease.holder().is_empty() => known.at,
            Some(lease) => {
                let (seen, lasts) = (known.at, duration(lease.record(), usual));
                let host = self.config.names.host(lease.holder());
                let host = self.known.expect(now, &host);
                // Since the shard changed hands as well: a host has its Lease before it has shards.
                host.expires(lasts).max(seen + lasts)
            }
        }
    }

    /// How many hosts are better owners of a shard than this one: those that are ready first, then by weight.
    fn rank(&self, now: Duration, shard: usize) -> u32 {
        let rank = |state: HostState, identity: &str| (state == HostState::Ready, weight(identity, shard));
        let own = rank(self.own.state, &self.config.identity);
        let staying = self.others(now).filter(|other| other.state != HostState::Leaving);
        let better = staying.filter(|other| rank(other.state, other.identity) > own).count();
        u32::try_from(better).unwrap_or(u32::MAX)
    }

    /// When another host should have a shard that this one holds: one at a time, unless this host leaves.
    fn yields_at(&self, now: Duration, shard: usize) -> Option<Duration> {
        if self.own.state == HostState::Leaving {
            return Some(now);
        }
        if self.shards.iter().any(|slot| slot.gives_up) {
            return None;
        }
        let own = weight(&self.config.identity, shard);
        let better = self.others(now).filter(|other| weight(other.identity, shard) > own);
        let since = better.filter_map(|other| other.ready_since).min()?;
        let delay = self.config.join_delay;
        Some((since + delay).max(self.shards[shard].held_since + delay * 2))
    }

    fn claim(&mut self, shard: usize) {
        let Some(session) = &self.own.session else { return };
        let session = session.number;
        let name = self.config.names.shard(shard);
        let from = self.known.lease(&name).cloned();
        let transitions =
            from.as_ref().map_or(0, |lease| lease.record().leader_transitions.saturating_add(1));
        let record = LeaderElectionRecord {
            holder_identity: self.config.identity.clone(),
            lease_duration_seconds: self.lease_seconds(),
            acquire_time: Some(self.wall),
            renew_time: Some(self.wall),
            leader_transitions: transitions,
        };
        self.shards[shard].phase = Phase::Claiming;
        self.send(Purpose::Claim { shard, session }, Request::Write { name, from, record, state: None });
    }

    fn release(&mut self, now: Duration, shard: usize) {
        let name = self.config.names.shard(shard);
        let Some(lease) = self.known.lease(&name).filter(|lease| lease.holder() == self.config.identity)
        else {
            return;
        };
        let mut record = lease.record().clone();
        record.holder_identity = String::new();
        record.renew_time = Some(self.wall);
        let from = Some(lease.clone());
        let pause = self.pause();
        let slot = &mut self.shards[shard];
        (slot.phase, slot.gives_up, slot.not_before) = (Phase::Releasing, true, now + pause);
        self.send(Purpose::Release { shard }, Request::Write { name, from, record, state: None });
    }

    pub(super) fn shard_read(&mut self, shard: usize, answer: &Answer) {
        self.shards[shard].is_unsure = !matches!(answer, Ok(_) | Err(LockError::NotFound(_)));
    }

    /// The Lease of the holder's host was read after it should have been renewed; `known` is what was known before.
    pub(super) fn holder_checked(&mut self, shard: usize, known: Option<&ShardLease>, answer: &Answer) {
        let slot = &mut self.shards[shard];
        let Phase::Checking(seen) = std::mem::take(&mut slot.phase) else { return };
        let is_silent = match (answer, known) {
            (Ok(Some(lease)), Some(known)) => lease.is_same(known),
            (Err(LockError::NotFound(_)), None) => true,
            _ => false,
        };
        if is_silent {
            slot.phase = Phase::Confirmed(seen);
        }
    }

    /// What came of a claim that was sent in this session.
    pub(super) fn claimed(&mut self, now: Duration, shard: usize, session: u64, answer: Answer) {
        let own = self.own.session.as_ref().filter(|own| own.number == session);
        // Somebody may have written since.
        let is_own = self.holder(shard).0 == self.config.identity;
        let until = own.map(|own| own.until).filter(|_| is_own && self.has_group());
        let (pause, is_leaving) = (self.pause(), self.own.state == HostState::Leaving);
        let slot = &mut self.shards[shard];
        slot.phase = Phase::Idle;
        match (answer, until) {
            (Ok(Some(claim)), Some(until)) if !is_leaving => {
                (slot.phase, slot.working, slot.gives_up) = (Phase::Held, true, false);
                slot.held_since = now;
                self.effects.push(Effect::Begin { shard, claim, until });
            }
            // The Lease names this host, without a term: it is claimed again, or released.
            (Ok(_), _) => {}
            (Err(error), _) => {
                slot.is_unsure = !matches!(error, LockError::Refused(_));
                slot.not_before = now + pause;
            }
        }
    }

    pub(super) fn released(&mut self, now: Duration, shard: usize, answer: &Answer) {
        let pause = self.pause();
        let slot = &mut self.shards[shard];
        slot.phase = Phase::Idle;
        if let Err(error) = answer {
            slot.is_unsure = !matches!(error, LockError::Refused(_));
            slot.not_before = now + pause;
        }
    }
}
