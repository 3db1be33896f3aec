//! The figures of work queues under client-go's names.
//!
//! Labels are controller-runtime's: `name` and `controller`, both the plugin's name, and for the depth `priority`. A
//! plugin's series go with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::{Histogram, Priority, Queue, QueueStats};
use prometheus_client::registry::Registry;

use super::labels::RunLabels;
use super::scraped::{Figure, Scraped, Spread, Value};
use crate::dispatch::reasons::Reasons;

/// Priorities that are told apart, as in controller-runtime.
const MOST_PRIORITIES: usize = 25;
/// What controller-runtime calls those beyond.
const BEYOND: &str = "exceeded_cardinality_limit";

/// The queues by their plugins.
pub(crate) type Queues = Arc<Mutex<BTreeMap<String, Queue<ObjectKey, Reasons>>>>;

/// The labels `name` and `controller`.
type QueueLabels = ([(&'static str, String); 1], RunLabels);

fn labels(name: String) -> QueueLabels {
    let run = RunLabels::new("controller", name.as_str());
    ([("name", name)], run)
}

static DEPTH: [Figure<usize>; 1] =
    [Figure { name: "workqueue_depth", help: "Keys that wait", value: Value::Gauge(|depth| *depth as f64) }];

static FIGURES: [Figure<QueueStats>; 7] = [
    Figure {
        name: "workqueue_delayed",
        help: "Keys that wait for a deadline",
        value: Value::Gauge(|stats| stats.delayed as f64),
    },
    Figure {
        name: "workqueue_unfinished_work_seconds",
        help: "Age of the running calls, summed",
        value: Value::Gauge(|stats| stats.unfinished_work.as_secs_f64()),
    },
    Figure {
        name: "workqueue_longest_running_processor_seconds",
        help: "Age of the longest running call",
        value: Value::Gauge(|stats| stats.longest_running.as_secs_f64()),
    },
    Figure {
        name: "workqueue_adds",
        help: "Adds that made a key need a run",
        value: Value::Counter(|stats| stats.adds),
    },
    Figure {
        name: "workqueue_retries",
        help: "Adds with a delay",
        value: Value::Counter(|stats| stats.retries),
    },
    Figure {
        name: "workqueue_queue_duration_seconds",
        help: "Time from a key's first add to its run",
        value: Value::Histogram(|stats| spread(&stats.queue_duration)),
    },
    Figure {
        name: "workqueue_work_duration_seconds",
        help: "Time that a key is with a worker",
        value: Value::Histogram(|stats| spread(&stats.work_duration)),
    },
];

fn spread(histogram: &Histogram) -> Spread {
    let buckets = histogram.buckets().collect();
    Spread { sum: histogram.sum().as_secs_f64(), count: histogram.count(), buckets }
}

/// Shows the queues of all plugins.
pub(crate) fn register(registry: &mut Registry, queues: &Queues) {
    let stats = |queues: &Queues| -> Vec<(String, QueueStats)> {
        queues.lock().iter().map(|(name, queue)| (name.clone(), queue.stats())).collect()
    };
    let own = Arc::clone(queues);
    registry.register_collector(Scraped::new(&DEPTH, move || {
        let of_queue = |(name, stats): (String, QueueStats)| {
            let of_run = labels(name);
            let row =
                move |(priority, depth): (String, usize)| ((of_run.clone(), [("priority", priority)]), depth);
            depths(&stats).into_iter().map(row)
        };
        stats(&own).into_iter().flat_map(of_queue).collect()
    }));
    let own = Arc::clone(queues);
    registry.register_collector(Scraped::new(&FIGURES, move || {
        stats(&own).into_iter().map(|(name, stats)| (labels(name), stats)).collect()
    }));
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
