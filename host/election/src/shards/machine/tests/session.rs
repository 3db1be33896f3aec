//! Which answers make a session and a term, whenever they come: a host and its server, without a network.

use std::time::Duration;

use jiff::Timestamp;

use super::super::{Answer, Effect, Machine, MachineConfig};
use super::simulation::{DEADLINE, JOIN, LEASE, RETRY, Server};
use crate::shards::names::LeaseNames;

const ZERO: Duration = Duration::ZERO;

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
        let requests = effects.iter().filter_map(|effect| match effect {
            Effect::Send { id, request } => Some((*id, request)),
            _ => None,
        });
        let requests: Vec<_> = requests.collect();
        let [(id, request)] = requests[..] else { panic!("not one request: {effects:?}") };
        (id, self.server.handle(request))
    }

    /// Sends the only request that is due, which is answered at once.
    fn exchange(&mut self, now: Duration) {
        let effects = self.poll(now);
        let (id, answer) = self.answer(&effects);
        self.machine.answered(now, id, answer);
    }
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
