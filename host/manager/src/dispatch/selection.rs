//! [`Selection`]: which events of a mapped watch become keys; the judge of its mappers.
//!
//! Mappers of different plugins with equal selections share one verdict on a change.

use std::any::Any;

use pilothouse_cache::{EventFilter as _, Interest, Judge, Notification, Verdict};
use pilothouse_object::FieldValues;
use pilothouse_plugin::Predicate;

use crate::dispatch::mapping::Filter;

/// What a watch shows, and the predicates that an event of it passes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selection {
    pub(crate) filter: Filter,
    pub(crate) predicates: Vec<Predicate>,
}

impl Selection {
    pub(crate) fn interest(&self) -> Interest {
        self.filter.interest_of(self.clone())
    }

    /// Whether the object is shown, and an event that adds it passes.
    pub(crate) fn takes(&self, object: &FieldValues<'_>) -> bool {
        self.filter.shows_values(object) && Predicate::all_pass_add(&self.predicates, object, false)
    }
}

impl Judge for Selection {
    fn judge(&self, notification: &Notification<'_>) -> Option<Verdict> {
        let predicates = &self.predicates;
        match notification {
            // The keys of objects that were there before are added little by little (`backfill.rs`).
            Notification::Added { is_in_initial_list: true, .. } => None,
            Notification::Added { object, .. } => self.takes(object).then_some(Verdict::Added),
            Notification::Updated { old, new, is_sync: true } => (self.filter.shows_values(new)
                && Predicate::all_pass_update(predicates, Some(old), new))
            .then_some(Verdict::Updated),
            Notification::Updated { old, new, .. } => {
                let verdict = self.filter.verdict(notification)?;
                let passes = match verdict {
                    Verdict::Added => Predicate::all_pass_add(predicates, new, false),
                    Verdict::Updated => Predicate::all_pass_update(predicates, Some(old), new),
                    Verdict::Deleted | Verdict::Forgotten => {
                        Predicate::all_pass_delete(predicates, Some(old))
                    }
                };
                passes.then_some(verdict)
            }
            Notification::Deleted { object, .. } => {
                let verdict = self.filter.verdict(notification)?;
                let passes = Predicate::all_pass_delete(predicates, object.as_ref());
                Some(if passes { verdict } else { Verdict::Forgotten })
            }
        }
    }

    fn is_equal(&self, other: &dyn Judge) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }
}
