//! [`Merge`]: payloads of keys.
//!
//! Invariant asked of implementors: merging is commutative and associative, and the default changes nothing, because
//! the queue joins adds of one key in whatever order they meet. Called by the queue under its lock.

/// Something that travels with a key and of which two can be joined when two adds of that key become one run.
///
/// The default value must be neutral: merging it changes nothing. `merge` runs under the queue's lock, so it should be
/// as cheap as the union of two bit sets and must not call the queue.
pub trait Merge: Default {
    /// Joins `other` into `self`.
    fn merge(&mut self, other: Self);
}

impl Merge for () {
    fn merge(&mut self, (): Self) {}
}
