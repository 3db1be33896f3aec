//! The figures of the leader election under client-go's names, those of shards, and whether the Lease keeps this host out.

use pilothouse_election::{ElectionFigures, ElectionStatus, Shards};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::EncodeLabelSet;

use super::scraped::{Figure, Scraped, Value};
use crate::leader_election::LeaderElection;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Lock {
    name: String,
}

static FIGURES: [Figure<ElectionFigures>; 2] = [
    Figure {
        name: "leader_election_master_status",
        help: "Whether this host is the leader",
        value: Value::Int(|figures| i64::from(figures.master_status)),
    },
    Figure {
        name: "leader_election_slowpath",
        help: "Renewals that had to read the Lease first",
        value: Value::Counter(|figures| figures.slowpath_total),
    },
];

static MISMATCH: [Figure<bool>; 1] = [Figure {
    name: "pilothouse_lease_mismatch",
    help: "Whether the Lease is held by hosts with another number of shards, so that this host waits until it is deleted",
    value: Value::Int(|is_mismatch| i64::from(*is_mismatch)),
}];

/// What shows how this host takes part with others; nothing without an election.
pub(super) fn collectors(leader: &LeaderElection) -> Vec<Box<dyn Collector>> {
    let mut collectors: Vec<Box<dyn Collector>> = leader.status().map(election).into_iter().collect();
    collectors.extend(leader.shards().into_iter().flat_map(shards));
    if leader.is_enabled() {
        let leader = leader.clone();
        collectors.push(Scraped::new(&MISMATCH, move || {
            let view = leader.view().into_iter();
            view.map(|view| ([("lease", view.lease.clone())], view.mismatch().is_some())).collect()
        }));
    }
    collectors
}

/// The election that this host takes part in.
fn election(status: ElectionStatus) -> Box<dyn Collector> {
    Scraped::new(&FIGURES, move || {
        let figures = status.figures();
        vec![(Lock { name: figures.name.clone() }, figures)]
    })
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Shard {
    lease: String,
    shard: usize,
}

static HELD: [Figure<bool>; 1] = [Figure {
    name: "pilothouse_shard_held",
    help: "Whether this host has the shard",
    value: Value::Int(|is_held| i64::from(*is_held)),
}];

static HOSTS: [Figure<usize>; 1] = [Figure {
    name: "pilothouse_shard_hosts",
    help: "Hosts that live and share plugins, this one included",
    value: Value::Int(|hosts| i64::try_from(*hosts).unwrap_or(i64::MAX)),
}];

/// The shards that this host shares with others.
fn shards(shards: &Shards) -> [Box<dyn Collector>; 2] {
    let (held, hosts) = (shards.clone(), shards.clone());
    let lease = |shards: &Shards| shards.lease().to_owned();
    [
        Scraped::new(&HELD, move || {
            let is_held = |shard| held.term(shard).is_some_and(|term| term.is_leading());
            (0..held.count()).map(|shard| (Shard { lease: lease(&held), shard }, is_held(shard))).collect()
        }),
        Scraped::new(&HOSTS, move || vec![([("lease", lease(&hosts))], hosts.hosts().len())]),
    ]
}
