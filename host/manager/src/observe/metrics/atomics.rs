//! Counters, gauges and histograms that are one number each, or one a bucket: those of the metrics library take an
//! allocation each and a lock.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use super::scraped::Spread;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct AtomicCounter(AtomicU64);

impl AtomicCounter {
    pub(crate) fn inc(&self) {
        self.inc_by(1);
    }

    pub(crate) fn inc_by(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number that is set.
#[derive(Debug, Default)]
pub(crate) struct AtomicGauge(AtomicI64);

impl AtomicGauge {
    pub(crate) fn inc(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(crate) fn dec(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    pub(crate) fn set(&self, value: i64) {
        self.0.store(value, Relaxed);
    }

    pub(crate) fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// Observations by bucket: one for each bound, and one for what is above all bounds.
#[derive(Debug)]
pub(crate) struct AtomicHistogram<const BUCKETS: usize> {
    /// Upper bounds, which belong to their buckets, in ascending order.
    bounds: &'static [f64],
    buckets: [AtomicU64; BUCKETS],
    /// The bits of a float.
    sum: AtomicU64,
}

impl<const BUCKETS: usize> AtomicHistogram<BUCKETS> {
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        assert_eq!(bounds.len() + 1, BUCKETS, "one bucket more than bounds");
        Self { bounds, buckets: [const { AtomicU64::new(0) }; BUCKETS], sum: AtomicU64::new(0) }
    }

    pub(crate) fn observe(&self, value: f64) {
        self.buckets[self.bounds.partition_point(|bound| *bound < value)].fetch_add(1, Relaxed);
        let more = |sum| Some((f64::from_bits(sum) + value).to_bits());
        // The closure refuses nothing.
        let _ = self.sum.fetch_update(Relaxed, Relaxed, more);
    }

    /// The state for a scrape. An observation that is made meanwhile may be in its bucket and not in the sum yet.
    pub(crate) fn spread(&self) -> Spread {
        let counts = self.buckets.iter().map(|bucket| bucket.load(Relaxed));
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        Spread { sum: f64::from_bits(self.sum.load(Relaxed)), count, buckets }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::histogram::Histogram;
    use prometheus_client::registry::{Registry, Unit};
    use proptest::prelude::*;

    use super::super::scraped::{Figure, Scraped, Value};
    use super::*;

    const BOUNDS: &[f64] = &[0.001, 0.5, 1.0, 2.5];

    fn page(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    }

    const LABELS: [(&str, &str); 1] = [("p", "x")];

    static FIGURES: [Figure<Arc<AtomicHistogram<5>>>; 1] =
        [Figure { name: "a_seconds", help: "A", value: Value::Histogram(|histogram| histogram.spread()) }];

    proptest! {
        #[test]
        fn a_histogram_shows_what_that_of_the_library_shows(
            values in proptest::collection::vec(
                prop_oneof![0.0..4.0_f64, proptest::sample::select(BOUNDS)], 0..50,
            ),
        ) {
            let ours = Arc::new(AtomicHistogram::<5>::new(BOUNDS));
            let theirs: Family<_, Histogram, fn() -> Histogram> =
                Family::new_with_constructor(|| Histogram::new(BOUNDS.iter().copied()));
            let one = theirs.get_or_create_owned(&LABELS);
            for value in values {
                ours.observe(value);
                one.observe(value);
            }
            let (mut a, mut b) = (Registry::default(), Registry::default());
            a.register_collector(Scraped::new(&FIGURES, move || vec![(LABELS, ours.clone())]));
            b.register_with_unit("a", "A", Unit::Seconds, theirs);
            // The library ends the help with a full stop.
            prop_assert_eq!(page(&a), page(&b).replace("HELP a_seconds A.", "HELP a_seconds A"));
        }
    }

    #[test]
    fn counters_and_gauges_count_over_threads() {
        let (counter, gauge) = (AtomicCounter::default(), AtomicGauge::default());
        gauge.set(5);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        counter.inc();
                        gauge.inc();
                        gauge.dec();
                    }
                });
            }
        });
        counter.inc_by(2);
        assert_eq!((counter.get(), gauge.get()), (4002, 5));
    }
}
