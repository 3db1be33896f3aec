//! The merge table: what the last pending event of a key and the next one become.
//!
//! | pending \ next | Added | Updated | Deleted |
//! |---|---|---|---|
//! | Added | — | Added (new) | nothing; Deleted if it may have been told of elsewhere |
//! | Updated | — | Updated (first old, last new) | Deleted |
//! | Deleted | both: a new UID is never hidden | — | — |
//!
//! A dash never happens with a legal sequence; the table then keeps what leaves the consumer's view right.

use super::event::Item;

/// What became of two events.
pub(super) enum Merged {
    /// They cancel out.
    Nothing,
    /// One event stands for both.
    One(Item),
    /// Both stay, in order.
    Both(Item, Item),
}

/// Merges the last pending event of a key with the next one.
///
/// `told` says that the consumer, or one before it, may have been told of the pending event all the same; a deletion is then
/// kept.
pub(super) fn merge(pending: Item, next: Item, told: bool) -> Merged {
    use Item::{Added, Deleted, Updated};
    match (pending, next) {
        (Added { initial, .. }, Updated { new: object, .. }) => {
            Merged::One(Added { object, initial, updated: true })
        }
        (Added { .. }, next @ Deleted { .. }) if told => Merged::One(next),
        (Added { .. }, Deleted { .. }) => Merged::Nothing,
        (Updated { old, .. }, Updated { new, .. }) => Merged::One(Updated { old, new }),
        (Updated { .. }, next @ Deleted { .. }) => Merged::One(next),
        (pending @ Deleted { .. }, next @ Added { .. }) => Merged::Both(pending, next),

        (Added { initial, updated, .. }, Added { object, initial: again, .. }) => {
            Merged::One(Added { object, initial: initial || again, updated })
        }
        (Updated { old, .. }, Added { object: new, .. }) => Merged::One(Updated { old, new }),
        (pending @ Deleted { .. }, Updated { new: object, .. }) => {
            Merged::Both(pending, Added { object, initial: false, updated: true })
        }
        (pending @ Deleted { .. }, Deleted { .. }) => Merged::One(pending),
    }
}
