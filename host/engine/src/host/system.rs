//! [`SystemImports`]: where a guest's clocks and random numbers come from.

use std::sync::Arc;
use std::time::Duration;

/// Which random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RandomSource {
    /// Those of `wasi:random/random`, for keys and passwords.
    Secure,
    /// Those of `wasi:random/insecure`, for anything else.
    Insecure,
}

/// Clocks and random numbers of one instance.
pub trait System: Send + Sync + 'static {
    /// Time since the Unix epoch.
    fn wall_clock(&self) -> Duration;
    /// Time since any moment before the instance was made; never less than before.
    fn monotonic_clock(&self) -> Duration;
    /// Fills `bytes`.
    fn random(&self, source: RandomSource, bytes: &mut [u8]);
    /// The number of `wasi:random/insecure-seed`. Asked for at most once.
    fn seed(&self) -> u128;
}

/// Clocks and random numbers.
pub trait SystemImports {
    /// Takes the place of the machine's own, which the guest gets with `None`.
    fn system(&self) -> Option<Arc<dyn System>> {
        None
    }
}
