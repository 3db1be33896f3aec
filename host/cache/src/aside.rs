//! [`aside`]: work that computes for long, without holding up the other tasks of its thread. Called by the informer, for large
//! lists, and when a dictionary is trained.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Computes something: on a runtime with threads, other tasks go on meanwhile.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(work)
        }
        _ => work(),
    }
}
