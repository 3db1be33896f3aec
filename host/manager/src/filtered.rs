//! [`Filtered`]: a handler's filter, in front of its ring.
//!
//! It sees each single change, before the ring merges any: an object that goes out of view and is then deleted was deleted
//! for the handler when it went, whatever is left of the two in the ring.

use std::sync::Arc;

use pilothouse_cache::{Listener, Ring};
use pilothouse_object::{Object, ObjectKey};
use tokio::sync::watch;

use crate::mapping::{Filter, Seen};

/// Passes on to a ring what a watch may see.
pub(crate) struct Filtered {
    pub(crate) filter: Filter,
    pub(crate) ring: Arc<Ring>,
}

impl Listener for Filtered {
    fn on_add(&self, object: &Object, is_in_initial_list: bool) {
        if self.filter.shows(object) {
            self.ring.on_add(object, is_in_initial_list);
        }
    }

    fn on_update(&self, old: &Object, new: &Object, is_sync: bool) {
        match self.filter.update(old, new) {
            Seen::Nothing => {}
            Seen::Added => self.ring.on_add(new, false),
            Seen::Updated => self.ring.on_update(old, new, is_sync),
            Seen::Deleted => self.ring.on_delete(new.key(), Some(old), false),
        }
    }

    fn on_delete(&self, key: &ObjectKey, object: Option<&Object>, final_state_unknown: bool) {
        let shown = object.map_or_else(|| self.filter.shows_key(key), |object| self.filter.shows(object));
        if shown {
            self.ring.on_delete(key, object, final_state_unknown);
        }
    }

    fn on_initial_list_end(&self) {
        self.ring.on_initial_list_end();
    }

    fn synced(&self) -> Option<watch::Receiver<bool>> {
        self.ring.synced()
    }

    fn depth(&self) -> usize {
        self.ring.depth()
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_cache::{Event, Indexer, RingOptions};

    use super::*;
    use crate::grants::{Grants, Rule};

    fn pod(label: &str, version: u32) -> Object {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","namespace":"a","uid":"u",
            "resourceVersion":"{version}","labels":{{"app":"{label}"}}}}}}"#
        );
        Object::decode(json.as_bytes()).unwrap()
    }

    fn filtered() -> Filtered {
        let all = |text: &str| vec![text.to_owned()];
        let rule = Rule {
            groups: all(""),
            resources: all("pods"),
            verbs: all("*"),
            namespaces: all("*"),
            names: Vec::new(),
        };
        let filter = Filter {
            visible: Grants::new(vec![rule]).visibility("watch", "", "pods"),
            namespaces: Vec::new(),
            labels: "app=web".parse().unwrap(),
            fields: "".parse().unwrap(),
        };
        Filtered { filter, ring: Ring::new(Arc::new(Indexer::new(true)), RingOptions::default()) }
    }

    #[test]
    fn an_object_that_goes_out_of_view_and_is_then_deleted_is_told_as_deleted() {
        let filtered = filtered();
        filtered.on_add(&pod("web", 1), true);
        drop(filtered.ring.try_next_batch(9));
        filtered.on_update(&pod("web", 1), &pod("db", 2), false);
        filtered.on_delete(pod("db", 3).key(), Some(&pod("db", 3)), false);
        let batch = filtered.ring.try_next_batch(9).unwrap();
        assert!(
            matches!(&batch[..], [Event::Deleted { object: Some(object), .. }] if object.resource_version() == "1")
        );
    }

    #[test]
    fn what_was_never_in_view_is_not_told() {
        let filtered = filtered();
        filtered.on_add(&pod("db", 1), true);
        filtered.on_update(&pod("db", 1), &pod("db", 2), false);
        filtered.on_delete(pod("db", 2).key(), Some(&pod("db", 2)), false);
        assert!(filtered.ring.try_next_batch(9).is_none());
    }
}
