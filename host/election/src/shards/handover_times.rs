//! [`HandoverTimes`]: how long shards have no host, and how long this one takes to give them up. For lines of the log.
//!
//! All times are of the machine's clock. Pure; called by [`super::task`].

use std::time::Duration;

/// The times of all shards.
pub(super) struct HandoverTimes(Vec<Times>);

#[derive(Clone, Copy, Default)]
struct Times {
    /// Since when no host that lives has the shard, as far as this one has seen.
    free: Option<Duration>,
    /// Since when this host gives it up.
    yielding: Option<Duration>,
}

impl HandoverTimes {
    pub(super) fn new(shards: usize) -> Self {
        Self(vec![Times::default(); shards])
    }

    /// No host that lives has the shard, or one has.
    pub(super) fn saw(&mut self, shard: usize, is_free: bool, now: Duration) {
        let free = &mut self.0[shard].free;
        *free = is_free.then(|| free.unwrap_or(now));
    }

    /// This host has the shard from now on. Returns for how long it was seen without a host, if it was.
    pub(super) fn taken(&mut self, shard: usize, now: Duration) -> Option<Duration> {
        let times = std::mem::take(&mut self.0[shard]);
        times.free.map(|free| now.saturating_sub(free))
    }

    /// This host begins to give the shard up.
    pub(super) fn yields(&mut self, shard: usize, now: Duration) {
        self.0[shard].yielding = Some(now);
    }

    /// The work for the shard has ended. Returns how long that took since it was given up, if it was.
    pub(super) fn ended(&mut self, shard: usize, now: Duration) -> Option<Duration> {
        let yielding = self.0[shard].yielding.take();
        yielding.map(|yielding| now.saturating_sub(yielding))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_free_since_it_was_first_seen_so_and_a_host_ends_that() {
        let second = Duration::from_secs;
        let mut times = HandoverTimes::new(2);
        assert_eq!(times.taken(0, second(1)), None, "nobody has looked");
        times.saw(0, true, second(2));
        times.saw(0, true, second(3));
        times.saw(1, true, second(3));
        assert_eq!(times.taken(0, second(7)), Some(second(5)));
        assert_eq!(times.taken(0, second(8)), None, "it was not free since");
        times.saw(1, false, second(8));
        assert_eq!(times.taken(1, second(9)), None);
        times.saw(1, true, second(10));
        assert_eq!(times.taken(1, second(11)), Some(second(1)));
    }

    #[test]
    fn giving_up_takes_from_its_begin_to_the_end_of_the_work_and_is_told_once() {
        let second = Duration::from_secs;
        let mut times = HandoverTimes::new(2);
        assert_eq!(times.ended(0, second(1)), None, "it was lost");
        times.yields(0, second(2));
        assert_eq!((times.ended(1, second(4)), times.ended(0, second(5))), (None, Some(second(3))));
        assert_eq!(times.ended(0, second(6)), None);
        times.yields(0, second(7));
        times.taken(0, second(8));
        assert_eq!(times.ended(0, second(9)), None, "that was another term");
    }
}
