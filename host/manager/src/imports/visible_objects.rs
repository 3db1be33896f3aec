//! [`VisibleObjects`]: the objects of a cached list or look-up that the plugin may see, read lazily from one snapshot.
//!
//! Invariant: every object that it hands out is one that the plugin's grants let it see. Nothing is copied beforehand; the
//! snapshot is held until the cursor is dropped, at the latest when the guest's call ends.

use std::sync::Arc;

use pilothouse_cache::{Cursor, InformerId};
use pilothouse_engine::ObjectCursor;
use pilothouse_object::{LabelSelector, Object};
use pilothouse_plugin::Visibility;

/// A cursor, and the informers whose cursors before it show the objects that they have too.
pub(crate) type ShownCursor = (Cursor, Arc<[InformerId]>);

/// The objects of some cursors that a plugin may see.
pub(crate) struct VisibleObjects {
    /// The cursors that are left, the next one last.
    cursors: Vec<ShownCursor>,
    /// Whether the cursors leave out objects by their labels or namespace.
    selects: bool,
    seen: Visibility,
    /// Only objects of this namespace.
    namespace: Option<Box<str>>,
}

impl VisibleObjects {
    pub(crate) fn new(
        cursors: Vec<ShownCursor>,
        selector: LabelSelector,
        seen: Visibility,
        namespace: Option<&str>,
    ) -> Self {
        let selects = !selector.is_empty() || namespace.is_some();
        let selected = cursors.into_iter().rev();
        let cursors = selected.map(|(cursor, before)| (cursor.select(selector.clone()), before)).collect();
        Self { selects, cursors, seen, namespace: namespace.map(Box::from) }
    }
}

/// Whether an object is visible and of the namespace that was asked for, and was not shown by another cursor.
fn is_shown(seen: &Visibility, namespace: Option<&str>, before: &[InformerId], object: &Object) -> bool {
    namespace.is_none_or(|namespace| object.namespace() == Some(namespace))
        && seen.sees(object.key())
        && !before.iter().any(|id| id.covers(object.key()))
}

impl Iterator for VisibleObjects {
    type Item = Object;

    fn next(&mut self) -> Option<Object> {
        let (seen, namespace) = (&self.seen, self.namespace.as_deref());
        loop {
            let (cursor, before) = self.cursors.last_mut()?;
            if let Some(object) = cursor.find(|object| is_shown(seen, namespace, before, object)) {
                return Some(object);
            }
            self.cursors.pop();
        }
    }
}

impl ObjectCursor for VisibleObjects {
    fn remaining(&self) -> usize {
        let count = |(cursor, before): &ShownCursor| {
            if !self.selects && self.seen.sees_all() && before.is_empty() {
                return cursor.at_most();
            }
            // Keys and labels lie beside the body, which is not unpacked for this.
            let namespace = self.namespace.as_deref();
            cursor.clone().filter(|object| is_shown(&self.seen, namespace, before, object)).count()
        };
        self.cursors.iter().map(count).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use pilothouse_cache::Indexer;
    use pilothouse_object::Gvr;
    use serde_json::json;

    use super::*;
    use pilothouse_plugin::{Grants, Rule};

    fn indexer() -> Indexer {
        let indexer = Indexer::new(true);
        for n in 0..30_u32 {
            let json = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "namespace": format!("n{}", n % 3), "name": format!("x{n}"), "resourceVersion": "1",
                    "labels": {"odd": (n % 2).to_string()},
                },
            });
            indexer.add(Object::decode(json.to_string().as_bytes()).unwrap());
        }
        indexer
    }

    fn seen(namespaces: &[&str]) -> Visibility {
        let rule: Rule = serde_json::from_value(json!({
            "groups": [""], "resources": ["configmaps"], "verbs": ["list"], "namespaces": namespaces,
        }))
        .unwrap();
        Grants::new(vec![rule]).visibility("list", "", "configmaps")
    }

    #[test]
    fn what_remains_is_exact_whatever_is_left_out() {
        let indexer = indexer();
        for (namespaces, selector, wanted) in [
            (&["*"][..], "", 30),
            (&["*"], "odd=1", 15),
            (&["n1"], "", 10),
            (&["n1"], "odd=1", 5),
            (&["n9"], "", 0),
        ] {
            let cursor = vec![(indexer.snapshot().cursor(), Arc::default())];
            let mut objects = VisibleObjects::new(cursor, selector.parse().unwrap(), seen(namespaces), None);
            for taken in 0..wanted {
                assert_eq!(objects.remaining(), wanted - taken, "{namespaces:?} {selector:?}");
                let object = objects.next().unwrap();
                assert!(
                    namespaces == ["*"] || namespaces.contains(&object.namespace().unwrap()),
                    "{object:?}"
                );
            }
            assert_eq!((objects.next().map(|o| o.key().clone()), objects.remaining()), (None, 0));
        }
    }

    /// As the informer of a name in all namespaces and that of a namespace may have the same object.
    #[test]
    fn an_object_of_two_informers_is_shown_once() {
        let indexer = indexer();
        let of_n1 = InformerId::new(Gvr::new("", "v1", "configmaps"), Some("n1"));
        let cursors = vec![
            (indexer.snapshot().cursor_of_namespace("n1"), Arc::default()),
            (indexer.snapshot().cursor(), Arc::new([of_n1]) as Arc<[_]>),
        ];
        let objects = VisibleObjects::new(cursors, LabelSelector::default(), seen(&["*"]), None);
        assert_eq!(objects.remaining(), 30);
        let keys: Vec<_> = objects.map(|object| object.key().clone()).collect();
        assert!(keys[..10].iter().all(|key| key.namespace() == Some("n1")), "{keys:?}");
        assert_eq!((keys.len(), keys.iter().collect::<HashSet<_>>().len()), (30, 30));
    }

    #[test]
    fn a_list_is_of_the_moment_it_was_asked_for() {
        let indexer = indexer();
        let cursor = vec![(indexer.snapshot().cursor(), Arc::default())];
        let objects = VisibleObjects::new(cursor, LabelSelector::default(), seen(&["*"]), None);
        for object in indexer.list() {
            indexer.delete(object.key());
        }
        assert_eq!((objects.remaining(), objects.count()), (30, 30));
    }
}
