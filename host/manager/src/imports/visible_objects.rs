//! [`VisibleObjects`]: the objects of a cached list or look-up that the plugin may see, read lazily from one snapshot.
//!
//! Invariant: every object that it hands out is one that the plugin's grants let it see. Nothing is copied beforehand; the
//! snapshot is held until the cursor is dropped, at the latest when the guest's call ends.

use std::ops::ControlFlow;
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
    shown: Shown,
}

/// Which objects are shown.
struct Shown {
    selector: LabelSelector,
    seen: Visibility,
    /// Only objects of this namespace.
    namespace: Option<Box<str>>,
}

impl Shown {
    /// Whether all objects are shown that no other cursor has.
    fn has_all(&self) -> bool {
        self.selector.is_empty() && self.namespace.is_none() && self.seen.sees_all()
    }

    /// Whether an object is visible and of those that were asked for, and was not shown by another cursor. Keys and labels
    /// lie beside the body, which is not unpacked for this.
    fn has(&self, before: &[InformerId], object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| object.namespace() == Some(namespace))
            && self.seen.sees(object.key())
            && !before.iter().any(|id| id.covers(object.key()))
            && (self.selector.is_empty() || self.selector.matches(object))
    }
}

impl VisibleObjects {
    pub(crate) fn new(
        mut cursors: Vec<ShownCursor>,
        selector: LabelSelector,
        seen: Visibility,
        namespace: Option<&str>,
    ) -> Self {
        cursors.reverse();
        Self { cursors, shown: Shown { selector, seen, namespace: namespace.map(Box::from) } }
    }
}

impl ObjectCursor for VisibleObjects {
    fn visit(&mut self, visit: &mut dyn FnMut(Option<Object>) -> ControlFlow<()>) {
        while let Some((cursor, before)) = self.cursors.last_mut() {
            for object in cursor {
                let is_shown = self.shown.has(before, &object);
                if visit(is_shown.then_some(object)).is_break() {
                    return;
                }
            }
            self.cursors.pop();
        }
    }

    fn remaining(&self, look: &mut dyn FnMut() -> ControlFlow<()>) -> Option<usize> {
        let mut remaining = 0;
        for (cursor, before) in &self.cursors {
            if self.shown.has_all() && before.is_empty() {
                remaining += cursor.at_most();
                continue;
            }
            for object in cursor.clone() {
                remaining += usize::from(self.shown.has(before, &object));
                if look().is_break() {
                    return None;
                }
            }
        }
        Some(remaining)
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

    fn next(objects: &mut VisibleObjects) -> Option<Object> {
        let mut next = None;
        objects.visit(&mut |object| {
            next = object;
            if next.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        next
    }

    fn all(mut objects: VisibleObjects) -> Vec<Object> {
        std::iter::from_fn(|| next(&mut objects)).collect()
    }

    fn remaining(objects: &VisibleObjects) -> usize {
        objects.remaining(&mut || ControlFlow::Continue(())).unwrap()
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
                assert_eq!(remaining(&objects), wanted - taken, "{namespaces:?} {selector:?}");
                let object = next(&mut objects).unwrap();
                assert!(
                    namespaces == ["*"] || namespaces.contains(&object.namespace().unwrap()),
                    "{object:?}"
                );
            }
            assert_eq!((next(&mut objects).map(|o| o.key().clone()), remaining(&objects)), (None, 0));
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
        assert_eq!(remaining(&objects), 30);
        let keys: Vec<_> = all(objects).iter().map(|object| object.key().clone()).collect();
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
        assert_eq!((remaining(&objects), all(objects).len()), (30, 30));
    }
}
