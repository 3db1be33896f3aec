//! [`aside`]: work that computes or waits for long, without holding up the other tasks of its thread. Used for large lists, for
//! locks that are held while a large list is handled, and when a dictionary is trained.

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::poll_clock;

/// Objects that are handled on the spot: about a millisecond. Other tasks of the thread wait for so long.
const LONG: usize = 1_000;

/// Objects that are dropped on the spot; more of them take milliseconds.
const LARGE: usize = 10_000;

/// Computes something: on a runtime with threads, other tasks go on meanwhile.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(|| poll_clock::left_out(work))
        }
        _ => work(),
    }
}

/// Whether so many objects are better dropped [aside](drop_aside).
pub(crate) fn is_large(objects: usize) -> bool {
    objects > LARGE
}

/// Does work that grows with so many objects, each time all indexes, [`aside`] if they are many.
pub(crate) fn aside_if_large<T>(objects: usize, work: impl FnOnce() -> T) -> T {
    if objects > LONG { aside(work) } else { work() }
}

/// Drops something on a thread for blocking work; outside of a runtime at once.
pub(crate) fn drop_aside<T: Send + 'static>(dropped: T) {
    if let Ok(handle) = Handle::try_current() {
        handle.spawn_blocking(move || drop(dropped));
    }
}
