//! [`QueueCollector`]: the figures of work queues under client-go's names, read when a scrape comes.
//!
//! Labels are controller-runtime's: `name` and `controller`, both the plugin's name, and for the depth `priority`. A
//! plugin's series go with it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::{Histogram, Priority, Queue, QueueStats};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::dispatch::reasons::Reasons;

/// Priorities that are told apart, as in controller-runtime.
const MOST_PRIORITIES: usize = 25;
/// What controller-runtime calls those beyond.
const BEYOND: &str = "exceeded_cardinality_limit";

/// The queues by their plugins.
pub(crate) type Queues = Arc<Mutex<BTreeMap<String, Queue<ObjectKey, Reasons>>>>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    name: String,
    controller: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DepthLabels {
    name: String,
    controller: String,
    priority: String,
}

/// A figure of a queue.
type Figure<T> = fn(&QueueStats) -> T;

/// How a figure is spread.
type Spread = fn(&QueueStats) -> &Histogram;

/// Without `_total`, which the encoder adds.
const COUNTERS: [(&str, &str, Figure<u64>); 2] = [
    ("workqueue_adds", "Adds that made a key need a run", |stats| stats.adds),
    ("workqueue_retries", "Adds with a delay", |stats| stats.retries),
];

const GAUGES: [(&str, &str, Figure<f64>); 3] = [
    ("workqueue_delayed", "Keys that wait for a deadline", |stats| stats.delayed as f64),
    ("workqueue_unfinished_work_seconds", "Age of the runs under way, summed", |stats| {
        stats.unfinished_work.as_secs_f64()
    }),
    ("workqueue_longest_running_processor_seconds", "Age of the longest run under way", |stats| {
        stats.longest_running.as_secs_f64()
    }),
];

const HISTOGRAMS: [(&str, &str, Spread); 2] = [
    ("workqueue_queue_duration_seconds", "Time from a key's first add to its run", |stats| {
        &stats.queue_duration
    }),
    ("workqueue_work_duration_seconds", "Time that a key is with a worker", |stats| &stats.work_duration),
];

/// The queues of all plugins.
pub(crate) struct QueueCollector(pub(crate) Queues);

impl fmt::Debug for QueueCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueueCollector")
    }
}

impl Collector for QueueCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let labels = |name: &String| Labels { name: name.clone(), controller: name.clone() };
        let queues: Vec<(Labels, QueueStats)> =
            self.0.lock().iter().map(|(name, queue)| (labels(name), queue.stats())).collect();
        let mut family =
            encoder.encode_descriptor("workqueue_depth", "Keys that wait", None, MetricType::Gauge)?;
        for (labels, stats) in &queues {
            for (priority, depth) in depths(stats) {
                let Labels { name, controller } = labels.clone();
                let labels = DepthLabels { name, controller, priority };
                ConstGauge::new(depth as f64).encode(family.encode_family(&labels)?)?;
            }
        }
        for (name, help, value) in GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, stats) in &queues {
                ConstGauge::new(value(stats)).encode(family.encode_family(labels)?)?;
            }
        }
        for (name, help, value) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (labels, stats) in &queues {
                ConstCounter::new(value(stats)).encode(family.encode_family(labels)?)?;
            }
        }
        for (name, help, value) in HISTOGRAMS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            for (labels, stats) in &queues {
                let histogram = value(stats);
                let buckets: Vec<_> = histogram.buckets().collect();
                family.encode_family(labels)?.encode_histogram::<NoLabelSet>(
                    histogram.sum().as_secs_f64(),
                    histogram.count(),
                    &buckets,
                    None,
                )?;
            }
        }
        Ok(())
    }
}

/// The depth by priority, that of normal keys always and first, and what is beyond the bound together.
fn depths(stats: &QueueStats) -> Vec<(String, usize)> {
    let (normal, others): (Vec<_>, Vec<_>) =
        stats.depths.iter().copied().partition(|(priority, _)| *priority == Priority::NORMAL);
    let normal = normal.first().map_or(0, |(_, depth)| *depth);
    let (told, beyond) = others.split_at(others.len().min(MOST_PRIORITIES - 1));
    let mut named = vec![(Priority::NORMAL.0.to_string(), normal)];
    named.extend(told.iter().map(|(priority, depth)| (priority.0.to_string(), *depth)));
    if !beyond.is_empty() {
        named.push((BEYOND.to_owned(), beyond.iter().map(|(_, depth)| depth).sum()));
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_told_by_priority_and_the_number_of_those_is_bounded() {
        let queue: Queue<i32> = Queue::new();
        assert_eq!(depths(&queue.stats()), [("0".to_owned(), 0)]);
        for key in 1..40 {
            queue.add_with(key, (), Priority(key));
        }
        let depths = depths(&queue.stats());
        assert_eq!(depths.len(), MOST_PRIORITIES + 1);
        assert_eq!(depths[..2], [("0".to_owned(), 0), ("39".to_owned(), 1)]);
        assert_eq!(depths[MOST_PRIORITIES], (BEYOND.to_owned(), 15));
    }
}
