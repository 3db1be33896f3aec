//! Which answers make a session and a term, whenever they come: a host and its server, without a network.

use std::time::Duration;

use jiff::Timestamp;

use super::super::{Answer, Effect, Machine, MachineConfig, Request};
use super::simulation::{DEADLINE, JOIN, LEASE, RETRY, Server};
use crate::lock::Stored;
use crate::record::LeaderElectionRecord;
use crate::shards::lease::{HostState, ShardLease};
use crate::shards::names::{LeaseNames, group_holder, weight};

const ZERO: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);

struct Host {
    machine: Machine,
    server: Server,
}

impl Host {
    /// A host that has listed the Leases, of which there are none, and shares one shard.
    fn new() -> Self {
        let mut machine = Machine::new(MachineConfig {
            names: LeaseNames::new("hosts"),
            identity: "a_1".to_owned(),
            shards: 1,
            lease_duration: LEASE,
            renew_deadline: DEADLINE,
            retry_period: RETRY,
            join_delay: JOIN,
        });
        machine.listed(ZERO, 0, Vec::new());
        Self { machine, server: Server::default() }
    }

    fn poll(&mut self, now: Duration) -> Vec<Effect> {
        self.machine.poll(now, Timestamp::UNIX_EPOCH)
    }

    /// The number of the only request among these effects, and the server's answer to it.
    fn answer(&mut self, effects: &[Effect]) -> (u64, Answer) {
        let requests: Vec<_> = requests(effects).collect();
        let [(id, request)] = requests[..] else { panic!("not one request: {effects:?}") };
        (id, self.server.handle(request))
    }

    /// Sends the only request that is due, which is answered at once.
    fn exchange(&mut self, now: Duration) {
        let effects = self.poll(now);
        let (id, answer) = self.answer(&effects);
        self.machine.answered(now, id, answer);
    }

    /// Sends all requests that are due, which are answered at once; returns all effects.
    fn settle(&mut self, now: Duration) -> Vec<Effect> {
        let mut all = Vec::new();
        loop {
            let effects = self.poll(now);
            for (id, request) in requests(&effects) {
                let answer = self.server.handle(request);
                self.machine.answered(now, id, answer);
            }
            let is_done = requests(&effects).next().is_none();
            all.extend(effects);
            if is_done {
                return all;
            }
        }
    }

    /// Another writes a Lease, and the watch shows it at once.
    fn write(&mut self, now: Duration, name: String, holder: &str) {
        let record = LeaderElectionRecord {
            holder_identity: holder.to_owned(),
            lease_duration_seconds: 3600,
            ..LeaderElectionRecord::default()
        };
        let stored = Stored { record, ..Stored::default() };
        let lease = self.server.put(ShardLease { name, state: HostState::Ready, stored });
        self.machine.changed(now, lease);
    }

    /// Another deletes a Lease, and the watch shows it at once.
    fn delete(&mut self, now: Duration, name: &str) {
        self.server.delete(name);
        self.machine.deleted(now, name, self.server.version);
    }
}

fn requests(effects: &[Effect]) -> impl Iterator<Item = (u64, &Request)> {
    effects.iter().filter_map(|effect| match effect {
        Effect::Send { id, request } => Some((*id, request)),
        _ => None,
    })
}

fn renewed_until(effects: &[Effect]) -> Option<Duration> {
    effects.iter().find_map(|effect| match effect {
        Effect::Renewed { until } => Some(*until),
        _ => None,
    })
}

fn begins(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Begin { .. }))
}

#[test]
fn a_session_lasts_from_when_its_renewal_was_sent_and_not_from_its_answer() {
    let late = DEADLINE - RETRY;
    for (answered, until) in [(ZERO, Some(DEADLINE)), (late, Some(DEADLINE)), (DEADLINE, None)] {
        let mut host = Host::new();
        let effects = host.poll(ZERO);
        let (id, answer) = host.answer(&effects);
        host.machine.answered(answered, id, answer);
        let effects = host.poll(answered);
        assert_eq!(renewed_until(&effects), until, "answered after {answered:?}");
    }
}

#[test]
fn a_claim_that_was_sent_in_one_session_begins_no_term_in_the_next() {
    let mut host = Host::new();
    // The host's own Lease, and the group's.
    host.exchange(ZERO);
    host.exchange(ZERO);
    let effects = host.poll(ZERO);
    let (claim, claimed) = host.answer(&effects);
    // The session runs out, and there is another one before the answer is here.
    host.exchange(DEADLINE);
    host.machine.answered(DEADLINE, claim, claimed);
    let effects = host.poll(DEADLINE);
    assert!(renewed_until(&effects).is_some() && !begins(&effects), "{effects:?}");
    // The Lease names the host: it claims the shard again.
    let (id, answer) = host.answer(&effects);
    host.machine.answered(DEADLINE, id, answer);
    let effects = host.poll(DEADLINE);
    assert!(begins(&effects), "{effects:?}");
}

fn yields(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Cancel { .. }))
}

#[test]
fn a_shard_is_kept_for_a_while_from_the_begin_of_its_term_however_slow_its_claim_was() {
    let mut host = Host::new();
    // Another one should have the shard, and is ready.
    let is_better = |name: &String| weight(name, 0) > weight("a_1", 0);
    let better = (2..).map(|n| format!("b{n}_{n}")).find(is_better).unwrap();
    host.write(ZERO, LeaseNames::new("hosts").host(&better), &better);
    host.settle(ZERO);
    // It does not take it: this one does, and renews its own Lease.
    let effects = host.poll(RETRY);
    let mut claim = None;
    for (id, request) in requests(&effects) {
        let answer = host.server.handle(request);
        match request {
            Request::Write { name, .. } if name == "hosts-shard-0" => claim = Some((id, answer)),
            _ => host.machine.answered(RETRY, id, answer),
        }
    }
    let (claim, claimed) = claim.expect("a claim");
    let begun = RETRY + JOIN;
    host.machine.answered(begun, claim, claimed);
    let effects = host.settle(begun);
    assert!(begins(&effects) && !yields(&effects), "{effects:?}");
    let effects = host.settle(RETRY + JOIN * 2);
    assert!(!yields(&effects), "counted from when the claim was sent: {effects:?}");
    let effects = host.settle(begun + JOIN * 2);
    assert!(yields(&effects), "{effects:?}");
}

#[test]
fn a_holder_is_at_work_on_a_shard_from_when_it_has_it() {
    let mut host = Host::new();
    let names = LeaseNames::new("hosts");
    let at_work = |host: &Host| host.machine.holder(0).1;
    for second in [1, 2] {
        host.write(SECOND * second, names.host("b_2"), "b_2");
    }
    host.write(SECOND * 3, names.shard(0), "b_2");
    assert_eq!((host.machine.holder(0).0, at_work(&host)), ("b_2", None), "it has renewed without the shard");
    host.write(SECOND * 4, names.host("b_2"), "b_2");
    assert_eq!(at_work(&host), None, "the renewal before was without the shard");
    host.write(SECOND * 5, names.host("b_2"), "b_2");
    assert_eq!(at_work(&host), Some(SECOND * 4));
}

#[test]
fn a_deleted_group_lease_of_hosts_with_another_number_of_shards_is_taken_after_the_time_of_a_lease() {
    let mut host = Host::new();
    let names = LeaseNames::new("hosts");
    // For an hour, which does not count: they keep it for good.
    host.write(ZERO, names.group().to_owned(), &group_holder(2));
    host.settle(ZERO);
    host.delete(SECOND, names.group());
    let mut now = SECOND;
    while now < SECOND + LEASE {
        host.settle(now);
        assert!(host.server.get(names.group()).is_none(), "taken at {now:?}");
        now += RETRY;
    }
    let effects = host.settle(SECOND + LEASE);
    assert!(begins(&effects), "{effects:?}");
    assert_eq!(host.server.get(names.group()).map(ShardLease::holder), Some(&*group_holder(1)));
}
