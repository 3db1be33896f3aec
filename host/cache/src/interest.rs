//! [`Interest`]: which changes a listener can take, declared so that an informer with a thousand listeners finds those that a
//! change concerns.
//!
//! A listener with an interest is called through [`Listener::on_judged`](crate::Listener::on_judged), for the changes that its
//! [`Judge`] has a verdict for. Listeners whose interests are equal share one verdict. Invariant, which the listener
//! must keep: of a change with objects, the judge has a verdict only if one of the objects, old or new, meets all
//! bounds. A deletion of which only the key is known is always judged.

use std::any::Any;
use std::sync::Arc;

use pilothouse_object::{FieldSelector, LabelSelector};

use crate::notification::{Notification, Verdict};

/// Largest number of requirements of one bound: manifests choose the number, and each takes memory in the informer.
const MOST_REQUIREMENTS: usize = 1_000;

/// A property of an object that can be looked up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Requirement<T = Box<str>> {
    /// It has this key, `namespace/name` or `name`.
    Key(T),
    /// It has this name.
    Name(T),
    /// It is in this namespace; empty for a cluster-scoped object.
    Namespace(T),
    /// It has a label of this name with this value.
    Label(T, T),
    /// It has a label of this name.
    HasLabel(T),
    /// The field at this dotted path has this value, as field selectors compare it.
    Field(T, T),
}

/// Decides what a change is to listeners.
pub trait Judge: Any + Send + Sync {
    /// What the change is to a listener; none if nothing. Must not block.
    fn judge(&self, notification: &Notification<'_>) -> Option<Verdict>;

    /// Whether another judge has the same verdict on every change.
    fn is_equal(&self, other: &dyn Judge) -> bool;
}

/// What a listener can take.
#[derive(Clone)]
pub struct Interest {
    /// Of each bound an object must meet one requirement. In the order of preference; the requirements are sorted.
    pub(crate) bounds: Vec<Vec<Requirement>>,
    pub(crate) judge: Arc<dyn Judge>,
}

impl Interest {
    /// The changes that the judge has a verdict for.
    #[must_use]
    pub fn new(judge: impl Judge) -> Self {
        Self { bounds: Vec::new(), judge: Arc::new(judge) }
    }

    /// Only changes of objects that meet one of these requirements. Of several bounds the informer looks up one; the first
    /// ones are preferred. A bound of more than a thousand requirements is left to the judge.
    #[must_use]
    pub fn within(mut self, any_of: impl IntoIterator<Item = Requirement>) -> Self {
        let mut any_of: Vec<Requirement> = any_of.into_iter().take(MOST_REQUIREMENTS + 1).collect();
        if any_of.len() > MOST_REQUIREMENTS {
            return self;
        }
        any_of.sort_unstable();
        any_of.dedup();
        self.bounds.push(any_of);
        self
    }

    /// Only changes of objects that can match a label selector.
    #[must_use]
    pub fn with_labels(self, selector: &LabelSelector) -> Self {
        selector.required().fold(self, |interest, (name, values)| match values {
            Some(values) => interest
                .within(values.iter().map(|value| Requirement::Label(name.into(), value.as_str().into()))),
            None => interest.within([Requirement::HasLabel(name.into())]),
        })
    }

    /// Only changes of objects that can match a field selector.
    #[must_use]
    pub fn with_fields(self, selector: &FieldSelector) -> Self {
        let equal = selector.requirements().filter(|(_, equal, _)| *equal);
        equal.fold(self, |interest, (path, _, value)| {
            interest.within([Requirement::Field(path.into(), value.into())])
        })
    }
}

impl PartialEq for Interest {
    fn eq(&self, other: &Self) -> bool {
        self.bounds == other.bounds && self.judge.is_equal(&*other.judge)
    }
}

impl std::fmt::Debug for Interest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interest").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}
