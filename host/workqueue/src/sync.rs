//! What a queue synchronises with: [`Mutex`], and in a build with the feature `shuttle` one whose every step a test can
//! order as it likes (`tests/interleavings.rs`).
//!
//! A lock is held for tens of nanoseconds (where many keys come due or a table grows, for a hundred microseconds or some
//! milliseconds). So who finds it taken stands back for a microsecond, and longer each
//! time, and then sleeps for a moment: what the lock guards stays with one core for many operations, instead of moving
//! between the cores with each, which costs more than the operations themselves.

#[cfg(feature = "shuttle")]
pub(crate) use explored::Mutex;
#[cfg(not(feature = "shuttle"))]
pub(crate) use standing_back::Mutex;

#[cfg(not(feature = "shuttle"))]
mod standing_back {
    use std::hint::spin_loop;
    use std::ops::Range;
    use std::thread::sleep;
    use std::time::Duration;

    use spin::mutex::{SpinMutex, SpinMutexGuard};

    /// Pauses, as powers of two, before the lock is looked at again: about 1 µs first and 15 µs at last.
    const PAUSES: Range<u32> = 5..10;
    /// Then others work on, or the thread that holds the lock was put aside: the core is left to somebody.
    const SLEEP: Duration = Duration::from_micros(50);
    /// Who has slept wants the lock now: it is looked at so many times, some 30 µs in all.
    const EAGER: u32 = 256;
    const EAGER_PAUSES: u32 = 4;

    /// `spin::Mutex`, of which contenders stand back. It is unlocked by a plain store, which a lock that knows who sleeps
    /// cannot do, and is left by whoever panics.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(SpinMutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(SpinMutex::new(value))
        }

        #[inline]
        pub(crate) fn lock(&self) -> SpinMutexGuard<'_, T> {
            self.0.try_lock().unwrap_or_else(|| self.stand_back())
        }

        #[cold]
        fn stand_back(&self) -> SpinMutexGuard<'_, T> {
            for pauses in PAUSES {
                (0..1_u32 << pauses).for_each(|_| spin_loop());
                if let Some(guard) = self.0.try_lock() {
                    return guard;
                }
            }
            loop {
                sleep(SLEEP);
                for _ in 0..EAGER {
                    if let Some(guard) = self.0.try_lock() {
                        return guard;
                    }
                    (0..EAGER_PAUSES).for_each(|_| spin_loop());
                }
            }
        }
    }
}

#[cfg(feature = "shuttle")]
mod explored {
    use shuttle::sync::{Mutex as ShuttleMutex, MutexGuard};

    /// The other mutex as far as it is used here.
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
