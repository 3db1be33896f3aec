//! The figures of the leader election under client-go's names.

use pilothouse_election::{ElectionFigures, ElectionStatus};
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
