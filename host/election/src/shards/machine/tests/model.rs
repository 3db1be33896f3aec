//! Hosts whose clocks run at different speeds and whose network delays, loses and cuts, while they are stopped, resumed,
//! killed, told to leave and started: never do two have a term of one shard by their own clocks; and when the trouble is
//! over, each shard has the owner that it should have.

use std::time::Duration;

use proptest::prelude::*;

use super::simulation::{Clock, DEADLINE, LEASE, Network, SHARDS, Simulation, milliseconds};

const SECOND: Duration = Duration::from_secs(1);
/// For how long there is trouble.
const TROUBLE: Duration = Duration::from_secs(90);
/// Until all is well after it: the lease, by the slowest clock; and moves, one after the other.
const CALM: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
enum Trouble {
    Kill(usize),
    Leave(usize),
    /// The process is stopped, or its machine suspended: for the host its clock jumps by so many milliseconds when it goes on.
    Pause(usize, u64),
    Cut(usize, u64),
    Start,
    Network(Network),
}

fn network() -> impl Strategy<Value = Network> {
    let percent = || prop_oneof![3 => Just(0_u64), 1 => 0_u64..40];
    (percent(), percent(), percent(), prop_oneof![2 => Just(5_u64), 1 => 5_u64..6000])
        .prop_map(|(lost, unanswered, slow, watch_lag)| Network { lost, unanswered, slow, watch_lag })
}

fn troubles() -> impl Strategy<Value = Vec<(u64, Trouble)>> {
    let one = prop_oneof![
        2 => any::<usize>().prop_map(Trouble::Kill),
        2 => any::<usize>().prop_map(Trouble::Leave),
        3 => (any::<usize>(), 0_u64..15_000).prop_map(|(host, time)| Trouble::Pause(host, time)),
        3 => (any::<usize>(), 0_u64..15_000).prop_map(|(host, time)| Trouble::Cut(host, time)),
        2 => Just(Trouble::Start),
        4 => network().prop_map(Trouble::Network),
    ];
    prop::collection::vec((0_u64..6000, one), 5..40)
}

/// Clocks whose speeds differ by less than the lease duration does from the renew deadline.
fn clock(random: u64) -> Clock {
    let slowest = 0.8;
    let fastest = slowest * LEASE.as_secs_f64() / DEADLINE.as_secs_f64() * 0.98;
    let share = (random % (1 << 20)) as f64 / f64::from(1 << 20);
    Clock { rate: slowest + (fastest - slowest) * share, offset: milliseconds(random % 1_000_000) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn never_do_two_hosts_hold_one_shard_and_all_have_an_owner_when_the_trouble_is_over(
        seed in any::<u64>(),
        troubles in troubles(),
        work in 0_u64..4000,
    ) {
        let mut simulation = Simulation::new(seed);
        (simulation.work, simulation.warm_up) = (work, 3000);
        let start = |simulation: &mut Simulation| {
            let random = simulation.random.below(u64::MAX);
            simulation.start_with(&format!("h{random}"), SHARDS, clock(random));
        };
        for _ in 0..3 {
            start(&mut simulation);
        }
        for (wait, trouble) in troubles {
            simulation.run(milliseconds(wait));
            if simulation.now > TROUBLE {
                break;
            }
            let alive: Vec<usize> =
                (0..simulation.hosts.len()).filter(|host| simulation.hosts[*host].alive).collect();
            let pick = |number: usize| alive.get(number % alive.len().max(1)).copied();
            match trouble {
                Trouble::Kill(number) => pick(number).into_iter().for_each(|host| simulation.kill(host)),
                Trouble::Leave(number) => pick(number).into_iter().for_each(|host| simulation.leave(host)),
                Trouble::Pause(number, time) => {
                    let until = simulation.now + milliseconds(time);
                    pick(number).into_iter().for_each(|host| simulation.hosts[host].paused_until = until);
                }
                Trouble::Cut(number, time) => {
                    let until = simulation.now + milliseconds(time);
                    pick(number).into_iter().for_each(|host| simulation.hosts[host].cut_until = until);
                }
                Trouble::Start if alive.len() < 5 => start(&mut simulation),
                Trouble::Start => {}
                Trouble::Network(network) => simulation.network = network,
            }
        }
        simulation.network = Network::default();
        for host in &mut simulation.hosts {
            host.paused_until = Duration::ZERO;
            host.cut_until = Duration::ZERO;
        }
        // One that nothing has happened to.
        start(&mut simulation);
        simulation.run(CALM);
        prop_assert!(simulation.overlaps.is_empty(), "{:?}", simulation.overlaps);
        prop_assert!(!simulation.begun.is_empty());
        for _ in 0..20 {
            simulation.run(SECOND / 2);
            let holders: Vec<_> = (0..SHARDS).map(|shard| (simulation.best(shard), simulation.holders(shard))).collect();
            prop_assert!(simulation.is_placed(), "best and holders: {holders:?}");
        }
    }
}
