//! [`ElectionCollector`]: the figures of the leader election under client-go's names, read when a scrape comes.

use std::fmt;

use pilothouse_election::ElectionStatus;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Lock {
    name: String,
}

/// The election that this host takes part in.
#[derive(Debug)]
pub(crate) struct ElectionCollector(pub(crate) ElectionStatus);

impl Collector for ElectionCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let figures = self.0.figures();
        let lock = Lock { name: figures.name };
        let mut family = encoder.encode_descriptor(
            "leader_election_master_status",
            "Whether this host is the leader",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(f64::from(u8::from(figures.master_status))).encode(family.encode_family(&lock)?)?;
        // Without `_total`, which the encoder adds.
        let mut family = encoder.encode_descriptor(
            "leader_election_slowpath",
            "Renewals that had to read the lease first",
            None,
            MetricType::Counter,
        )?;
        ConstCounter::new(figures.slowpath_total).encode(family.encode_family(&lock)?)
    }
}
