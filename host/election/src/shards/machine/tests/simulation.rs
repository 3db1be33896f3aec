//! [`Simulation`]: hosts with clocks of their own, a server of Leases, and a network that delays, loses and cuts. Events are
//! handled in the order of real time, which no host knows.
//!
//! At each begin of a term it is checked that no other host has a term of the shard by its own clock. As a term begins
//! only there, two terms that overlap would show.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::super::{Answer, Effect, Machine, MachineConfig, Request};
use crate::lock::{LockError, Stored};
use crate::record::LeaderElectionRecord;
use crate::shards::lease::ShardLease;
use crate::shards::names::{LeaseNames, weight};

pub(super) const SHARDS: usize = 6;
pub(super) const LEASE: Duration = Duration::from_secs(5);
pub(super) const DEADLINE: Duration = Duration::from_secs(3);
pub(super) const RETRY: Duration = Duration::from_millis(500);
pub(super) const JOIN: Duration = Duration::from_secs(2);
const REQUEST_TIMEOUT: Duration = Duration::from_millis(1500);
const LIST_EVERY: Duration = Duration::from_secs(5);

pub(super) fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// SplitMix64: the same for a seed on every machine.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end.max(1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The Leases, and what a watch shows of them.
#[derive(Default)]
pub(super) struct Server {
    leases: BTreeMap<String, ShardLease>,
    pub(super) version: u64,
    log: Vec<(u64, String, Option<ShardLease>)>,
    pub(super) writes: u64,
}

impl Server {
    pub(super) fn get(&self, name: &str) -> Option<&ShardLease> {
        self.leases.get(name)
    }

    pub(super) fn delete(&mut self, name: &str) {
        self.version += 1;
        self.leases.remove(name);
        self.log.push((self.version, name.to_owned(), None));
    }

    pub(super) fn put(&mut self, mut lease: ShardLease) -> ShardLease {
        self.version += 1;
        lease.stored.resource_version = self.version.to_string();
        if lease.stored.uid.is_empty() {
            lease.stored.uid = format!("u{}", self.version);
        }
        self.leases.insert(lease.name.clone(), lease.clone());
        self.log.push((self.version, lease.name.clone(), Some(lease.clone())));
        lease
    }

    pub(super) fn handle(&mut self, request: &Request) -> Answer {
        let present = |name: &str| self.leases.get(name).cloned();
        let absent = || LockError::NotFound("absent".to_owned());
        let conflict = || LockError::Conflict("conflict".to_owned());
        match request {
            Request::Get { name } => present(name).map(Some).ok_or_else(absent),
            Request::Write { name, from, record, state } => {
                let lease = match (present(name), from) {
                    (None, None) => ShardLease { name: name.clone(), ..ShardLease::default() },
                    (None, Some(_)) => return Err(absent()),
                    (Some(present), Some(from)) if present.is_same(from) => present,
                    (Some(_), _) => return Err(conflict()),
                };
                let state = state.unwrap_or(lease.state);
                let stored = Stored { record: record.clone(), ..lease.stored };
                self.writes += 1;
                Ok(Some(self.put(ShardLease { stored, state, ..lease })))
            }
            Request::Delete { lease } => match present(&lease.name) {
                None => Err(absent()),
                Some(present) if present.is_same(lease) => {
                    self.delete(&lease.name);
                    Ok(None)
                }
                Some(_) => Err(conflict()),
            },
        }
    }
}

/// What goes wrong on the way, in percent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Network {
    /// Requests that never arrive.
    pub(super) lost: u64,
    /// Answers that never arrive.
    pub(super) unanswered: u64,
    /// Requests and answers that take up to eight seconds; the others take up to twenty milliseconds.
    pub(super) slow: u64,
    /// Longest time until a watch shows a change, in milliseconds.
    pub(super) watch_lag: u64,
}

/// A host's clock: how fast it runs, and what it showed at the beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    pub(super) rate: f64,
    pub(super) offset: Duration,
}

impl Clock {
    pub(super) fn local(self, real: Duration) -> Duration {
        self.offset + real.mul_f64(self.rate)
    }

    fn real(self, local: Duration) -> Duration {
        local.saturating_sub(self.offset).div_f64(self.rate)
    }
}

pub(super) struct Host {
    pub(super) identity: String,
    pub(super) machine: Machine,
    pub(super) clock: Clock,
    /// Nothing of it runs before.
    pub(super) paused_until: Duration,
    /// Nothing passes between it and the server before.
    pub(super) cut_until: Duration,
    pub(super) alive: bool,
    /// Entries of the server's log that it was shown.
    shown: usize,
    /// Shards whose work was told to end.
    ending: BTreeSet<usize>,
    /// The newest of its wake-ups.
    wake: u64,
}

enum Event {
    Arrive { host: usize, id: u64, request: Request },
    Answer { host: usize, id: u64, answer: Answer },
    Show { host: usize, upto: usize },
    List { host: usize },
    Listed { host: usize, version: u64, leases: Vec<ShardLease>, shown: usize },
    Wake { host: usize, number: u64 },
    WorkEnded { host: usize, shard: usize },
    Ready { host: usize },
}

/// A term that began.
pub(super) struct Begun {
    pub(super) at: Duration,
    pub(super) host: usize,
    pub(super) shard: usize,
}

pub(super) struct Simulation {
    pub(super) now: Duration,
    pub(super) server: Server,
    pub(super) hosts: Vec<Host>,
    pub(super) network: Network,
    pub(super) random: Random,
    /// Longest time that work takes to end, in milliseconds.
    pub(super) work: u64,
    /// Longest time that plugins take to load, in milliseconds.
    pub(super) warm_up: u64,
    /// All terms that began, in order.
    pub(super) begun: Vec<Begun>,
    /// Terms that began while another had one.
    pub(super) overlaps: Vec<String>,
    events: BTreeMap<(Duration, u64), Event>,
    number: u64,
}

impl Simulation {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            now: Duration::ZERO,
            server: Server::default(),
            hosts: Vec::new(),
            network: Network::default(),
            random: Random(seed),
            work: 0,
            warm_up: 0,
            begun: Vec::new(),
            overlaps: Vec::new(),
            events: BTreeMap::new(),
            number: 0,
        }
    }

    /// Starts a host; returns its number.
    pub(super) fn start(&mut self, name: &str) -> usize {
        self.start_with(name, SHARDS, Clock { rate: 1.0, offset: Duration::ZERO })
    }

    pub(super) fn start_with(&mut self, name: &str, shards: usize, clock: Clock) -> usize {
        let host = self.hosts.len();
        let identity = format!("{name}_{host}");
        let config = MachineConfig {
            names: LeaseNames::new("hosts"),
            identity: identity.clone(),
            shards,
            lease_duration: LEASE,
            renew_deadline: DEADLINE,
            retry_period: RETRY,
            join_delay: JOIN,
        };
        self.hosts.push(Host {
            identity,
            machine: Machine::new(config),
            clock,
            paused_until: Duration::ZERO,
            cut_until: Duration::ZERO,
            alive: true,
            shown: 0,
            ending: BTreeSet::new(),
            wake: 0,
        });
        let ready = milliseconds(self.random.below(self.warm_up.max(1)));
        self.after(ready, Event::Ready { host });
        self.after(Duration::ZERO, Event::List { host });
        host
    }

    pub(super) fn kill(&mut self, host: usize) {
        self.hosts[host].alive = false;
    }

    pub(super) fn leave(&mut self, host: usize) {
        self.hosts[host].machine.leave();
        self.poll(host);
    }

    pub(super) fn holds(&self, host: usize, shard: usize) -> bool {
        let Host { machine, clock, alive, .. } = &self.hosts[host];
        *alive && machine.holds(clock.local(self.now), shard)
    }

    /// The hosts that have a term of a shard.
    pub(super) fn holders(&self, shard: usize) -> Vec<usize> {
        (0..self.hosts.len()).filter(|host| self.holds(*host, shard)).collect()
    }

    /// Whether a host still has a term of a shard whose work was told to end.
    pub(super) fn yields(&self, host: usize, shard: usize) -> bool {
        self.holds(host, shard) && self.hosts[host].ending.contains(&shard)
    }

    /// The owner of a shard among the living hosts by weight.
    pub(super) fn best(&self, shard: usize) -> usize {
        let alive = (0..self.hosts.len()).filter(|host| self.hosts[*host].alive);
        alive.max_by_key(|host| weight(&self.hosts[*host].identity, shard)).expect("a host")
    }

    /// Whether each shard has the owner that it should have, and no other.
    pub(super) fn is_placed(&self) -> bool {
        (0..SHARDS).all(|shard| self.holders(shard) == [self.best(shard)])
    }

    /// Handles the events of so much time.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) {
            self.now = entry.key().0;
            let event = entry.remove();
            self.handle(event);
        }
        self.now = end;
    }

    /// Runs until this holds; how long that took.
    pub(super) fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> Duration {
        let began = self.now;
        while !holds(self) {
            assert!(self.now < began + Duration::from_secs(100), "never: {what}");
            self.run(milliseconds(10));
        }
        self.now - began
    }

    fn after(&mut self, time: Duration, event: Event) {
        self.number += 1;
        self.events.insert((self.now + time, self.number), event);
    }

    fn transit(&mut self) -> Duration {
        let most = if self.random.chance(self.network.slow) { 8000 } else { 20 };
        milliseconds(self.random.below(most))
    }

    fn is_cut(&self, host: usize) -> bool {
        self.now < self.hosts[host].cut_until
    }

    /// Puts off what a paused host would handle; `false` if it is gone.
    fn runs(&mut self, host: usize, event: impl FnOnce() -> Event) -> bool {
        let Host { alive, paused_until, .. } = self.hosts[host];
        if alive && self.now < paused_until {
            self.after(paused_until - self.now, event());
            return false;
        }
        alive
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { host, id, request } => {
                let answer = self.server.handle(&request);
                self.show_all();
                if !self.random.chance(self.network.unanswered) && !self.is_cut(host) {
                    let transit = self.transit();
                    self.after(transit, Event::Answer { host, id, answer });
                }
            }
            Event::Answer { host, id, answer } => {
                let again = answer.clone();
                if self.runs(host, || Event::Answer { host, id, answer: again }) {
                    let now = self.local(host);
                    self.hosts[host].machine.answered(now, id, answer);
                    self.poll(host);
                }
            }
            Event::Show { host, upto } => {
                if self.runs(host, || Event::Show { host, upto }) && !self.is_cut(host) {
                    let (now, shown) = (self.local(host), self.hosts[host].shown);
                    for (version, name, lease) in self.server.log.get(shown..upto).unwrap_or_default() {
                        let machine = &mut self.hosts[host].machine;
                        match lease {
                            Some(lease) => machine.changed(now, lease.clone()),
                            None => machine.deleted(now, name, *version),
                        }
                    }
                    self.hosts[host].shown = shown.max(upto);
                    self.poll(host);
                }
            }
            Event::List { host } => {
                if self.runs(host, || Event::List { host }) {
                    self.after(LIST_EVERY, Event::List { host });
                    if !self.is_cut(host) {
                        let transit = self.transit();
                        let leases = self.server.leases.values().cloned().collect();
                        let (version, shown) = (self.server.version, self.server.log.len());
                        self.after(transit, Event::Listed { host, version, leases, shown });
                    }
                }
            }
            Event::Listed { host, version, leases, shown } => {
                let again = leases.clone();
                if self.runs(host, || Event::Listed { host, version, leases: again, shown }) {
                    let now = self.local(host);
                    self.hosts[host].machine.listed(now, version, leases);
                    self.hosts[host].shown = self.hosts[host].shown.max(shown);
                    self.poll(host);
                }
            }
            Event::Wake { host, number } => {
                if self.runs(host, || Event::Wake { host, number }) && self.hosts[host].wake == number {
                    self.poll(host);
                }
            }
            Event::Ready { host } => {
                if self.runs(host, || Event::Ready { host }) {
                    self.hosts[host].machine.set_ready();
                    self.poll(host);
                }
            }
            Event::WorkEnded { host, shard } => {
                if self.runs(host, || Event::WorkEnded { host, shard }) {
                    self.hosts[host].ending.remove(&shard);
                    self.hosts[host].machine.work_ended(shard);
                    self.poll(host);
                }
            }
        }
    }

    /// Has all hosts shown what was written, each after a while.
    fn show_all(&mut self) {
        for host in 0..self.hosts.len() {
            let lag = milliseconds(self.random.below(self.network.watch_lag.max(5)));
            self.after(lag, Event::Show { host, upto: self.server.log.len() });
        }
    }

    /// What a person, or a host without shards, writes.
    pub(super) fn write(&mut self, name: &str, change: impl FnOnce(&mut LeaderElectionRecord)) {
        let mut lease = self.server.get(name).cloned().unwrap_or_default();
        name.clone_into(&mut lease.name);
        change(&mut lease.stored.record);
        self.server.put(lease);
        self.show_all();
    }

    pub(super) fn delete(&mut self, name: &str) {
        self.server.delete(name);
        self.show_all();
    }

    fn local(&self, host: usize) -> Duration {
        self.hosts[host].clock.local(self.now)
    }

    fn poll(&mut self, host: usize) {
        let now = self.local(host);
        // The clock of the wall is anywhere.
        let wall = Timestamp::from_second(i64::try_from(self.random.below(1 << 31)).unwrap_or(0))
            .unwrap_or_default();
        for effect in self.hosts[host].machine.poll(now, wall) {
            self.carry_out(host, effect);
        }
        self.number += 1;
        self.hosts[host].wake = self.number;
        let Host { machine, clock, wake, .. } = &self.hosts[host];
        // Never at this same moment again, whatever is rounded.
        let at = clock.real(machine.wake_at()).max(self.now + milliseconds(1));
        let event = Event::Wake { host, number: *wake };
        self.after(at - self.now, event);
    }

    fn carry_out(&mut self, host: usize, effect: Effect) {
        match effect {
            Effect::Send { id, request } => {
                let no_answer = Err(LockError::NoAnswer("late".to_owned()));
                self.after(
                    REQUEST_TIMEOUT.div_f64(self.hosts[host].clock.rate),
                    Event::Answer { host, id, answer: no_answer },
                );
                if !self.random.chance(self.network.lost) && !self.is_cut(host) {
                    let transit = self.transit();
                    self.after(transit, Event::Arrive { host, id, request });
                }
            }
            Effect::Begin { shard, .. } => {
                let others: Vec<usize> =
                    self.holders(shard).into_iter().filter(|other| *other != host).collect();
                if !others.is_empty() {
                    let at = self.now;
                    self.overlaps.push(format!("{at:?}: shard {shard}: {host} begins, {others:?} hold it"));
                }
                self.begun.push(Begun { at: self.now, host, shard });
            }
            Effect::Cancel { shard } | Effect::End { shard } => {
                if self.hosts[host].ending.insert(shard) {
                    let time = milliseconds(self.random.below(self.work.max(1)));
                    self.after(time, Event::WorkEnded { host, shard });
                }
            }
            Effect::Renewed { .. } => {}
            Effect::Left => self.kill(host),
        }
    }
}
