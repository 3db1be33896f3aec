//! Mappers with a queue of their own, called as an informer calls them.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_workqueue::Queue;
use prometheus_client::metrics::gauge::Gauge;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::dispatch::mapping::Filter;
use crate::observe::host_events::HostEvents;
use crate::observe::metrics::PluginMetrics;
use pilothouse_plugin::{Grants, Rule, Visibility};

/// A mapper of pods with these labels, and its queue.
fn mapper(labels: &str, map: KeyMap, open: bool) -> (Mapper, Queue<ObjectKey, Reasons>) {
    limited(labels, map, open, 1_000)
}

fn limited(labels: &str, map: KeyMap, open: bool, most: usize) -> (Mapper, Queue<ObjectKey, Reasons>) {
    let filter = Filter {
        visible: visibility(&["*"], &[]),
        rights: Default::default(),
        namespaces: Vec::new(),
        labels: labels.parse().unwrap(),
        fields: pilothouse_object::FieldSelector::default(),
        elsewhere: Arc::default(),
    };
    selecting(Selection { filter, predicates: Vec::new() }, map, open, most)
}

/// The pods in these namespaces, and with these names if there are any.
pub(super) fn visibility(namespaces: &[&str], names: &[&str]) -> Visibility {
    let rule = Rule {
        groups: vec![String::new()],
        resources: vec!["pods".into()],
        verbs: vec!["watch".into()],
        namespaces: namespaces.iter().map(|&name| name.to_owned()).collect(),
        names: names.iter().map(|&name| name.to_owned()).collect(),
    };
    Grants::new(vec![rule]).visibility("watch", "", "pods")
}

pub(super) fn selecting(
    selection: Selection,
    map: KeyMap,
    open: bool,
    most: usize,
) -> (Mapper, Queue<ObjectKey, Reasons>) {
    let queue: Queue<ObjectKey, Reasons> = Queue::new();
    let name = Arc::from("p");
    let reporter = Arc::new(HostEvents::default().of(Arc::clone(&name)));
    let warnings = Arc::new(Warnings::new(Arc::clone(&name), reporter, PluginMetrics::of_test()));
    let gate = if open {
        LeadershipGate::opened(&name, &queue)
    } else {
        LeadershipGate::closed(&name, &queue, Gauge::default())
    };
    let mapper = Mapper {
        gate: Arc::new(gate),
        selection,
        maps: vec![Mapping { map, namespaced_owner: true }],
        sweeps: OnceLock::new(),
        bound: KeyBound { most, subject: "watch of v1/Pod".to_owned(), warnings },
    };
    (mapper, queue)
}

fn pod(name: &str, app: &str, tier: &str, version: usize) -> Object {
    let json = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "ns", "name": name, "uid": name, "resourceVersion": version.to_string(),
            "labels": {"app": app, "tier": tier},
        },
    });
    Object::decode(json.to_string().as_bytes()).unwrap()
}

pub(super) fn drain(queue: &Queue<ObjectKey, Reasons>) -> BTreeMap<String, (Vec<&'static str>, Priority)> {
    let mut drained = BTreeMap::new();
    while let Some(item) = queue.try_get() {
        drained.insert(item.key.to_string(), (item.payload.of_contract().names().collect(), item.priority));
        queue.done(item);
    }
    drained
}

fn by_app() -> KeyMap {
    KeyMap::Label { name: "app".into(), same_namespace: true }
}

#[test]
fn the_failures_of_an_object_go_with_it() {
    let (mapper, queue) = mapper("", KeyMap::Itself, true);
    let key: ObjectKey = "ns/p".parse().unwrap();
    for _ in 0..3 {
        queue.add_rate_limited(key.clone(), Reasons::ASKED, Priority::NORMAL);
    }
    assert_eq!(queue.num_requeues(&key), 3);
    mapper.on_delete(&key, None, true);
    assert_eq!(queue.num_requeues(&key), 0);
    let item = queue.try_get().expect("the deletion is told");
    let reasons: Vec<_> = item.payload.of_contract().names().collect();
    assert_eq!((item.key, reasons, item.priority), (key, vec!["deleted", "requeued"], Priority::NORMAL));
    assert_eq!(queue.len_delayed(), 0, "one run for the deletion and the retry");
}

#[test]
fn an_update_adds_the_keys_of_the_old_and_the_new_state() {
    let (mapper, queue) = mapper("", by_app(), true);
    mapper.on_update(&pod("x", "a", "", 1), &pod("x", "b", "", 2), false);
    let owned = || (vec!["owned"], Priority::NORMAL);
    assert_eq!(drain(&queue), [("ns/a".to_owned(), owned()), ("ns/b".to_owned(), owned())].into());
}

#[test]
fn a_standby_adds_nothing_until_its_term_begins_and_then_what_went_and_what_is_there() {
    let (mapper, queue) = mapper("tier=web", KeyMap::Itself, false);
    let there = pod("there", "a", "web", 1);
    mapper.on_add(&there, true);
    mapper.on_add(&pod("goes", "a", "web", 2), false);
    mapper.on_delete(&"ns/goes".parse().unwrap(), Some(&pod("goes", "a", "web", 3)), false);
    mapper.on_update(&pod("leaves", "a", "web", 4), &pod("leaves", "a", "db", 5), false);
    mapper.on_update(&there, &there, true);
    mapper.on_delete(&"ns/unseen".parse().unwrap(), Some(&pod("unseen", "a", "db", 6)), false);
    assert_eq!(drain(&queue), BTreeMap::new());
    assert_eq!(mapper.gate.open(), Some(2));
    assert_eq!(mapper.queue_all([there, pod("leaves", "a", "db", 5)].into_iter(), Reasons::ADDED), 1);
    let wanted = [
        ("ns/goes", "deleted", Priority::NORMAL),
        ("ns/leaves", "deleted", Priority::NORMAL),
        ("ns/there", "added", Priority::LOW),
    ];
    let wanted = wanted.map(|(key, reason, priority)| (key.to_owned(), (vec![reason], priority)));
    assert_eq!(drain(&queue), wanted.into());
}

#[test]
fn a_key_of_a_cached_object_that_waits_for_its_time_runs_once() {
    let (mapper, queue) = mapper("", KeyMap::Itself, true);
    queue.add_after(
        "ns/x".parse().unwrap(),
        Reasons::ASKED,
        Priority::NORMAL,
        std::time::Duration::from_secs(60),
    );
    assert_eq!(queue.len_delayed(), 1);
    mapper.queue_all([pod("x", "a", "", 1)].into_iter(), Reasons::ADDED);
    assert_eq!(drain(&queue), [("ns/x".to_owned(), (vec!["added", "requeued"], Priority::NORMAL))].into());
    assert_eq!(queue.len_delayed(), 0);
}

fn with_refs(count: usize, from: usize) -> Object {
    let refs: Vec<String> = (from..from + count).map(|n| format!("k{n}")).collect();
    let json = json!({
        "apiVersion": "v1", "kind": "Pod", "spec": {"refs": refs},
        "metadata": {"namespace": "ns", "name": "x", "uid": "x", "resourceVersion": from.to_string()},
    });
    Object::decode(json.to_string().as_bytes()).unwrap()
}

fn by_refs() -> KeyMap {
    KeyMap::Field { path: "/spec/refs/[*]".parse().unwrap(), same_namespace: true }
}

/// On both sides of the number above which a set compares.
#[test]
fn an_update_of_many_keys_adds_each_of_both_states_once() {
    for count in [MOST_SCANNED, MOST_SCANNED + 1, 900] {
        let (mapper, queue) = mapper("", by_refs(), true);
        mapper.on_update(&with_refs(count, 0), &with_refs(count, 10), false);
        let keys: BTreeSet<String> = drain(&queue).into_keys().collect();
        assert_eq!(keys, (0..count + 10).map(|n| format!("ns/k{n}")).collect(), "{count}");
    }
}

#[test]
fn an_object_maps_to_a_bounded_number_of_keys_and_a_warning_says_so() {
    let (mapper, queue) = limited("", by_refs(), true, 50);
    mapper.on_add(&with_refs(50, 0), false);
    assert_eq!((drain(&queue).len(), mapper.bound.warnings.texts()), (50, vec![]));
    mapper.on_add(&with_refs(100_000, 0), false);
    assert_eq!(drain(&queue).len(), 50);
    let warned = mapper.bound.warnings.texts().join("");
    assert!(warned.contains("watch of v1/Pod: object ns/x exceeds limits.mappedKeys (50)"), "{warned}");
}

#[test]
fn a_standby_remembers_the_keys_that_an_object_has_no_longer() {
    let (mapper, queue) = mapper("", by_app(), false);
    mapper.on_update(&pod("x", "a", "", 1), &pod("x", "b", "", 2), false);
    assert_eq!(mapper.gate.open(), Some(1));
    assert_eq!(drain(&queue), [("ns/a".to_owned(), (vec!["owned"], Priority::NORMAL))].into());
}

proptest! {
    /// Beside a mapper that adds all the time: whatever that one adds is added by the one that stands by at first, when
    /// its term begins, unless two turns came in between; and nothing before.
    #[test]
    fn whatever_changed_or_went_lately_is_added_when_the_term_begins(
        steps in prop::collection::vec((0_usize..5, 0_usize..9, 0_usize..3, any::<bool>()), 1..60),
        begins in 0_usize..60,
        itself: bool,
    ) {
        let map = || if itself { KeyMap::Itself } else { by_app() };
        let (always, all) = mapper("tier=web", map(), true);
        let (standby, queue) = mapper("tier=web", map(), false);
        let mut cache: BTreeMap<String, Object> = BTreeMap::new();
        let (mut young, mut old) = (BTreeSet::new(), BTreeSet::new());
        let mut begun = false;
        for (version, (number, action, app, web)) in steps.iter().enumerate() {
            let name = format!("x{number}");
            let new = pod(&name, ["a", "b", "c"][*app], if *web { "web" } else { "db" }, version);
            let tell = |change: &dyn Fn(&Mapper)| [&always, &standby].into_iter().for_each(change);
            if begins == version {
                standby.gate.open();
                standby.queue_all(cache.values().cloned(), Reasons::ADDED);
                begun = true;
            }
            match (action, cache.get(&name).cloned()) {
                (0, _) => {
                    standby.gate.rotate();
                    // What is still there is found whenever it changed.
                    old = std::mem::take(&mut young);
                }
                (1..4, Some(held)) => {
                    cache.remove(&name);
                    tell(&|mapper| mapper.on_delete(held.key(), Some(&held), false));
                }
                (_, Some(held)) => {
                    cache.insert(name, new.clone());
                    tell(&|mapper| mapper.on_update(&held, &new, false));
                }
                (_, None) => {
                    cache.insert(name, new.clone());
                    tell(&|mapper| mapper.on_add(&new, false));
                }
            }
            young.extend(drain(&all).into_keys());
            prop_assert!(begun || queue.is_empty());
        }
        if !begun {
            standby.gate.open();
            standby.queue_all(cache.values().cloned(), Reasons::ADDED);
        }
        let added: BTreeSet<String> = drain(&queue).into_keys().collect();
        // Turns after the begin change nothing.
        let lately: BTreeSet<String> = young.union(&old).cloned().collect();
        prop_assert!(lately.is_subset(&added), "{lately:?} are not all in {added:?}");
        let visible: Vec<_> = cache.values().filter(|object| standby.selection.filter.shows(object)).cloned().collect();
        let (fresh, there) = mapper("", map(), true);
        fresh.queue_all(visible.into_iter(), Reasons::ADDED);
        prop_assert!(drain(&there).into_keys().all(|key| added.contains(&key)));
    }
}
