//! [`Scraped`]: metrics that something else keeps anyway (queues, informers, events), read when a scrape comes. A table of
//! [`Figure`]s says what is shown of each row; a row's series go when its source no longer answers it.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

static SECONDS: Unit = Unit::Seconds;

/// One metric of the rows `S`.
pub(crate) struct Figure<S> {
    /// Of a counter without `_total`, which the encoder adds.
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) value: Value<S>,
}

/// How a figure is read from a row.
pub(crate) enum Value<S> {
    Counter(fn(&S) -> u64),
    /// A counter of seconds.
    Seconds(fn(&S) -> f64),
    /// A gauge of whole numbers, which are shown exactly.
    Int(fn(&S) -> i64),
    Gauge(fn(&S) -> f64),
    Histogram(fn(&S) -> Spread),
}

/// The state of a histogram.
pub(crate) struct Spread {
    pub(crate) sum: f64,
    pub(crate) count: u64,
    /// Upper bounds, the last one infinite, each with the observations of its bucket alone.
    pub(crate) buckets: Vec<(f64, u64)>,
}

impl<S> Value<S> {
    fn metric_type(&self) -> MetricType {
        match self {
            Self::Counter(_) | Self::Seconds(_) => MetricType::Counter,
            Self::Int(_) | Self::Gauge(_) => MetricType::Gauge,
            Self::Histogram(_) => MetricType::Histogram,
        }
    }
}

/// Figures of rows, each with its labels.
pub(crate) struct Scraped<L, S: 'static> {
    figures: &'static [Figure<S>],
    rows: Box<dyn Fn() -> Vec<(L, S)> + Send + Sync>,
}

impl<L, S> Scraped<L, S> {
    /// These figures of what `rows` answers at each scrape.
    pub(crate) fn new(
        figures: &'static [Figure<S>],
        rows: impl Fn() -> Vec<(L, S)> + Send + Sync + 'static,
    ) -> Box<Self> {
        Box::new(Self { figures, rows: Box::new(rows) })
    }
}

impl<L, S> fmt::Debug for Scraped<L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scraped")
    }
}

impl<L: EncodeLabelSet + 'static, S> Collector for Scraped<L, S> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let rows = (self.rows)();
        for Figure { name, help, value } in self.figures {
            // The encoder adds the unit to the name.
            let of_seconds = name.strip_suffix("_seconds").filter(|_| matches!(value, Value::Histogram(_)));
            let (name, unit) = of_seconds.map_or((*name, None), |stem| (stem, Some(&SECONDS)));
            let mut family = encoder.encode_descriptor(name, help, unit, value.metric_type())?;
            for (labels, row) in &rows {
                let mut series = family.encode_family(labels)?;
                match value {
                    Value::Counter(read) => ConstCounter::new(read(row)).encode(series)?,
                    Value::Seconds(read) => ConstCounter::new(read(row)).encode(series)?,
                    Value::Int(read) => ConstGauge::new(read(row)).encode(series)?,
                    Value::Gauge(read) => ConstGauge::new(read(row)).encode(series)?,
                    Value::Histogram(read) => {
                        let Spread { sum, count, buckets } = read(row);
                        series.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}
