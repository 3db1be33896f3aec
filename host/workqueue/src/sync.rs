//! What a queue synchronises with: in a build with the feature `shuttle`, types whose every step a test can order as it
//! likes (`tests/interleavings.rs`); else the plain ones.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::Mutex;

#[cfg(feature = "shuttle")]
pub(crate) use explored::Mutex;

#[cfg(feature = "shuttle")]
mod explored {
    use shuttle::sync::{Mutex as ShuttleMutex, MutexGuard};

    /// `parking_lot::Mutex` as far as it is used here.
    #[derive(Default)]
    pub(crate) struct Mutex<T>(ShuttleMutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(ShuttleMutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a test that panics ends")
        }
    }
}
