//! [`RequirementIndex`]: finds the groups of listeners whose bound an object meets, with a few lookups for each object, however
//! many groups there are.
//!
//! Invariants: no list of groups is empty; `labels` and `fields` count the requirements of the table.

use hashbrown::{Equivalent, HashMap};
use pilothouse_object::{FieldValues, Object, ObjectKey};

use crate::interest::Requirement;
use crate::notification::Notification;

/// Reading a field of each object costs as much as the judgements of so many groups.
const COST_OF_FIELD: usize = 16;

/// Groups by the requirements of one of their bounds.
#[derive(Default)]
pub(super) struct RequirementIndex {
    groups: HashMap<Requirement, Vec<u64>>,
    /// Required labels: without any, those of objects are not read.
    labels: usize,
    /// Different values required of each field.
    fields: HashMap<Box<str>, usize>,
}

impl Equivalent<Requirement> for Requirement<&str> {
    fn equivalent(&self, other: &Requirement) -> bool {
        match (self, other) {
            (Self::Key(a), Requirement::Key(b))
            | (Self::Name(a), Requirement::Name(b))
            | (Self::Namespace(a), Requirement::Namespace(b))
            | (Self::HasLabel(a), Requirement::HasLabel(b)) => **a == **b,
            (Self::Label(name, a), Requirement::Label(other, b))
            | (Self::Field(name, a), Requirement::Field(other, b)) => **name == **other && **a == **b,
            _ => false,
        }
    }
}

impl RequirementIndex {
    /// The bound under which a group is found at the least cost; the first one of several.
    pub(super) fn cheapest(&self, bounds: &[Vec<Requirement>]) -> Option<usize> {
        let cost = |requirement: &Requirement| {
            let others = self.groups.get(requirement).map_or(0, Vec::len);
            others + if matches!(requirement, Requirement::Field(..)) { COST_OF_FIELD } else { 0 }
        };
        let cost_of = |at: &usize| bounds[*at].iter().map(cost).max().unwrap_or(0);
        (0..bounds.len()).min_by_key(cost_of)
    }

    /// From now on a group is found under each of these requirements.
    pub(super) fn insert(&mut self, any_of: &[Requirement], group: u64) {
        for requirement in any_of {
            if let Some(groups) = self.groups.get_mut(requirement) {
                groups.push(group);
                continue;
            }
            self.groups.insert(requirement.clone(), vec![group]);
            match requirement {
                Requirement::Label(..) | Requirement::HasLabel(_) => self.labels += 1,
                Requirement::Field(path, _) => *self.fields.entry(path.clone()).or_default() += 1,
                _ => {}
            }
        }
    }

    /// Takes back what [`insert`](Self::insert) did with the same arguments.
    pub(super) fn remove(&mut self, any_of: &[Requirement], group: u64) {
        for requirement in any_of {
            let Some(groups) = self.groups.get_mut(requirement) else { continue };
            groups.retain(|other| *other != group);
            if !groups.is_empty() {
                continue;
            }
            self.groups.remove(requirement);
            match requirement {
                Requirement::Label(..) | Requirement::HasLabel(_) => self.labels -= 1,
                Requirement::Field(path, _) => self.remove_field(path),
                _ => {}
            }
        }
    }

    fn remove_field(&mut self, path: &str) {
        if let Some(values) = self.fields.get_mut(path) {
            *values -= 1;
            if *values == 0 {
                self.fields.remove(path);
            }
        }
    }

    /// Adds the groups whose bound one of the objects of a change meets; a group may be added twice.
    pub(super) fn find(&self, notification: &Notification<'_>, found: &mut Vec<u64>) {
        let (object, before) = match notification {
            Notification::Added { object, .. } => (object, None),
            Notification::Updated { old, new, .. } => (new, Some(old)),
            Notification::Deleted { object: Some(object), .. } => (object, None),
            Notification::Deleted { object: None, .. } => return,
        };
        self.find_key(notification.key(), found);
        self.find_labels(object.object(), found);
        if let Some(before) = before
            && self.labels > 0
            && !before.object().same_labels(object.object())
        {
            self.find_labels(before.object(), found);
        }
        for values in [Some(object), before].into_iter().flatten() {
            self.find_fields(values, found);
        }
    }

    fn find_key(&self, key: &ObjectKey, found: &mut Vec<u64>) {
        self.look_up(&Requirement::Key(key.as_str()), found);
        self.look_up(&Requirement::Name(key.name()), found);
        self.look_up(&Requirement::Namespace(key.namespace().unwrap_or_default()), found);
    }

    fn find_labels(&self, object: &Object, found: &mut Vec<u64>) {
        if self.labels > 0 {
            object.each_label(|name, value| {
                self.look_up(&Requirement::Label(name, value), found);
                self.look_up(&Requirement::HasLabel(name), found);
            });
        }
    }

    fn find_fields(&self, values: &FieldValues<'_>, found: &mut Vec<u64>) {
        for path in self.fields.keys() {
            self.look_up(&Requirement::Field(path, &values.field(path)), found);
        }
    }

    fn look_up(&self, requirement: &Requirement<&str>, found: &mut Vec<u64>) {
        found.extend(self.groups.get(requirement).into_iter().flatten());
    }
    /// Requirements in the index.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.groups.len() + self.labels + self.fields.len()
    }
}
