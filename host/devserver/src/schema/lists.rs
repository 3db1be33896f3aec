//! The elements of sets, and of lists with keys: no two may be the same.

use std::collections::HashMap;

use serde_json::Value;

use super::budget::Budget;
use super::causes::{Causes, Path, duplicate, invalid};
use super::types::{Entries, ListKind, Type, TypeId, Types};
use crate::api::JsonMap;

/// The values by which an element of a list with keys is known.
pub(super) type ElementKey<'a> = Vec<Option<&'a Value>>;

/// The key of an element; `None` once the budget is spent.
pub(super) fn element_key<'a>(
    keys: &[Box<str>],
    element: &'a Value,
    budget: &mut Budget,
) -> Option<ElementKey<'a>> {
    let key: ElementKey<'a> = keys.iter().map(|key| element.get(&**key)).collect();
    let values = key.iter().all(|value| value.is_none_or(|value| budget.spend_value(value)));
    (values && budget.spend(keys.len() as u64)).then_some(key)
}

/// Whether elements of sets and of lists with keys are unique, and elements of the latter are objects.
pub(super) fn check_lists(types: &Types, root: TypeId, object: &JsonMap, budget: &mut Budget) -> Causes {
    let mut walk = ListWalk { types, path: Path::default(), causes: Causes::default(), budget };
    walk.object(types.get(root), object);
    walk.causes
}

struct ListWalk<'a> {
    types: &'a Types,
    path: Path,
    causes: Causes,
    budget: &'a mut Budget,
}

impl<'a> ListWalk<'a> {
    fn value(&mut self, value_type: &'a Type, value: &Value) {
        match value {
            _ if self.causes.is_full() || !self.budget.spend(1) => {}
            Value::Object(object) => self.object(value_type, object),
            Value::Array(list) => {
                match &value_type.list {
                    ListKind::Atomic => {}
                    ListKind::Set => self.unique(list),
                    ListKind::Map(keys) => self.unique_keys(keys, list),
                }
                let Some(items) = value_type.items.map(|items| self.types.get(items)) else { return };
                for (index, element) in list.iter().enumerate() {
                    let mark = self.path.index(index);
                    self.value(items, element);
                    self.path.back(&mark);
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, object_type: &'a Type, object: &JsonMap) {
        for (name, value) in object {
            let (known, mark) = match (object_type.fields.get(name.as_str()), object_type.entries) {
                (Some(field), _) => (field.value_type, self.path.field(name)),
                (None, Entries::Of(entry)) => (entry, self.path.key(name)),
                _ => continue,
            };
            self.value(self.types.get(known), value);
            self.path.back(&mark);
        }
    }

    /// Blames the second of equal elements, and no further ones.
    fn unique(&mut self, list: &[Value]) {
        let mut seen: HashMap<&Value, usize> = HashMap::new();
        for (index, element) in list.iter().enumerate() {
            if self.causes.is_full() || !self.budget.spend_value(element) {
                return;
            }
            let times = seen.entry(element).or_default();
            *times += 1;
            if *times == 2 {
                self.blame(index, |path| duplicate(path, element));
            }
        }
    }

    fn unique_keys(&mut self, keys: &[Box<str>], list: &[Value]) {
        if let Some(index) = list.iter().position(|element| !(element.is_object() || element.is_null())) {
            let detail = "must be an object for an array of list-type map";
            self.blame(index, |path| invalid(path, &list[index], detail));
            return;
        }
        let mut seen: HashMap<ElementKey<'_>, usize> = HashMap::new();
        for (index, element) in list.iter().enumerate() {
            if self.causes.is_full() {
                return;
            }
            let Some(key) = element_key(keys, element, self.budget) else { return };
            let times = seen.entry(key).or_default();
            *times += 1;
            if *times == 2 {
                let present =
                    keys.iter().filter_map(|key| Some(((**key).to_owned(), element.get(&**key)?.clone())));
                let shown = Value::Object(present.collect());
                self.blame(index, |path| duplicate(path, &shown));
            }
        }
    }

    fn blame(&mut self, index: usize, cause: impl FnOnce(&str) -> crate::api::Cause) {
        let mark = self.path.index(index);
        self.causes.add(cause(self.path.as_str()));
        self.path.back(&mark);
    }
}
