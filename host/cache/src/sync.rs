//! What the store and the delta queue synchronise with: in a build with the feature `shuttle`, types whose every step a
//! test can order as it likes (`tests/interleavings.rs`); else the plain ones.

#[cfg(not(feature = "shuttle"))]
pub(crate) use arc_swap::ArcSwap as Published;
#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::Mutex;

#[cfg(feature = "shuttle")]
pub(crate) use explored::{Mutex, Published};

#[cfg(feature = "shuttle")]
mod explored {
    use std::ops::Deref;
    use std::sync::Arc;

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

    /// `arc_swap::ArcSwap` as far as it is used here: others may run before and after each load and store.
    pub(crate) struct Published<T>(ShuttleMutex<Arc<T>>);

    pub(crate) struct Loaded<T>(Arc<T>);

    impl<T> Deref for Loaded<T> {
        type Target = Arc<T>;

        fn deref(&self) -> &Arc<T> {
            &self.0
        }
    }

    impl<T> Published<T> {
        pub(crate) fn from_pointee(value: T) -> Self {
            Self(ShuttleMutex::new(Arc::new(value)))
        }

        pub(crate) fn load(&self) -> Loaded<T> {
            Loaded(self.load_full())
        }

        pub(crate) fn load_full(&self) -> Arc<T> {
            self.0.lock().expect("a test that panics ends").clone()
        }

        pub(crate) fn store(&self, value: Arc<T>) {
            *self.0.lock().expect("a test that panics ends") = value;
        }
    }
}
