//! Mutex and condition variable: `parking_lot`'s, or those whose every step a test orders (feature `shuttle`,
//! `tests/interleavings.rs`).

#[cfg(feature = "shuttle")]
pub(crate) use explored::{Condvar, Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
pub(crate) use parking::{Condvar, Mutex, MutexGuard};

#[cfg(not(feature = "shuttle"))]
mod parking {
    use std::time::Duration;

    pub(crate) use parking_lot::{Mutex, MutexGuard};

    /// `parking_lot::Condvar`; a wait takes the guard by value, as in `std`.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        /// Waits, for `limit` at most, and tells whether that is over.
        pub(crate) fn wait<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            limit: Option<Duration>,
        ) -> (MutexGuard<'a, T>, bool) {
            let is_over = match limit {
                Some(limit) => self.0.wait_for(&mut guard, limit).timed_out(),
                None => {
                    self.0.wait(&mut guard);
                    false
                }
            };
            (guard, is_over)
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[cfg(feature = "shuttle")]
mod explored {
    use std::sync::PoisonError;
    use std::time::Duration;

    use shuttle::rand::{Rng as _, thread_rng};
    use shuttle::sync;
    pub(crate) use shuttle::sync::MutexGuard;

    /// `parking_lot::Mutex` as far as this crate uses it.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(sync::Condvar);

    impl Condvar {
        /// Waits until it is notified, or finds by chance that a limit is over.
        pub(crate) fn wait<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            limit: Option<Duration>,
        ) -> (MutexGuard<'a, T>, bool) {
            if limit.is_some() && thread_rng().gen_bool(0.5) {
                return (guard, true);
            }
            (self.0.wait(guard).unwrap_or_else(PoisonError::into_inner), false)
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
