//! [`Priority`]: how urgent an add is.
//!
//! Invariant: a larger number is handed out first. Chosen by the caller of an add; read by `classes`.

/// How urgent a key is: any number, the larger the more so, as in controller-runtime.
///
/// Keys of one priority are handed out first in, first out. Low priorities never starve: while keys of several priorities
/// wait, every 17th key handed out is not of the highest, but of the priority whose next key has waited longest.
///
/// A few priorities at a time are expected: an add and a get take time in proportion to how many are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Priority(pub i32);

impl Priority {
    /// Work nobody waits for: the initial list, a resync, a reload. The number is controller-runtime's `LowPriority`.
    pub const LOW: Self = Self(-100);
    /// A change in the cluster, or a retry of one; the default.
    pub const NORMAL: Self = Self(0);
}
