//! [`Reasons`]: why a key is reconciled, as a set of bits that travels with the key through the work queue.

use pilothouse_engine::ReasonSet;
use pilothouse_workqueue::Merge;

/// Why a key is reconciled: a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reasons(u16);

/// The key came from elsewhere than a watch of its object: from the guest, an operator, another object or a schedule. It has
/// no name in the contract, and outlives the tries of the key.
const OF_OTHERS: u16 = 1 << 15;

/// No cached object may lead to the key any more. It has no name in the contract, and outlives the tries of the key.
const OF_GONE: u16 = 1 << 14;

impl Reasons {
    /// The object came into view.
    pub const ADDED: Self = Self(1);
    /// The object changed.
    pub const UPDATED: Self = Self(1 << 1);
    /// The object is gone.
    pub const DELETED: Self = Self(1 << 2 | OF_GONE);
    /// A watched object that maps to the key changed.
    pub const OWNED: Self = Self(1 << 3 | OF_OTHERS);
    /// The resync period came round.
    pub const RESYNC: Self = Self(1 << 4);
    /// The last try failed, or its answer asked for another one.
    const REQUEUED: Self = Self(1 << 5);
    /// The guest named the key. The contract has one name for this and for another try.
    pub const ASKED: Self = Self(Self::REQUEUED.0 | OF_OTHERS);
    /// A new generation of the plugin began.
    pub const RELOADED: Self = Self(1 << 6);
    /// A schedule came round.
    pub const SCHEDULED: Self = Self(1 << 7 | OF_OTHERS);
    /// An operator named the key.
    pub const MANUAL: Self = Self(1 << 8 | OF_OTHERS);

    /// Whether only changes of the object itself, or a list of it, are the reason, now or at the first try of the key: nobody
    /// asked for it, and no other object maps to it.
    pub(crate) fn are_of_the_object(self) -> bool {
        self.0 & OF_OTHERS == 0
    }

    /// The same, of a key to which no cached object may lead any more.
    pub(crate) fn of_gone(self) -> Self {
        Self(self.0 | OF_GONE)
    }

    /// Whether an object that is gone is among the reasons, now or at the first try of the key: a look at all cached objects
    /// may not find the key.
    pub(crate) fn are_of_gone(self) -> bool {
        self.0 & OF_GONE != 0
    }

    /// The reasons of another try.
    pub(crate) fn of_another_try(self) -> Self {
        Self(Self::REQUEUED.0 | self.0 & (OF_OTHERS | OF_GONE))
    }

    /// The reasons as the contract has them.
    pub fn of_contract(self) -> ReasonSet {
        ReasonSet::of_bits(self.0)
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
        assert_eq!(reasons.of_contract().names().collect::<Vec<_>>(), ["added", "scheduled"]);
    }

    #[test]
    fn a_deletion_outlives_the_tries_of_its_key() {
        let again = Reasons::DELETED.of_another_try().of_another_try();
        assert!(again.are_of_gone() && again.are_of_the_object());
        assert_eq!(again.of_contract().names().collect::<Vec<_>>(), ["requeued"]);
        assert!(!Reasons::UPDATED.are_of_gone() && Reasons::OWNED.of_gone().of_another_try().are_of_gone());
    }

    #[test]
    fn who_asked_for_a_key_outlives_its_tries_and_has_no_name() {
        for asked in [Reasons::ASKED, Reasons::OWNED, Reasons::SCHEDULED, Reasons::MANUAL] {
            assert!(!asked.are_of_the_object());
            let again = asked.of_another_try();
            assert!(!again.are_of_the_object());
            assert_eq!(again.of_contract().names().collect::<Vec<_>>(), ["requeued"]);
        }
        assert!(Reasons::ADDED.of_another_try().of_another_try().are_of_the_object());
    }
}
