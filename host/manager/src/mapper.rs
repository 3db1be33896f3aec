//! [`Mapper`]: the listener of a natively mapped watch; it turns each change into keys of the plugin's queue.
//!
//! It runs inside the informer's call, before the ring of a handler would coalesce anything: an object that moves from one
//! key to a second and a third must enqueue all three, and the queue itself keeps one entry a key, so nothing grows with
//! the number of changes (`docs/decisions/0002-native-mapping-before-the-ring.md`).

use pilothouse_cache::{EventFilter as _, Listener};
use pilothouse_object::{Object, ObjectKey};
use pilothouse_workqueue::{Priority, Queue};

use crate::describe::{KeyMap, Predicate};
use crate::mapping::{self, Filter, Seen};
use crate::reasons::Reasons;

/// Turns changes into keys.
pub(crate) struct Mapper {
    pub(crate) queue: Queue<ObjectKey, Reasons>,
    pub(crate) filter: Filter,
    pub(crate) predicates: Vec<Predicate>,
    pub(crate) map: KeyMap,
    pub(crate) namespaced_owner: bool,
    /// Why the keys of the initial list are reconciled; none when they are not.
    pub(crate) initial: Option<Reasons>,
}

impl Mapper {
    /// A change of an object itself has a reason of its own; one of an object that maps elsewhere is `owned` there.
    fn reason(&self, own: Reasons) -> Reasons {
        if matches!(self.map, KeyMap::Itself) { own } else { Reasons::OWNED }
    }

    fn add(&self, object: &Object, reason: Reasons, priority: Priority) {
        mapping::keys(&self.map, self.namespaced_owner, object, &mut |key| {
            self.queue.add_with(key, reason, priority);
        });
    }
}

impl Listener for Mapper {
    fn on_add(&self, object: &Object, is_in_initial_list: bool) {
        if !self.filter.shows(object) {
            return;
        }
        if !is_in_initial_list {
            self.add(object, self.reason(Reasons::ADDED), Priority::NORMAL);
        } else if let Some(reason) = self.initial {
            self.add(object, reason, Priority::LOW);
        }
    }

    fn on_update(&self, old: &Object, new: &Object, is_sync: bool) {
        if is_sync {
            if self.filter.shows(new) && self.predicates.iter().all(|p| p.passes(old, new)) {
                self.add(new, Reasons::RESYNC, Priority::LOW);
            }
            return;
        }
        let reason = match self.filter.update(old, new) {
            Seen::Nothing => return,
            Seen::Added => Reasons::ADDED,
            Seen::Deleted => Reasons::DELETED,
            Seen::Updated if self.predicates.iter().all(|p| p.passes(old, new)) => Reasons::UPDATED,
            Seen::Updated => return,
        };
        let reason = self.reason(reason);
        self.add(new, reason, Priority::NORMAL);
        if !matches!(self.map, KeyMap::Itself) {
            self.add(old, reason, Priority::NORMAL);
        }
    }

    fn on_delete(&self, key: &ObjectKey, object: Option<&Object>, _: bool) {
        let itself = matches!(self.map, KeyMap::Itself);
        // Without a last state only the key is sure.
        let seen = object.map_or(itself && self.filter.shows_key(key), |object| self.filter.shows(object));
        if !seen {
            return;
        }
        if itself {
            // Failures of an object that is gone say nothing about another of that name.
            self.queue.forget(key);
        }
        let reason = self.reason(Reasons::DELETED);
        match object {
            Some(object) => self.add(object, reason, Priority::NORMAL),
            None => self.queue.add_with(key.clone(), reason, Priority::NORMAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::{Grants, Rule};

    #[test]
    fn the_failures_of_an_object_go_with_it() {
        let queue: Queue<ObjectKey, Reasons> = Queue::new();
        let rule = Rule {
            groups: vec![String::new()],
            resources: vec!["pods".into()],
            verbs: vec!["watch".into()],
            namespaces: vec!["*".into()],
            names: Vec::new(),
        };
        let filter = Filter {
            visible: Grants::new(vec![rule]).visibility("watch", "", "pods"),
            namespaces: Vec::new(),
            labels: pilothouse_object::LabelSelector::default(),
            fields: pilothouse_object::FieldSelector::default(),
        };
        let mapper = Mapper {
            queue: queue.clone(),
            filter,
            predicates: Vec::new(),
            map: KeyMap::Itself,
            namespaced_owner: true,
            initial: None,
        };
        let key: ObjectKey = "ns/p".parse().unwrap();
        for _ in 0..3 {
            queue.add_rate_limited(key.clone(), Reasons::REQUEUED, Priority::NORMAL);
        }
        assert_eq!(queue.num_requeues(&key), 3);
        mapper.on_delete(&key, None, true);
        assert_eq!(queue.num_requeues(&key), 0);
        let item = queue.try_get().expect("the deletion is told");
        assert_eq!((item.key, item.payload, item.priority), (key, Reasons::DELETED, Priority::NORMAL));
    }
}
