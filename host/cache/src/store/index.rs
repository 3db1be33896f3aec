//! One index: the values that objects have, and for each the slots of those that have it.

use std::sync::Arc;

use super::keyed::{HasKey, Keyed};
use super::slot_set::SlotSet;
use crate::index_fn::IndexFn;

/// Values and the slots that have them; no value without a slot.
#[derive(Clone, Default)]
pub(crate) struct Values(Keyed<Value>);

#[derive(Clone)]
struct Value {
    name: Arc<str>,
    slots: SlotSet,
}

impl HasKey for Value {
    fn key(&self) -> &str {
        &self.name
    }
}

impl Values {
    /// Notes that a slot has a value; the value's number.
    pub(super) fn insert(&mut self, name: impl AsRef<str> + Into<Arc<str>>, slot: u32) -> u32 {
        match self.0.find(name.as_ref()) {
            Some(value) => {
                if let Some(value) = self.0.get_mut(value) {
                    value.slots.insert(slot);
                }
                value
            }
            None => self.0.insert(Value { name: name.into(), slots: SlotSet::one(slot) }),
        }
    }

    /// Notes that a slot no longer has the value of a number.
    pub(super) fn remove(&mut self, value: u32, slot: u32) {
        let Some(entry) = self.0.get_mut(value) else { return };
        entry.slots.remove(slot);
        if entry.slots.len() == 0 {
            let name = entry.name.clone();
            self.0.remove(&name);
        }
    }

    pub(super) fn remove_by_name(&mut self, name: &str, slot: u32) {
        if let Some(value) = self.0.find(name) {
            self.remove(value, slot);
        }
    }

    pub(super) fn name(&self, value: u32) -> Option<&Arc<str>> {
        Some(&self.0.get(value)?.name)
    }

    pub(crate) fn slots(&self, name: &str) -> Option<&SlotSet> {
        Some(&self.0.get(self.0.find(name)?)?.slots)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().map(|(_, value)| &value.name)
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.0.check();
        assert!(self.0.iter().all(|(_, value)| value.slots.len() > 0));
        self.0.iter().map(|(_, value)| value.slots.len()).sum()
    }

    #[cfg(test)]
    pub(super) fn contains(&self, value: u32, slot: u32) -> bool {
        self.0.get(value).is_some_and(|value| value.slots.contains(slot))
    }
}

/// One index that users added.
#[derive(Clone)]
pub(crate) struct Index {
    pub(super) id: u32,
    pub(crate) name: Arc<str>,
    pub(super) function: IndexFn,
    /// Whether every object is in it. Until then writers keep it up and readers are refused.
    pub(crate) ready: bool,
    pub(crate) values: Values,
}

impl Index {
    /// How it gets its values.
    pub(crate) fn function(&self) -> &IndexFn {
        &self.function
    }
}
