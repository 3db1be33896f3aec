//! The mutex of queues and limiters: `parking_lot`'s, or one whose every step a test orders (feature `shuttle`,
//! `tests/interleavings.rs`).

#[cfg(feature = "shuttle")]
pub(crate) use explored::{Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
pub(crate) use parking::{Mutex, MutexGuard};

#[cfg(not(feature = "shuttle"))]
mod parking {
    use std::hint::spin_loop;
    use std::ops::Range;

    pub(crate) use parking_lot::MutexGuard;

    /// Pauses between two tries, as powers of two: together less than 10 µs on current processors. A holder needs tens of
    /// nanoseconds. With these tries a core does many operations before the cache lines of the state move to another one.
    const PAUSES: Range<u32> = 5..8;

    /// `parking_lot::Mutex`, tried a few times before the thread sleeps.
    ///
    /// A thread that waits for a holder which the kernel has descheduled (a CPU quota, a neighbour) therefore sleeps, and
    /// uses no CPU time. The mutex is eventually fair: every 0.5 ms on average the holder hands it to the longest sleeper.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(parking_lot::Mutex::new(value))
        }

        #[inline]
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.try_lock().unwrap_or_else(|| self.lock_contended())
        }

        #[cold]
        fn lock_contended(&self) -> MutexGuard<'_, T> {
            for pauses in PAUSES {
                (0..1_u32 << pauses).for_each(|_| spin_loop());
                if let Some(guard) = self.0.try_lock() {
                    return guard;
                }
            }
            self.0.lock()
        }
    }
}

#[cfg(feature = "shuttle")]
mod explored {
    use shuttle::sync::Mutex as ShuttleMutex;
    pub(crate) use shuttle::sync::MutexGuard;

    /// `parking_lot::Mutex` as far as this crate uses it.
    #[derive(Debug, Default)]
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
