//! [`Portion`]: how many deltas an informer handles at once.
//!
//! The task of an informer shares its thread with the tasks of all others. One delta costs as much as all indexes of the
//! store compute for it, and their number is that of the plugins. So the portion becomes smaller when one took long, and
//! larger again when it was quick.

use std::time::Duration;

/// How long a portion is to take at most.
const AIM: Duration = Duration::from_millis(1);

/// The number of deltas to handle next.
#[derive(Debug)]
pub(super) struct Portion {
    size: usize,
    most: usize,
}

impl Portion {
    pub(super) fn new(most: usize) -> Self {
        Self { size: most, most }
    }

    /// The number of deltas for a store with so many indexes: it is bounded also before any portion was timed.
    pub(super) fn size(&self, indexes: usize) -> usize {
        self.size.min(self.most / (1 + indexes)).max(1)
    }

    /// So many deltas took so long.
    pub(super) fn took(&mut self, deltas: usize, time: Duration) {
        if time > AIM {
            // By half at most: a thread that was preempted is no reason for single deltas.
            self.size = (deltas / 2).max(1);
        } else if time < AIM / 2 && deltas >= self.size {
            self.size = (self.size * 2).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portion_shrinks_until_it_is_quick_and_grows_when_it_was() {
        let mut portion = Portion::new(1000);
        let cost = Duration::from_micros(100);
        for _ in 0..20 {
            let size = portion.size(0);
            portion.took(size, cost * u32::try_from(size).unwrap());
        }
        let size = portion.size(0);
        assert!((3..=10).contains(&size), "{size} deltas at 100 us each");
        for _ in 0..20 {
            let size = portion.size(0);
            portion.took(size, Duration::from_nanos(100) * u32::try_from(size).unwrap());
        }
        assert_eq!(portion.size(0), 1000);
        // A few deltas that were quick say nothing about many.
        portion.took(1000, AIM * 2);
        portion.took(3, Duration::ZERO);
        assert_eq!(portion.size(0), 500);
    }

    #[test]
    fn a_portion_has_at_least_one_delta_however_many_indexes_there_are() {
        let mut portion = Portion::new(1000);
        assert_eq!([0, 1, 99, 100_000].map(|indexes| portion.size(indexes)), [1000, 500, 10, 1]);
        portion.took(1, AIM * 1000);
        assert_eq!(portion.size(0), 1);
    }
}
