//! [`Priority`]: the class of an add.
//!
//! Invariant: the order of the variants is the order of precedence, and `Priority::COUNT` lists of ready keys exist.
//! Chosen by whoever adds; read by the queue's state.

/// The class in which a key waits. Within a class the order is first in, first out.
///
/// Low never starves: after every 16 normal keys in a row handed out while low ones wait, one low key is handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Work nobody waits for: the initial list, a resync, a reload.
    Low,
    /// A change in the cluster, or a retry of one.
    #[default]
    Normal,
}

impl Priority {
    /// Number of classes.
    pub(crate) const COUNT: usize = 2;

    /// Position of the class in arrays of [`Self::COUNT`].
    pub(crate) const fn class(self) -> usize {
        self as usize
    }
}
