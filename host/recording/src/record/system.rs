//! [`RecordedSystem`]: the machine's clocks and random numbers, written down as the guest reads them.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use pilothouse_engine::{RandomSource, System};

use super::tape::Tape;

/// Where monotonic clocks of guests begin.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

pub(super) struct RecordedSystem(pub(super) Arc<Tape>);

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl System for RecordedSystem {
    fn wall_clock(&self) -> Duration {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.0.wall(nanoseconds(now));
        now
    }

    fn monotonic_clock(&self) -> Duration {
        let now = ORIGIN.elapsed();
        self.0.monotonic(nanoseconds(now));
        now
    }

    fn random(&self, source: RandomSource, bytes: &mut [u8]) {
        rand::Rng::fill_bytes(&mut rand::rng(), bytes);
        self.0.random(source, bytes);
    }

    fn seed(&self) -> u128 {
        self.0.seed()
    }
}
