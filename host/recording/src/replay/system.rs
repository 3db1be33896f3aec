//! [`ReplayedSystem`]: clocks and random numbers of a recording.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_engine::{RandomSource, System};

use super::tape::ReplayTape;

pub(super) struct ReplayedSystem {
    pub(super) tape: Arc<ReplayTape>,
    pub(super) seed: u128,
}

impl System for ReplayedSystem {
    fn wall_clock(&self) -> Duration {
        Duration::from_nanos(self.tape.wall())
    }

    fn monotonic_clock(&self) -> Duration {
        Duration::from_nanos(self.tape.monotonic())
    }

    fn random(&self, source: RandomSource, bytes: &mut [u8]) {
        self.tape.random(source, bytes);
    }

    fn seed(&self) -> u128 {
        self.seed
    }
}
