//! [`Reasons`]: why a key is reconciled, as a set of bits that travels with the key through the work queue.

use pilothouse_workqueue::Merge;

/// Why a key is reconciled: a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reasons(u8);

impl Reasons {
    /// The object came into view.
    pub const ADDED: Self = Self(1);
    /// The object changed.
    pub const UPDATED: Self = Self(1 << 1);
    /// The object is gone.
    pub const DELETED: Self = Self(1 << 2);
    /// A watched object that maps to the key changed.
    pub const OWNED: Self = Self(1 << 3);
    /// The resync period came round.
    pub const RESYNC: Self = Self(1 << 4);
    /// The guest asked for it, or the last try failed.
    pub const REQUEUED: Self = Self(1 << 5);
    /// A new generation of the plugin began.
    pub const RELOADED: Self = Self(1 << 6);
    /// A schedule came round.
    pub const SCHEDULED: Self = Self(1 << 7);

    const NAMES: [&'static str; 8] =
        ["added", "updated", "deleted", "owned", "resync", "requeued", "reloaded", "scheduled"];

    /// Whether only changes of the object itself, or a list of it, are the reason: the guest did not ask for the key, and no
    /// other object maps to it.
    pub(crate) fn are_of_the_object(self) -> bool {
        self.0 & (Self::OWNED.0 | Self::REQUEUED.0 | Self::SCHEDULED.0) == 0
    }

    /// The words of the contract.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .enumerate()
            .filter(move |(bit, _)| self.0 & (1 << bit) != 0)
            .map(|(_, name)| name)
    }
}

impl Merge for Reasons {
    fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_is_the_union() {
        let mut reasons = Reasons::default();
        reasons.merge(Reasons::SCHEDULED);
        reasons.merge(Reasons::ADDED);
        reasons.merge(Reasons::ADDED);
        assert_eq!(reasons.names().collect::<Vec<_>>(), ["added", "scheduled"]);
    }
}
