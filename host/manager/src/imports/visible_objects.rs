//! [`VisibleObjects`]: the objects of a cached list or look-up that the plugin may see, read lazily from one snapshot.
//!
//! Invariant: every object that it hands out is one that the plugin's grants let it see. Nothing is copied beforehand; the
//! snapshot is held until the cursor is dropped, at the latest when the guest's call ends.

use pilothouse_cache::Cursor;
use pilothouse_engine::ObjectCursor;
use pilothouse_object::{LabelSelector, Object};
use pilothouse_plugin::Visibility;

/// The objects of a cursor that a plugin may see.
pub(crate) struct VisibleObjects {
    cursor: Cursor,
    /// Whether the cursor leaves out objects by their labels.
    selects: bool,
    seen: Visibility,
}

impl VisibleObjects {
    pub(crate) fn new(cursor: Cursor, selector: LabelSelector, seen: Visibility) -> Self {
        Self { selects: !selector.is_empty(), cursor: cursor.select(selector), seen }
    }
}

impl Iterator for VisibleObjects {
    type Item = Object;

    fn next(&mut self) -> Option<Object> {
        let seen = &self.seen;
        self.cursor.find(|object| seen.sees(object.key()))
    }
}

impl ObjectCursor for VisibleObjects {
    fn remaining(&self) -> usize {
        if !self.selects && self.seen.sees_all() {
            return self.cursor.at_most();
        }
        // Keys and labels lie beside the body, which is not unpacked for this.
        self.cursor.clone().filter(|object| self.seen.sees(object.key())).count()
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_cache::Indexer;
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
            let cursor = indexer.snapshot().cursor();
            let mut objects = VisibleObjects::new(cursor, selector.parse().unwrap(), seen(namespaces));
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

    #[test]
    fn a_list_is_of_the_moment_it_was_asked_for() {
        let indexer = indexer();
        let objects =
            VisibleObjects::new(indexer.snapshot().cursor(), LabelSelector::default(), seen(&["*"]));
        for object in indexer.list() {
            indexer.delete(object.key());
        }
        assert_eq!((objects.remaining(), objects.count()), (30, 30));
    }
}
