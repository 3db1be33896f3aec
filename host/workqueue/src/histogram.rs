//! [`Histogram`]: durations by powers of ten.
//!
//! Invariant: the bounds are those of client-go's and controller-runtime's `workqueue_*_duration_seconds`: 10 ns times
//! powers of ten, here up to 1000 s as controller-runtime has it. Kept by the state of a queue with a name.

use std::time::Duration;

use crate::clock::Nanos;

/// Number of buckets with an upper bound.
const BOUNDS: usize = 12;

/// Durations observed, by powers of ten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Histogram {
    counts: [u64; BOUNDS + 1],
    /// Of all that was observed, in nanoseconds: 584 years.
    sum: Nanos,
}

impl Histogram {
    #[inline]
    pub(crate) fn observe(&mut self, nanos: Nanos) {
        // 0 to 10 ns are in bucket 0, up to 100 ns in 1, and so on: bounds belong to the bucket below them.
        let bucket = nanos.saturating_sub(1).checked_ilog10().unwrap_or(0) as usize;
        self.counts[bucket.min(BOUNDS)] += 1;
        self.sum = self.sum.saturating_add(nanos);
    }

    /// Sum of all durations observed.
    #[must_use]
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// Number of durations observed.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Upper bounds in seconds (the last is infinite), and how many durations are within each and above the one before.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bound = |exponent: usize| {
            if exponent == BOUNDS { f64::INFINITY } else { 10_f64.powi(exponent as i32 - 8) }
        };
        self.counts.iter().enumerate().map(move |(exponent, &count)| (bound(exponent), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_by_the_bound_they_do_not_exceed() {
        let mut histogram = Histogram::default();
        for nanos in [0, 1, 10, 11, 100, 1_000_000, 1_000_000_000_000, 1_000_000_000_001, 86_400_000_000_000]
        {
            histogram.observe(nanos);
        }
        let buckets: Vec<_> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(buckets, [(1e-8, 3), (1e-7, 2), (1e-3, 1), (1e3, 1), (f64::INFINITY, 2)]);
        assert_eq!(histogram.buckets().count(), 13);
        assert_eq!(histogram.count(), 9);
        assert_eq!(histogram.sum(), Duration::from_nanos(88_400_001_000_123));
    }
}
