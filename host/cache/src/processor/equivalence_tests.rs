//! An informer that looks listeners up calls them as one that offers each change to each listener, which judges for itself.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_object::{FieldSelector, FieldValues, LabelSelector, Object, ObjectKey};
use proptest::prelude::*;
use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::delta::Delta;
use crate::handlers::{EventFilter, FilteringResourceEventHandler};
use crate::indexer::Indexer;
use crate::interest::{Interest, Judge, Requirement};
use crate::listener::Listener;
use crate::testing::{config_maps, object};

/// Keys of objects; the last ones are cluster-scoped.
const KEYS: &[&str] = &["a/x", "a/y", "b/x", "b/y", "x", "z"];

const APPS: [&str; 3] = ["web", "db", "other"];

const NODES: [&str; 3] = ["n1", "n2", ""];

const NAMESPACES: &[&str] = &["a", "b", ""];

/// A filter with bounds of all kinds.
#[derive(Debug, Clone, PartialEq)]
struct Wanted {
    /// `None` for all; the empty one is that of cluster-scoped objects.
    namespaces: Option<Vec<&'static str>>,
    keys: Option<Vec<&'static str>>,
    name: Option<&'static str>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl EventFilter for Wanted {
    fn shows(&self, object: &Object) -> bool {
        self.shows_values(&FieldValues::new(object))
    }

    fn shows_values(&self, values: &FieldValues<'_>) -> bool {
        let object = values.object();
        self.shows_key(object.key()) && self.labels.matches(object) && self.fields.matches_values(values)
    }

    fn shows_key(&self, key: &ObjectKey) -> bool {
        let namespace = key.namespace().unwrap_or_default();
        self.namespaces.as_ref().is_none_or(|wanted| wanted.contains(&namespace))
            && self.keys.as_ref().is_none_or(|wanted| wanted.contains(&key.as_str()))
            && self.name.is_none_or(|wanted| wanted == key.name())
    }

    fn interest(&self) -> Option<Interest> {
        let mut interest = Interest::new(self.clone());
        if let Some(namespaces) = &self.namespaces {
            interest = interest.within(namespaces.iter().map(|&name| Requirement::Namespace(name.into())));
        }
        if let Some(keys) = &self.keys {
            interest = interest.within(keys.iter().map(|&key| Requirement::Key(key.into())));
        }
        if let Some(name) = self.name {
            interest = interest.within([Requirement::Name(name.into())]);
        }
        Some(interest.with_labels(&self.labels).with_fields(&self.fields))
    }
}

impl Judge for Wanted {
    fn judge(&self, notification: &Notification<'_>) -> Option<Verdict> {
        self.verdict(notification)
    }

    fn is_equal(&self, other: &dyn Judge) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }
}

/// What listeners were called for, in order: the number of the listener, and the call.
type Log = Arc<Mutex<Vec<(usize, String)>>>;

struct Noting {
    number: usize,
    log: Log,
}

impl Noting {
    fn note(&self, call: String) {
        self.log.lock().push((self.number, call));
    }
}

impl Listener for Noting {
    fn on_add(&self, object: &Object, initial: bool) {
        self.note(format!("add {} {} {initial}", object.key(), object.resource_version()));
    }

    fn on_update(&self, old: &Object, new: &Object, is_sync: bool) {
        let (old, version) = (old.resource_version(), new.resource_version());
        self.note(format!("update {} {old} {version} {is_sync}", new.key()));
    }

    fn on_delete(&self, key: &ObjectKey, object: Option<&Object>, unknown: bool) {
        self.note(format!("delete {key} {:?} {unknown}", object.map(Object::resource_version)));
    }

    fn on_initial_list_end(&self) {
        self.note("end of the initial list".to_owned());
    }
}

/// Hides the interest of a listener.
struct Offered(Arc<dyn Listener>);

impl Listener for Offered {
    fn on_add(&self, object: &Object, initial: bool) {
        self.0.on_add(object, initial);
    }

    fn on_update(&self, old: &Object, new: &Object, is_sync: bool) {
        self.0.on_update(old, new, is_sync);
    }

    fn on_delete(&self, key: &ObjectKey, object: Option<&Object>, unknown: bool) {
        self.0.on_delete(key, object, unknown);
    }

    fn on_initial_list_end(&self) {
        self.0.on_initial_list_end();
    }
}

/// A step of an informer.
#[derive(Debug, Clone)]
enum Step {
    /// Adds or changes an object.
    Set {
        key: usize,
        app: usize,
        tier: bool,
        node: usize,
    },
    /// An object comes again unchanged, outside of a resync.
    Again(usize),
    /// Deletes an object: `seen` by the server, with or without a last state.
    Delete {
        key: usize,
        seen: bool,
        last: bool,
    },
    /// A listener joins; without a filter it takes every change.
    Join {
        filter: Option<Wanted>,
        resyncs: bool,
    },
    /// One of the listeners leaves.
    Leave(usize),
    /// Calls listeners: for one slice, or until nothing is left.
    Distribute {
        all: bool,
    },
    Replay,
    EndInitialList,
    /// A resync of all objects, for those listeners whose number is divisible by this.
    Resync(u64),
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let labels = prop_oneof![
        4 => Just(""),
        1 => Just("app=web"),
        1 => Just("app in (web,db),tier"),
        1 => Just("app=db"),
        1 => Just("app!=web"),
        1 => Just("!tier"),
        1 => Just("tier,app notin (db)"),
    ];
    let fields = prop_oneof![
        4 => Just(""),
        1 => Just("data.node=n1"),
        1 => Just("data.node=n2,data.node!=n1"),
        1 => Just("data.node="),
        1 => Just("data.node!=n1"),
        1 => Just("metadata.name=x"),
    ];
    let keys = prop::option::weighted(0.2, prop::sample::subsequence(KEYS, 0..4));
    let namespaces = prop::option::weighted(0.4, prop::sample::subsequence(NAMESPACES, 0..3));
    let name = prop::option::weighted(0.2, prop::sample::select(vec!["x", "y"]));
    (namespaces, keys, name, labels, fields).prop_map(|(namespaces, keys, name, labels, fields)| Wanted {
        namespaces,
        keys,
        name,
        labels: labels.parse().unwrap(),
        fields: fields.parse().unwrap(),
    })
}

/// Steps; listeners are called for one slice in some of them if `partly`.
fn steps(partly: bool) -> impl Strategy<Value = Vec<Step>> {
    let key = 0..KEYS.len();
    let step = prop_oneof![
        6 => (key.clone(), 0_usize..3, any::<bool>(), 0_usize..3)
            .prop_map(|(key, app, tier, node)| Step::Set { key, app, tier, node }),
        1 => key.clone().prop_map(Step::Again),
        2 => (key, any::<bool>(), any::<bool>()).prop_map(|(key, seen, last)| Step::Delete { key, seen, last }),
        4 => (prop::option::weighted(0.9, wanted()), any::<bool>())
            .prop_map(|(filter, resyncs)| Step::Join { filter, resyncs }),
        1 => any::<usize>().prop_map(Step::Leave),
        3 => any::<bool>().prop_map(move |all| Step::Distribute { all: all || !partly }),
        2 => Just(Step::Replay),
        1 => Just(Step::EndInitialList),
        1 => (1_u64..4).prop_map(Step::Resync),
    ];
    prop::collection::vec(step, 1..80)
}

/// An informer of which each listener is looked up, or offered each change.
struct Informer {
    processor: Processor,
    is_indexed: bool,
    log: Log,
    delivered: Vec<watch::Receiver<bool>>,
}

impl Informer {
    fn new(is_indexed: bool, slice: Duration) -> Self {
        let processor = Processor { slice, ..Processor::new(config_maps().gvr(), None) };
        Self { processor, is_indexed, log: Log::default(), delivered: Vec::new() }
    }

    fn join(&mut self, filter: Option<Wanted>, resyncs: bool, snapshot: &Snapshot) {
        let number = self.delivered.len();
        let noting = Noting { number, log: Arc::clone(&self.log) };
        let listener: Arc<dyn Listener> = match filter {
            Some(filter) => Arc::new(FilteringResourceEventHandler::new(filter, Arc::new(noting))),
            None => Arc::new(noting),
        };
        let listener = if self.is_indexed { listener } else { Arc::new(Offered(listener)) };
        let (delivered, is_delivered) = watch::channel(false);
        let resync = resyncs.then_some(Duration::from_secs(60));
        self.processor.add(NewMember { id: number as u64, listener, resync, delivered }, snapshot);
        self.delivered.push(is_delivered);
    }

    fn distribute(&mut self, all: bool) {
        while self.processor.distribute(&|_| false) && all {}
    }

    /// Hands initial objects over, one listener after the other: how several take turns depends on the clock.
    fn replay(&mut self) {
        self.distribute(true);
        let slice = std::mem::replace(&mut self.processor.slice, Duration::MAX);
        while self.processor.replay(&|_| false) {}
        self.processor.slice = slice;
    }

    fn begin_resync(&mut self, divisor: u64) {
        for member in &mut self.processor.members {
            if let Some(resync) = &mut member.resync {
                resync.due = member.id.is_multiple_of(divisor);
            }
        }
        self.processor.begin_resync();
    }
}

/// Has both informers make the steps. Returns the numbers of the listeners that left.
fn run(steps: Vec<Step>, informers: &mut [Informer; 2]) -> Vec<usize> {
    let indexer = Indexer::new(true);
    let mut held: BTreeMap<&str, Object> = BTreeMap::new();
    let (mut version, mut joined, mut left) = (0, 0, Vec::new());
    for step in steps {
        match step {
            Step::Set { key, app, tier, node } => {
                version += 1;
                let mut labels = json!({"app": APPS[app]});
                if tier {
                    labels["tier"] = json!("front");
                }
                let body = json!({"metadata": {"labels": labels}, "data": {"node": NODES[node]}});
                let key = KEYS[key];
                let new = object(&config_maps().gvk, key, key, &version.to_string(), body);
                indexer.apply_shared([Delta::Updated(new.clone())]);
                let change = match held.insert(key, new.clone()) {
                    Some(old) => Change::Updated { old, new },
                    None => Change::Added(new),
                };
                let enqueue = |informer: &mut Informer| {
                    informer.processor.enqueue([change.clone()].into_iter(), false, Audience::Resyncing);
                };
                informers.iter_mut().for_each(enqueue);
            }
            Step::Again(key) => {
                let Some(object) = held.get(KEYS[key]) else { continue };
                let change = Change::Updated { old: object.clone(), new: object.clone() };
                for informer in &mut *informers {
                    informer.processor.enqueue([change.clone()].into_iter(), false, Audience::Resyncing);
                }
            }
            Step::Delete { key, seen, last } => {
                let Some(object) = held.remove(KEYS[key]) else { continue };
                indexer.apply_shared([Delta::Deleted(object.clone())]);
                let key = object.key().clone();
                let object = (seen || last).then_some(object);
                let change = Change::Deleted { key, object, final_state_unknown: !seen };
                for informer in &mut *informers {
                    informer.processor.enqueue([change.clone()].into_iter(), false, Audience::Resyncing);
                }
            }
            Step::Join { filter, resyncs } => {
                for informer in &mut *informers {
                    informer.join(filter.clone(), resyncs, &indexer.snapshot());
                }
                joined += 1;
            }
            Step::Leave(number) => {
                if joined > 0 {
                    let number = number % joined;
                    informers.iter_mut().for_each(|informer| informer.processor.remove(number as u64));
                    left.push(number);
                }
            }
            Step::Distribute { all } => informers.iter_mut().for_each(|informer| informer.distribute(all)),
            Step::Replay => informers.iter_mut().for_each(Informer::replay),
            Step::EndInitialList => {
                for informer in &mut *informers {
                    informer.distribute(true);
                    informer.processor.end_initial_list(&|_| false);
                }
            }
            Step::Resync(divisor) => {
                for informer in &mut *informers {
                    informer.distribute(true);
                    informer.begin_resync(divisor);
                    let again =
                        |object: &Object| Change::Updated { old: object.clone(), new: object.clone() };
                    let changes: Vec<Change> = held.values().map(again).collect();
                    informer.processor.enqueue(changes.into_iter(), false, Audience::Due);
                    informer.distribute(true);
                    informer.processor.end_resync();
                }
            }
        }
    }
    for informer in informers {
        informer.replay();
        assert!(informer.processor.is_at_rest());
    }
    left
}

fn log(informer: &Informer) -> Vec<(usize, String)> {
    informer.log.lock().clone()
}

proptest! {
    /// Slices end after each judgement and each call, and nothing else comes in between.
    #[test]
    fn listeners_that_are_looked_up_are_called_in_the_same_order_as_those_that_are_offered_each_change(
        steps in steps(false),
    ) {
        let mut informers = [Informer::new(true, Duration::from_nanos(1)), Informer::new(false, Duration::MAX)];
        run(steps, &mut informers);
        let [indexed, offered] = &informers;
        prop_assert_eq!(log(indexed), log(offered));
        let delivered = |informer: &Informer| informer.delivered.iter().map(|one| *one.borrow()).collect::<Vec<_>>();
        prop_assert_eq!(delivered(indexed), delivered(offered));
    }

    /// Listeners join and leave between the judgements and the calls of one change.
    #[test]
    fn each_listener_is_called_for_the_same_whatever_joins_and_leaves_between_two_slices(steps in steps(true)) {
        let slice = Duration::from_nanos(1);
        let mut informers = [Informer::new(true, slice), Informer::new(false, slice)];
        let left = run(steps, &mut informers);
        let [indexed, offered] = &informers;
        for number in 0..indexed.delivered.len() {
            let calls = |informer: &Informer| {
                let calls = log(informer).into_iter().filter(|(own, _)| *own == number);
                calls.map(|(_, call)| call).collect::<Vec<_>>()
            };
            let (looked_up, all) = (calls(indexed), calls(offered));
            if left.contains(&number) {
                // In one of them it was called for more before it left.
                let same = looked_up.len().min(all.len());
                prop_assert_eq!(&looked_up[..same], &all[..same], "listener {}", number);
            } else {
                prop_assert_eq!(looked_up, all, "listener {}", number);
            }
        }
    }

    /// When all listeners have left, nothing is kept of them.
    #[test]
    fn nothing_is_kept_of_listeners_that_left(filters in prop::collection::vec(wanted(), 1..20)) {
        let mut informer = Informer::new(true, Duration::MAX);
        let empty = Indexer::new(true).snapshot();
        let count = filters.len() as u64;
        filters.into_iter().for_each(|filter| informer.join(Some(filter), true, &empty));
        prop_assert!(informer.processor.groups.sizes().0 > 0);
        (0..count).for_each(|id| informer.processor.remove(id));
        prop_assert_eq!(informer.processor.groups.sizes(), (0, 0, 0));
    }
}
