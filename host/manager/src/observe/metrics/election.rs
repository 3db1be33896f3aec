//! The figures of the leader election under client-go's names, and those of shards.

use pilothouse_election::{ElectionFigures, ElectionStatus, Shards};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::EncodeLabelSet;

use super::scraped::{Figure, Scraped, Value};

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

/// The election that this host takes part in.
pub(crate) fn election(status: ElectionStatus) -> Box<dyn Collector> {
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
pub(crate) fn shards(shards: &Shards) -> [Box<dyn Collector>; 2] {
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
