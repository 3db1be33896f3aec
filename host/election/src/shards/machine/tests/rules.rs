//! Single rules: who takes what, when, and what is left alone.

use std::collections::BTreeSet;
use std::time::Duration;

use super::simulation::{Clock, JOIN, LEASE, RETRY, SHARDS, Simulation, milliseconds};

const SECOND: Duration = Duration::from_secs(1);

fn all_held(simulation: &Simulation) -> bool {
    (0..SHARDS).all(|shard| simulation.holders(shard).len() == 1)
}

fn of(simulation: &Simulation, host: usize) -> BTreeSet<usize> {
    (0..SHARDS).filter(|shard| simulation.holds(host, *shard)).collect()
}

/// Hosts among which the shards are placed.
fn placed(names: &[&str]) -> Simulation {
    let mut simulation = Simulation::new(1);
    names.iter().for_each(|name| _ = simulation.start(name));
    simulation.until("placed", Simulation::is_placed);
    simulation.run(SECOND);
    simulation
}

#[test]
fn the_first_host_takes_all_shards_at_once_and_renews_one_lease() {
    let mut simulation = Simulation::new(1);
    simulation.start("a");
    let took = simulation.until("all held", all_held);
    assert!(took < milliseconds(500), "{took:?}");
    let before = simulation.server.writes;
    simulation.run(SECOND * 60);
    let writes = simulation.server.writes - before;
    assert!((115..=122).contains(&writes), "{writes} in a minute, of renewals every {RETRY:?}");
    assert!(all_held(&simulation) && simulation.begun.len() == SHARDS);
}

#[test]
fn a_host_that_joins_gets_its_own_shards_one_after_the_other_and_moves_no_others() {
    let mut simulation = placed(&["a", "b"]);
    let before = [of(&simulation, 0), of(&simulation, 1)];
    let began = simulation.begun.len();
    let third = simulation.start("c");
    simulation.until("placed", Simulation::is_placed);
    assert!(!of(&simulation, third).is_empty(), "a name that gets nothing shows nothing");
    for (host, before) in before.iter().enumerate() {
        let kept: BTreeSet<usize> = before.difference(&of(&simulation, third)).copied().collect();
        assert_eq!(of(&simulation, host), kept);
    }
    let moved = &simulation.begun[began..];
    assert!(moved.iter().all(|begun| begun.host == third) && moved.len() == of(&simulation, third).len());
    // Not before it was ready for a while.
    assert!(moved[0].at >= JOIN);
}

#[test]
fn a_host_gives_up_one_shard_at_a_time_for_one_that_joins() {
    let mut simulation = placed(&["a"]);
    simulation.work = 3000;
    let second = simulation.start("b");
    let mut given = BTreeSet::new();
    while !simulation.is_placed() {
        let yielding: Vec<usize> = (0..SHARDS).filter(|shard| simulation.yields(0, *shard)).collect();
        assert!(yielding.len() <= 1, "{yielding:?} at {:?}", simulation.now);
        given.extend(yielding);
        assert!(simulation.now < SECOND * 100, "never placed");
        simulation.run(milliseconds(10));
    }
    // Those that it was seen to give up are all that moved, and more than one.
    assert_eq!(given, of(&simulation, second));
    assert!(given.len() > 1, "{given:?}");
}

#[test]
fn a_host_that_leaves_hands_its_shards_over_within_a_few_requests() {
    let mut simulation = placed(&["a", "b", "c"]);
    let given = of(&simulation, 0);
    assert!(!given.is_empty());
    let began = simulation.begun.len();
    simulation.leave(0);
    let took = simulation.until("all held", |s| !s.hosts[0].alive && all_held(s));
    assert!(took < milliseconds(300), "{took:?}");
    let moved: BTreeSet<usize> = simulation.begun[began..].iter().map(|begun| begun.shard).collect();
    assert_eq!(moved, given);
    // Its own Lease is gone.
    assert!(simulation.server.get("hosts-host-0").is_none() && simulation.is_placed());
}

#[test]
fn a_host_that_leaves_keeps_a_shard_until_its_work_has_ended() {
    let mut simulation = Simulation::new(2);
    simulation.start("a");
    simulation.until("all held", all_held);
    simulation.start("b");
    simulation.until("placed", Simulation::is_placed);
    simulation.work = 30_000;
    let given = of(&simulation, 0);
    simulation.leave(0);
    simulation.run(milliseconds(200));
    let kept = of(&simulation, 0);
    assert!(!kept.is_empty() && kept.is_subset(&given));
    simulation.until("all handed over", |s| !s.hosts[0].alive && of(s, 1).len() == SHARDS);
    assert!(simulation.overlaps.is_empty());
}

#[test]
fn the_shards_of_a_host_that_was_killed_are_taken_when_its_lease_is_over() {
    let mut simulation = placed(&["a", "b", "c"]);
    simulation.kill(0);
    let took = simulation.until("all held", all_held);
    assert!(took > LEASE - RETRY * 2 && took < LEASE + RETRY, "{took:?}");
    // Nobody needs its Lease any more.
    simulation.until("swept", |s| s.server.get("hosts-host-0").is_none());
}

#[test]
fn a_host_that_is_cut_off_begins_again_without_a_new_start() {
    let mut simulation = placed(&["a", "b"]);
    let before = of(&simulation, 0);
    simulation.hosts[0].cut_until = simulation.now + SECOND * 20;
    simulation.until("all at the other", |s| of(s, 1).len() == SHARDS);
    simulation.until("placed", Simulation::is_placed);
    assert_eq!(of(&simulation, 0), before);
    assert!(simulation.overlaps.is_empty(), "{:?}", simulation.overlaps);
}

#[test]
fn hosts_without_shards_are_waited_for_and_kept_out_for_good() {
    let mut simulation = Simulation::new(3);
    let renew = |simulation: &mut Simulation, holder: &str, transitions| {
        simulation.write("hosts", |record| {
            record.holder_identity = holder.to_owned();
            record.lease_duration_seconds = 5;
            record.leader_transitions = transitions;
        });
    };
    renew(&mut simulation, "old", 0);
    simulation.start("a");
    for renewal in 1..20 {
        simulation.run(SECOND);
        renew(&mut simulation, "old", renewal);
        assert_eq!(simulation.hosts[0].machine.kept_out_by(), Some("old"));
    }
    assert!(simulation.begun.is_empty());
    let took = simulation.until("all held", all_held);
    assert!(took > LEASE - SECOND / 2 && took < LEASE + SECOND, "{took:?}");
    let lease = simulation.server.get("hosts").unwrap().clone();
    assert_eq!((lease.holder(), lease.record().lease_duration_seconds), ("pilothouse-shards/6", i32::MAX));
    // One who takes it all the same ends all terms.
    renew(&mut simulation, "old", 30);
    simulation.until("none held", |s| (0..SHARDS).all(|shard| s.holders(shard).is_empty()));
    simulation.until("all held again", all_held);
}

#[test]
fn hosts_with_different_numbers_of_shards_never_work_together() {
    let mut simulation = placed(&["a"]);
    let clock = Clock { rate: 1.0, offset: Duration::ZERO };
    let other = simulation.start_with("b", SHARDS / 2, clock);
    simulation.run(SECOND * 60);
    assert_eq!(of(&simulation, 0).len(), SHARDS);
    assert_eq!(simulation.hosts[other].machine.kept_out_by(), Some("pilothouse-shards/6"));
    // All are stopped, and the Lease is deleted.
    simulation.leave(0);
    simulation.until("left", |s| !s.hosts[0].alive);
    simulation.run(SECOND * 60);
    assert!((0..SHARDS / 2).all(|shard| simulation.holders(shard).is_empty()));
    simulation.delete("hosts");
    simulation.until("held", |s| (0..SHARDS / 2).all(|shard| s.holders(shard) == [other]));
}

#[test]
fn a_lease_of_a_shard_that_somebody_deletes_ends_the_term_and_is_taken_anew() {
    let mut simulation = placed(&["a", "b"]);
    simulation.delete("hosts-shard-0");
    simulation.until("lost", |s| s.holders(0).is_empty());
    let took = simulation.until("held", |s| s.holders(0).len() == 1);
    assert!(took > LEASE - SECOND, "its holder might not have known: {took:?}");
    // Written by hand: nobody of that name lives.
    simulation.write("hosts-shard-0", |record| record.holder_identity = "nobody".to_owned());
    simulation.until("lost", |s| s.holders(0).is_empty());
    simulation.until("held", |s| s.holders(0).len() == 1);
}
