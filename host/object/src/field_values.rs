//! [`FieldValues`]: what filters, predicates and mappings read of one object, each value read once.
//!
//! An event may have a thousand readers that ask for the same few fields, and finding a field scans the JSON of the object.
//! Invariant: a value is what [`Object`] or [`FieldSelector`](crate::FieldSelector) finds for the same question. Listeners of
//! an informer share the values of one change.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

use foldhash::fast::RandomState;

use crate::field_selector;
use crate::object::{Object, OwnerReference};
use crate::pointer::Pointer;

/// An object, and the values that have been read of it.
pub struct FieldValues<'a> {
    object: &'a Object,
    selected: RefCell<HashMap<Pointer, Rc<[&'a str]>, RandomState>>,
    fields: RefCell<HashMap<Box<str>, Cow<'a, str>, RandomState>>,
    owners: OnceCell<Vec<OwnerReference<'a>>>,
}

impl<'a> FieldValues<'a> {
    /// The object, of which nothing has been read.
    #[must_use]
    pub fn new(object: &'a Object) -> Self {
        Self { object, selected: RefCell::default(), fields: RefCell::default(), owners: OnceCell::new() }
    }

    /// The object.
    #[must_use]
    pub fn object(&self) -> &'a Object {
        self.object
    }

    /// The JSON text of every value that `pointer` selects, in document order.
    #[must_use]
    pub fn select(&self, pointer: &Pointer) -> Rc<[&'a str]> {
        once(&self.selected, pointer, Pointer::clone, || {
            let mut values = Vec::new();
            self.object.select(pointer, |value| values.push(value));
            values.into()
        })
    }

    /// The value of a field, as field selectors compare it; `path` is dotted, as in `spec.nodeName`.
    #[must_use]
    pub fn field(&self, path: &str) -> Cow<'a, str> {
        once(&self.fields, path, |path| path.into(), || field_selector::field(self.object, path))
    }

    /// All owner references, as [`Object::owner_references`] has them.
    #[must_use]
    pub fn owner_references(&self) -> &[OwnerReference<'a>] {
        self.owners.get_or_init(|| self.object.owner_references())
    }
}

/// The value of a key, which is computed if it is not there.
fn once<K: Hash + Eq + std::borrow::Borrow<Q>, Q: Hash + Eq + ?Sized, V: Clone>(
    values: &RefCell<HashMap<K, V, RandomState>>,
    key: &Q,
    owned: impl FnOnce(&Q) -> K,
    compute: impl FnOnce() -> V,
) -> V {
    if let Some(value) = values.borrow().get(key) {
        return value.clone();
    }
    let value = compute();
    values.borrow_mut().insert(owned(key), value.clone());
    value
}

impl std::fmt::Debug for FieldValues<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FieldValues").field(self.object).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FieldSelector;

    #[test]
    fn values_are_those_of_the_object_and_each_is_read_once() {
        let json = r#"{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a","namespace":"n","ownerReferences":[
            {"apiVersion":"v1","kind":"Node","name":"o","uid":"1"}]},"spec":{"list":["x","y"],"text":"a\"b"}}"#;
        let object = Object::decode(json.as_bytes()).unwrap();
        let values = FieldValues::new(&object);
        let list: Pointer = "/spec/list/[*]".parse().unwrap();
        let first = values.select(&list);
        assert_eq!(*first, [r#""x""#, r#""y""#]);
        assert!(Rc::ptr_eq(&first, &values.select(&list)));
        assert_eq!(*values.select(&"/spec/none".parse().unwrap()), [""; 0]);
        // One that the server derives, an escaped one and the key.
        for (path, value) in
            [("status.successful", "0"), ("spec.text", "a\"b"), ("metadata.name", "a"), ("spec.none", "")]
        {
            assert_eq!((&*values.field(path), &*values.field(path)), (value, value), "{path}");
        }
        assert_eq!(values.owner_references(), object.owner_references());
        for (text, matches) in [("spec.text=a\"b,metadata.namespace=n", true), ("spec.text!=a\"b", false)] {
            let selector: FieldSelector = text.parse().unwrap();
            assert_eq!(
                (selector.matches_values(&values), selector.matches(&object)),
                (matches, matches),
                "{text}"
            );
        }
    }
}
