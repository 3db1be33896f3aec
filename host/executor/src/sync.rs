//! Mutex and condition variable: `parking_lot`'s, or those whose every step a test orders (feature `shuttle`,
//! `tests/interleavings.rs`).

#[cfg(feature = "shuttle")]
pub(crate) use explored::{Condvar, Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
pub(crate) use parking::{Condvar, Mutex, MutexGuard};

#[cfg(not(feature = "shuttle"))]
mod parking {
    pub(crate) use parking_lot::{Mutex, MutexGuard};

    /// `parking_lot::Condvar`; a wait takes the guard by value, as in `std`.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
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
        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
