//! [`Machine`]: the rules by which one host takes, holds and gives up shards. No I/O, no clock, no lock: its caller
//! gives it each observation with its time, and carries out the [`Effect`]s of [`Machine::poll`].
//!
//! A host renews one Lease, its own; a *session* lasts while that is renewed in time, by this host's clock. The Lease of a
//! shard names its holder and is written only when the shard changes hands. A *term* of a shard begins with a good claim
//! and ends with the session at the latest.
//!
//! Invariants, on which it rests that no two hosts have a term of one shard at the same time:
//! - a session is valid until the renew deadline after the last good renewal was *sent*, and once over it never goes on;
//! - a shard of another host is claimed only after its host's Lease has not changed for the lease duration, and a read that
//!   was sent after that has found it unchanged; the claim is made from a version of the shard's Lease that was known
//!   before that read was sent. So whatever that host has claimed since makes the claim fail;
//! - a claim that was sent in one session begins no term in another;
//! - a shard is released after its work has ended, and its term has ended before the release is sent;
//! - without the group's own Lease nothing is claimed, and a term ends when it is lost: hosts without shards use it.
//!
//! `session.rs` has the host's own Lease and the group's, `shard.rs` one shard.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::lease::{HostState, KnownLeases, ShardLease};
use super::names::{LeaseNames, group_holder};
use crate::lock::LockError;
use crate::record::LeaderElectionRecord;

mod session;
mod shard;

use session::OwnLease;
use shard::ShardSlot;

/// What the rules depend on; checked before it comes here.
#[derive(Debug, Clone)]
pub(crate) struct MachineConfig {
    pub(crate) names: LeaseNames,
    pub(crate) identity: String,
    pub(crate) shards: usize,
    pub(crate) lease_duration: Duration,
    pub(crate) renew_deadline: Duration,
    pub(crate) retry_period: Duration,
    /// For how long a host must have been ready before shards are moved to it.
    pub(crate) join_delay: Duration,
}

/// What is asked of the API server.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    Get {
        name: String,
    },
    /// Over `from`, or as a new Lease.
    Write {
        name: String,
        from: Option<ShardLease>,
        record: LeaderElectionRecord,
        state: Option<HostState>,
    },
    /// If it is still this version.
    Delete {
        lease: ShardLease,
    },
}

/// None after a deletion.
pub(crate) type Answer = Result<Option<ShardLease>, LockError>;

/// What is to be done.
#[derive(Debug, Clone)]
pub(crate) enum Effect {
    Send {
        id: u64,
        request: Request,
    },
    /// A term begins, by this claim, and is valid until `until`.
    Begin {
        shard: usize,
        claim: ShardLease,
        until: Duration,
    },
    /// All terms are valid until then.
    Renewed {
        until: Duration,
    },
    /// The work of a term must end. The term goes on until [`Machine::work_ended`].
    Cancel {
        shard: usize,
    },
    /// A term is over.
    End {
        shard: usize,
    },
    /// Everything was given up, after [`Machine::leave`].
    Left,
}

/// What a request is for.
#[derive(Debug)]
enum Purpose {
    ReadOwn,
    Renew { sent: Duration },
    DeleteOwn,
    ReadGroup,
    TakeGroup,
    ReadShard { shard: usize },
    CheckHolder { shard: usize },
    Claim { shard: usize, session: u64 },
    Release { shard: usize },
    Sweep,
}

struct Pending {
    purpose: Purpose,
    name: String,
    /// What was known of the Lease when the request was sent.
    known: Option<ShardLease>,
}

/// The rules of one host.
pub(crate) struct Machine {
    config: MachineConfig,
    known: KnownLeases,
    /// The Leases were listed once: what is not known is absent.
    listed: bool,
    own: OwnLease,
    /// The group's Lease must be read before it is written.
    group_unsure: bool,
    group_busy: bool,
    group_not_before: Duration,
    shards: Vec<ShardSlot>,
    sweep_not_before: Duration,
    pending: BTreeMap<u64, Pending>,
    last_id: u64,
    effects: Vec<Effect>,
    /// When something is due, if nothing comes before.
    wake_at: Duration,
    wall: Timestamp,
}

impl Machine {
    /// A host that holds nothing.
    pub(crate) fn new(config: MachineConfig) -> Self {
        let shards = (0..config.shards).map(|_| ShardSlot::default()).collect();
        Self {
            config,
            known: KnownLeases::default(),
            listed: false,
            own: OwnLease::default(),
            group_unsure: false,
            group_busy: false,
            group_not_before: Duration::ZERO,
            shards,
            sweep_not_before: Duration::ZERO,
            pending: BTreeMap::new(),
            last_id: 0,
            effects: Vec::new(),
            wake_at: Duration::ZERO,
            wall: Timestamp::UNIX_EPOCH,
        }
    }

    /// All Leases of the group, at a version.
    pub(crate) fn listed(&mut self, now: Duration, version: u64, leases: Vec<ShardLease>) {
        self.known.listed(now, version, leases);
        self.listed = true;
    }

    /// A watch has shown a Lease of the group.
    pub(crate) fn changed(&mut self, now: Duration, lease: ShardLease) {
        self.known.put(now, lease);
    }

    /// A watch has shown that a Lease of the group was deleted, at a version.
    pub(crate) fn deleted(&mut self, now: Duration, name: &str, version: u64) {
        self.known.gone(now, name, version);
    }

    /// The plugins are loaded: shards may be moved to this host.
    pub(crate) fn set_ready(&mut self) {
        if self.own.state == HostState::Warming {
            self.own.set_state(HostState::Ready);
        }
    }

    /// This host ends: it takes no shard any more, and gives up those it has when their work has ended.
    pub(crate) fn leave(&mut self) {
        self.own.set_state(HostState::Leaving);
    }

    /// The work of the last term of a shard has ended.
    pub(crate) fn work_ended(&mut self, shard: usize) {
        if let Some(slot) = self.shards.get_mut(shard) {
            slot.working = false;
        }
    }

    /// A term is over that seemed to last: somebody has looked at it after its time.
    pub(crate) fn term_lost(&mut self, shard: usize) {
        self.end_term(shard);
    }

    /// What came of a request. One that was given up by its sender has [`LockError::NoAnswer`].
    pub(crate) fn answered(&mut self, now: Duration, id: u64, answer: Answer) {
        // First, so that nothing is prolonged by an answer that this host was too late to look at.
        self.end_session_if_over(now);
        let Some(Pending { purpose, name, known }) = self.pending.remove(&id) else { return };
        match &answer {
            Ok(Some(lease)) => self.known.put(now, lease.clone()),
            Ok(None) | Err(LockError::NotFound(_)) => self.known.not_found(now, &name, known.as_ref()),
            Err(_) => {}
        }
        match purpose {
            Purpose::ReadOwn => self.own_read(now, &answer),
            Purpose::Renew { sent } => self.renewed(now, sent, &answer),
            Purpose::DeleteOwn => {
                self.own.has_left = true;
                self.effects.push(Effect::Left);
            }
            Purpose::ReadGroup => {
                self.group_busy = false;
                self.group_unsure = !matches!(answer, Ok(_) | Err(LockError::NotFound(_)));
            }
            Purpose::TakeGroup => {
                self.group_busy = false;
                self.group_unsure = answer.is_err();
            }
            Purpose::ReadShard { shard } => self.shard_read(shard, &answer),
            Purpose::CheckHolder { shard } => self.holder_checked(shard, known.as_ref(), &answer),
            Purpose::Claim { shard, session } => self.claimed(now, shard, session, answer),
            Purpose::Release { shard } => self.released(now, shard, &answer),
            Purpose::Sweep => {}
        }
    }

    /// What is to be done now. `wall` is for people alone.
    pub(crate) fn poll(&mut self, now: Duration, wall: Timestamp) -> Vec<Effect> {
        self.wall = wall;
        self.wake_at = now + self.config.retry_period;
        self.end_session_if_over(now);
        if self.listed && !self.own.has_left {
            self.renew_own(now);
            self.keep_group(now);
            for shard in 0..self.shards.len() {
                self.poll_shard(now, shard);
            }
            self.sweep(now);
            self.leave_if_done();
        } else if !self.listed && self.own.state == HostState::Leaving {
            // It has never asked for anything.
            self.own.has_left = true;
            self.effects.push(Effect::Left);
        }
        std::mem::take(&mut self.effects)
    }

    /// When to poll again if nothing comes before.
    pub(crate) fn wake_at(&self) -> Duration {
        self.wake_at
    }

    /// Whether this host has a term of a shard.
    #[cfg(test)]
    pub(crate) fn holds(&self, now: Duration, shard: usize) -> bool {
        let has_term = self.shards.get(shard).is_some_and(|slot| slot.phase.is_term());
        has_term && self.own.session.as_ref().is_some_and(|session| now < session.until)
    }

    /// Who holds a shard as far as is known, and when the holder was surely at work on it; empty without one.
    pub(crate) fn holder(&self, shard: usize) -> (&str, Option<Duration>) {
        let Some(known) = self.known.get(&self.config.names.shard(shard)) else { return ("", None) };
        let holder = known.holder();
        let at_work = self.known.get(&self.config.names.host(holder)).and_then(|host| host.before);
        // Not with what it did before it had the shard.
        (holder, at_work.filter(|at| *at >= known.at))
    }

    /// The hosts that live, this one included while it has a session.
    pub(crate) fn hosts(&self, now: Duration) -> Vec<String> {
        let own = self.own.session.is_some().then(|| self.config.identity.clone());
        own.into_iter().chain(self.others(now).map(|other| other.identity.to_owned())).collect()
    }

    /// Who holds the group's own Lease, if that is not the group.
    pub(crate) fn kept_out_by(&self) -> Option<&str> {
        let known = self.known.get(self.config.names.group())?;
        Some(known.holder())
            .filter(|holder| !holder.is_empty() && *holder != group_holder(self.config.shards))
    }

    fn send(&mut self, purpose: Purpose, request: Request) {
        let name = match &request {
            Request::Get { name } | Request::Write { name, .. } => name.clone(),
            Request::Delete { lease } => lease.name.clone(),
        };
        self.last_id += 1;
        let known = self.known.lease(&name).cloned();
        self.pending.insert(self.last_id, Pending { purpose, name, known });
        self.effects.push(Effect::Send { id: self.last_id, request });
    }

    /// Something is due then.
    fn wake(&mut self, at: Duration) {
        self.wake_at = self.wake_at.min(at);
    }

    /// The pause after a request that failed.
    fn pause(&self) -> Duration {
        self.config.retry_period / 4
    }

    /// Deletes a Lease of a host that was killed long ago; the host of the smallest name does it.
    fn sweep(&mut self, now: Duration) {
        let own = &self.config.identity;
        if self.own.session.is_none()
            || now < self.sweep_not_before
            || self.others(now).any(|other| other.identity < own.as_str())
        {
            return;
        }
        self.sweep_not_before = now + self.config.lease_duration;
        let kept: Vec<String> =
            (0..self.shards.len()).map(|shard| self.config.names.host(self.holder(shard).0)).collect();
        let is_kept = |name: &str| kept.iter().any(|kept| kept == name);
        self.known.forget_absent(|name| !self.config.names.is_host(name) || is_kept(name));
        let usual = self.config.lease_duration;
        let dead = self.known.iter().find(|(name, known)| {
            let is_dead = now >= known.expires(usual) + 3 * usual && known.holder() != *own;
            self.config.names.is_host(name) && known.lease.is_some() && is_dead && !is_kept(name)
        });
        if let Some(lease) = dead.and_then(|(_, known)| known.lease.clone()) {
            self.send(Purpose::Sweep, Request::Delete { lease });
        }
    }
}

/// Another host that lives.
struct Other<'a> {
    identity: &'a str,
    state: HostState,
    ready_since: Option<Duration>,
}

impl Machine {
    /// The other hosts whose Leases last.
    fn others(&self, now: Duration) -> impl Iterator<Item = Other<'_>> {
        self.known.iter().filter_map(move |(name, known)| {
            let lives = self.config.names.is_host(name) && now < known.expires(self.config.lease_duration);
            let lease = known.lease.as_ref().filter(|_| lives)?;
            let identity = Some(lease.holder())
                .filter(|holder| !holder.is_empty() && *holder != self.config.identity)?;
            Some(Other { identity, state: lease.state, ready_since: known.ready_since })
        })
    }
}

#[cfg(test)]
mod tests;
