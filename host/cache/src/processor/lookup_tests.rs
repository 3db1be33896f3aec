//! How much is judged and called for one change, counted and not timed.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use pilothouse_object::{LabelSelector, Object, ObjectKey};
use tokio::sync::watch;

use super::*;
use crate::indexer::Indexer;
use crate::interest::{Interest, Judge, Requirement};
use crate::listener::Listener;
use crate::testing::{config_map, config_maps, object};

/// A judge of labels that counts; those of one class are equal.
#[derive(Clone)]
struct Counting {
    class: usize,
    labels: LabelSelector,
    judged: Arc<AtomicUsize>,
    panics: bool,
}

impl Judge for Counting {
    fn judge(&self, notification: &Notification<'_>) -> Option<Verdict> {
        self.judged.fetch_add(1, Relaxed);
        assert!(!self.panics, "a judge panics");
        let Notification::Added { object, .. } = notification else { return None };
        self.labels.matches(object.object()).then_some(Verdict::Added)
    }

    fn is_equal(&self, other: &dyn Judge) -> bool {
        (other as &dyn Any).downcast_ref::<Self>().is_some_and(|other| other.class == self.class)
    }
}

/// Counts its calls, and the time that it is charged.
struct Counted {
    interest: Interest,
    called: Arc<AtomicUsize>,
    charged: Mutex<usize>,
}

impl Listener for Counted {
    fn on_add(&self, _: &Object, _: bool) {}
    fn on_update(&self, _: &Object, _: &Object, _: bool) {}
    fn on_delete(&self, _: &ObjectKey, _: Option<&Object>, _: bool) {}

    fn interest(&self) -> Option<Interest> {
        Some(self.interest.clone())
    }

    fn on_judged(&self, _: &Notification<'_>, verdict: Verdict) {
        assert_eq!(verdict, Verdict::Added);
        self.called.fetch_add(1, Relaxed);
    }

    fn took(&self, _: Duration) {
        *self.charged.lock() += 1;
    }
}

#[derive(Default)]
struct Setup {
    judged: Arc<AtomicUsize>,
    called: Arc<AtomicUsize>,
    listeners: Vec<Arc<Counted>>,
}

impl Setup {
    /// An informer with so many listeners; `interest` makes that of each, of its judge.
    fn join(
        &mut self,
        processor: &mut Processor,
        count: usize,
        class: impl Fn(usize) -> usize,
        interest: impl Fn(usize, Counting) -> Interest,
    ) {
        let empty = Indexer::new(true).snapshot();
        for number in 0..count {
            let judge = Counting {
                class: class(number),
                labels: LabelSelector::default(),
                judged: Arc::clone(&self.judged),
                panics: false,
            };
            let interest = interest(number, judge);
            let counted = Counted { interest, called: Arc::clone(&self.called), charged: Mutex::new(0) };
            let (listener, (delivered, _)) = (Arc::new(counted), watch::channel(false));
            let id = self.listeners.len() as u64;
            self.listeners.push(Arc::clone(&listener));
            processor.add(NewMember { id, listener, resync: None, delivered }, &empty);
        }
        while processor.replay(&|_| false) {}
    }

    /// Adds an object. Returns the judgements and the calls that this took.
    fn add(&self, processor: &mut Processor, object: Object) -> (usize, usize) {
        self.judged.store(0, Relaxed);
        self.called.store(0, Relaxed);
        processor.enqueue([Change::Added(object)].into_iter(), false, Audience::Resyncing);
        while processor.distribute(&|_| false) {}
        (self.judged.load(Relaxed), self.called.load(Relaxed))
    }
}

fn processor() -> Processor {
    Processor { slice: Duration::MAX, ..Processor::new(config_maps().gvr(), None) }
}

fn labelled(key: &str, label: &str, value: &str, node: &str) -> Object {
    let body = serde_json::json!({"metadata": {"labels": {label: value}}, "data": {"node": node}});
    object(&config_maps().gvk, key, key, "1", body)
}

/// Of each kind of requirement: the listeners of other values cost neither a judgement nor a call.
#[test]
fn a_thousand_listeners_that_a_change_does_not_concern_are_not_judged() {
    type Required = fn(String) -> Requirement;
    let kinds: [Required; 6] = [
        |n| Requirement::Namespace(format!("ns{n}").into()),
        |n| Requirement::Key(format!("ns{n}/x{n}").into()),
        |n| Requirement::Name(format!("x{n}").into()),
        |n| Requirement::Label("app".into(), format!("v{n}").into()),
        |n| Requirement::HasLabel(format!("l{n}").into()),
        |n| Requirement::Field("data.node".into(), format!("n{n}").into()),
    ];
    for (kind, required) in kinds.into_iter().enumerate() {
        let (mut setup, mut processor) = (Setup::default(), processor());
        setup.join(
            &mut processor,
            1000,
            |n| n,
            |n, judge| Interest::new(judge).within([required(n.to_string())]),
        );
        let met = match kind {
            0..3 => labelled("ns7/x7", "a", "b", ""),
            3 => labelled("a/b", "app", "v7", ""),
            4 => labelled("a/b", "l7", "", ""),
            _ => labelled("a/b", "a", "b", "n7"),
        };
        assert_eq!(setup.add(&mut processor, met), (1, 1), "kind {kind}");
        assert_eq!(setup.add(&mut processor, labelled("a/b", "a", "b", "")), (0, 0), "kind {kind}");
    }
}

/// A bound of very many requirements is not kept: each change is judged.
#[test]
fn a_bound_of_too_many_requirements_is_left_to_the_judge() {
    for (requirements, judged) in [(1_000, 0), (1_001, 1)] {
        let (mut setup, mut processor) = (Setup::default(), processor());
        let names = (0..requirements).map(|n| Requirement::Name(format!("x{n}").into()));
        setup.join(&mut processor, 1, |n| n, |_, judge| Interest::new(judge).within(names.clone()));
        assert_eq!(setup.add(&mut processor, config_map("a/other", "1")).0, judged, "{requirements}");
        assert_eq!(setup.add(&mut processor, config_map("a/x7", "1")), (1, 1), "{requirements}");
    }
}

#[test]
fn equal_listeners_are_judged_once_and_charged_in_turns() {
    let (mut setup, mut processor) = (Setup::default(), processor());
    // Two classes of 50, in turns.
    setup.join(&mut processor, 100, |n| n % 2, |_, judge| Interest::new(judge));
    assert_eq!(setup.add(&mut processor, config_map("a/0", "1")), (2, 100));
    (1..50).for_each(|n| assert_eq!(setup.add(&mut processor, config_map(&format!("a/{n}"), "1")), (2, 100)));
    // Each for 50 calls, and for one of the 50 judgements of its class.
    for (number, listener) in setup.listeners.iter().enumerate() {
        assert_eq!(*listener.charged.lock(), 51, "listener {number}");
    }
}

/// The first listener of a namespace is found by it; those that follow are found by what they have for themselves.
#[test]
fn listeners_of_one_namespace_are_told_apart_by_their_labels() {
    let (mut setup, mut processor) = (Setup::default(), processor());
    setup.join(
        &mut processor,
        1000,
        |n| n,
        |n, judge| {
            let label = Requirement::Label("app".into(), format!("v{n}").into());
            Interest::new(judge).within([Requirement::Namespace("a".into())]).within([label])
        },
    );
    let (judged, _) = setup.add(&mut processor, labelled("a/x", "app", "none", ""));
    assert!(judged <= 2, "{judged} judgements");
}

/// A field of each object is not read for the sake of a few listeners that something else tells apart.
#[test]
fn fields_are_looked_up_only_when_that_saves_many_judgements() {
    let (mut setup, mut processor) = (Setup::default(), processor());
    let of_node = |n: usize, judge| {
        let field = Requirement::Field("data.node".into(), format!("n{n}").into());
        Interest::new(judge).within([Requirement::Namespace("a".into())]).within([field])
    };
    setup.join(&mut processor, 10, |n| n, of_node);
    assert_eq!(setup.add(&mut processor, labelled("a/x", "a", "b", "none")).0, 10);
    setup.join(&mut processor, 1000, |n| 10 + n, |n, judge| of_node(10 + n, judge));
    let (judged, _) = setup.add(&mut processor, labelled("a/x", "a", "b", "none"));
    assert!((10..30).contains(&judged), "{judged} judgements");
}

#[test]
fn a_judge_that_panics_costs_its_own_listeners_one_change() {
    let (mut setup, mut processor) = (Setup::default(), processor());
    let panicking = |n: usize, judge: Counting| Interest::new(Counting { panics: n == 1, ..judge });
    setup.join(&mut processor, 3, |n| n, panicking);
    assert_eq!(setup.add(&mut processor, config_map("a/x", "1")), (3, 2));
    assert_eq!(processor.figures().panics, 1);
}
