//! [`EventSourceObjectSpamFilter`]: a token bucket for each source and object.
//!
//! A bucket is one time: the one at which it would be full again (GCRA). All is in whole nanoseconds, so no refill is lost to rounding.

use crate::keys::Key;
use crate::lru::{LruCache, lru_cache};

/// The longest time for one token: 292 years, which is to say that none comes.
const NEVER: f64 = i64::MAX as f64;

#[derive(Debug)]
pub(crate) struct EventSourceObjectSpamFilter {
    /// When each bucket is full again, in nanoseconds since 1970.
    buckets: LruCache<i128>,
    /// Nanoseconds in which one token comes.
    period: i128,
    /// Nanoseconds in which an empty bucket gets full.
    depth: i128,
}

impl EventSourceObjectSpamFilter {
    pub(crate) fn new(lru_cache_size: usize, burst: u32, qps: f64) -> Self {
        let period = if qps > 0.0 { (1e9 / qps).round().min(NEVER) } else { NEVER } as i128;
        let depth = period * i128::from(burst.max(1));
        Self { buckets: lru_cache(lru_cache_size), period, depth }
    }

    /// Whether the event is one too many; takes a token if it is not. `now` is in nanoseconds since 1970.
    pub(crate) fn filter(&mut self, key: Key, now: i128) -> bool {
        let full_at = self.buckets.get_or_insert_mut(key, || now);
        // Also where the clock was set back: no bucket lacks more than all its tokens.
        *full_at = (*full_at).clamp(now, now + self.depth);
        if *full_at + self.period > now + self.depth {
            return true;
        }
        *full_at += self.period;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i128 = 1_000_000_000;

    fn passed(filter: &mut EventSourceObjectSpamFilter, key: u128, now: i128) -> u32 {
        (0..100).map(|_| u32::from(!filter.filter(Key(key), now))).sum()
    }

    #[test]
    fn twenty_five_pass_at_once_and_then_one_in_five_minutes() {
        let mut filter = EventSourceObjectSpamFilter::new(16, 25, 1.0 / 300.0);
        assert_eq!(passed(&mut filter, 1, 0), 25);
        assert_eq!(passed(&mut filter, 1, 300 * SECOND - 1), 0);
        assert_eq!(passed(&mut filter, 1, 300 * SECOND), 1);
        assert_eq!(passed(&mut filter, 1, 900 * SECOND), 2);
        // No more than the burst, however long the rest was.
        assert_eq!(passed(&mut filter, 1, 1_000_000 * SECOND), 25);
        assert_eq!(passed(&mut filter, 2, 0), 25, "another key");
    }

    #[test]
    fn a_clock_that_is_set_back_gives_no_tokens_and_empties_a_bucket_at_most() {
        let mut filter = EventSourceObjectSpamFilter::new(16, 25, 1.0 / 300.0);
        let late = 10_000_000 * SECOND;
        assert_eq!(passed(&mut filter, 1, late), 25);
        assert_eq!(passed(&mut filter, 1, 0), 0);
        let mut filter = EventSourceObjectSpamFilter::new(16, 25, 1.0 / 300.0);
        assert!(!filter.filter(Key(1), late));
        filter.filter(Key(1), 0);
        assert_eq!(
            passed(&mut filter, 1, 25 * 300 * SECOND),
            25,
            "full after as long as a full bucket takes"
        );
    }

    #[test]
    fn without_a_rate_the_burst_is_all_there_is() {
        let mut filter = EventSourceObjectSpamFilter::new(16, 3, 0.0);
        assert_eq!(passed(&mut filter, 1, 0), 3);
        assert_eq!(passed(&mut filter, 1, 1_000_000_000 * SECOND), 0);
    }

    #[test]
    fn a_filter_whose_buckets_are_forgotten_stays_bounded() {
        let mut filter = EventSourceObjectSpamFilter::new(16, 1, 0.0);
        for key in 0..10_000 {
            assert!(!filter.filter(Key(key), 0));
        }
        assert_eq!(filter.buckets.len(), 16);
    }
}
