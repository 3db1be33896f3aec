//! The store against a model that keeps every state: lists at any revision, page by page, and feeds from any revision.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

type State = BTreeMap<String, u64>;

const TABLE: &str = "/configmaps";

fn head() -> Head {
    Head::new("v1", "ConfigMap")
}

fn object(name: &str, value: u64) -> Map<String, Value> {
    let object = json!({"metadata": {"name": name, "namespace": "a"}, "data": {"value": value.to_string()}});
    object.as_object().unwrap().clone()
}

/// A step on one of a few keys: make, change or take away, as it comes.
#[derive(Debug, Clone)]
struct Step {
    key: u8,
    remove: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..6u8, any::<bool>()).prop_map(|(key, remove)| Step { key, remove }), 1..120)
}

/// Does the steps; the state at each revision, the first one empty.
fn play(store: &Arc<Store>, steps: &[Step]) -> Vec<(u64, State)> {
    let table: Arc<str> = TABLE.into();
    let mut states = vec![(store.revision(), State::new())];
    for step in steps {
        let name = format!("key-{}", step.key);
        let key = format!("a/{name}");
        let mut state = states.last().unwrap().1.clone();
        let stored = match store.get(TABLE, &key) {
            None if step.remove => continue,
            None => store
                .create(&table, &key, &head(), object(&name, store.revision()), ManagedFields::default())
                .unwrap(),
            Some(current) if step.remove => store.remove(&table, &key, &current).unwrap(),
            Some(current) => store
                .replace(
                    &table,
                    &key,
                    &current,
                    &head(),
                    object(&name, store.revision()),
                    ManagedFields::default(),
                )
                .unwrap(),
        };
        if step.remove {
            state.remove(&key)
        } else {
            state.insert(key, stored.revision)
        };
        assert_eq!(stored.object.resource_version(), stored.revision.to_string());
        states.push((stored.revision, state));
    }
    states
}

fn listed(objects: &[Arc<Stored>]) -> State {
    objects.iter().map(|s| (s.object.key().to_string(), s.revision)).collect()
}

/// Takes everything that a feed has, up to the revision of now.
fn everything(feed: &mut Feed, now: u64) -> Vec<Arc<Change>> {
    let mut all: Vec<Arc<Change>> = Vec::new();
    loop {
        let Moved::Changes { changes, revision } = feed.take() else { panic!("it was known") };
        all.extend(changes);
        if revision == now {
            return all;
        }
        assert_eq!(all.last().unwrap().revision(), revision, "as far as it was given changes");
    }
}

fn query<'a>(revision: u64, after: Option<&'a str>, limit: usize) -> Query<'a> {
    Query { table: TABLE, prefix: "a/", after, revision: Some(revision), limit, wanted: &|_| true }
}

proptest! {
    #[test]
    fn a_list_at_any_revision_is_the_state_of_then(steps in steps(), limit in 1usize..4) {
        let store = Store::new(1000);
        let states = play(&store, &steps);
        for (revision, state) in &states {
            let whole = store.list(&query(*revision, None, 0)).unwrap();
            prop_assert_eq!(&listed(&whole.objects), state);
            let (mut paged, mut after) = (Vec::new(), None::<String>);
            loop {
                let page = store.list(&query(*revision, after.as_deref(), limit)).unwrap().objects;
                let Some(last) = page.last() else { break };
                prop_assert!(page.len() <= limit);
                after = Some(last.object.key().to_string());
                paged.extend(page);
            }
            prop_assert_eq!(paged.len(), state.len());
            prop_assert_eq!(&listed(&paged), state);
        }
        let future = store.revision() + 1;
        prop_assert_eq!(store.list(&query(future, None, 0)).unwrap_err(), NoState::Future(future - 1));
    }

    #[test]
    fn a_feed_from_any_revision_leads_to_the_state_of_now(steps in steps(), window in 1usize..20) {
        let store = Store::new(window);
        let states = play(&store, &steps);
        let table: Arc<str> = TABLE.into();
        let now = &states.last().unwrap().1;
        let changes = states.len() - 1;
        for (index, (revision, state)) in states.iter().enumerate() {
            let known = changes - index <= window;
            let feed = store.feed(&table, *revision);
            prop_assert_eq!(feed.is_ok(), known, "from {} of {} with a window of {}", index, changes, window);
            prop_assert_eq!(store.list(&query(*revision, None, 0)).is_ok(), known);
            let Ok(mut feed) = feed else { continue };
            let mut seen = state.clone();
            let mut last = *revision;
            for change in everything(&mut feed, store.revision()) {
                prop_assert!(change.revision() > last);
                last = change.revision();
                let before = seen.get(change.key()).copied();
                prop_assert_eq!(change.before.as_ref().map(|s| s.revision), before);
                if change.deleted {
                    seen.remove(change.key());
                } else {
                    seen.insert(change.key().to_owned(), change.revision());
                }
            }
            prop_assert_eq!(&seen, now);
        }
    }
}

#[test]
fn a_write_from_an_old_state_is_refused() {
    let store = Store::new(10);
    let table: Arc<str> = TABLE.into();
    let first = store.create(&table, "a/x", &head(), object("x", 1), ManagedFields::default()).unwrap();
    assert!(matches!(
        store.create(&table, "a/x", &head(), object("x", 1), ManagedFields::default()),
        Err(Raced::Exists(_))
    ));
    store.replace(&table, "a/x", &first, &head(), object("x", 2), ManagedFields::default()).unwrap();
    let revision = store.revision();
    assert!(matches!(
        store.replace(&table, "a/x", &first, &head(), object("x", 3), ManagedFields::default()),
        Err(Raced::Changed)
    ));
    assert!(matches!(store.remove(&table, "a/x", &first), Err(Raced::Changed)));
    assert_eq!(store.revision(), revision, "what is refused takes no revision");
}

#[test]
fn a_feed_that_fell_behind_is_told_that_something_is_missing() {
    let store = Store::new(2);
    let table: Arc<str> = TABLE.into();
    let mut feed = store.feed(&table, store.revision()).unwrap();
    for number in 0..3 {
        store
            .create(
                &table,
                &format!("a/{number}"),
                &head(),
                object(&number.to_string(), 1),
                ManagedFields::default(),
            )
            .unwrap();
    }
    assert!(matches!(feed.take(), Moved::Forgotten));
}

#[tokio::test]
async fn a_feed_wakes_for_a_change_and_ends_behind_the_last() {
    let store = Store::new(10);
    let table: Arc<str> = TABLE.into();
    let mut feed = store.feed(&table, store.revision()).unwrap();
    assert!(matches!(feed.take(), Moved::Changes { changes, .. } if changes.is_empty()));
    store.create(&table, "a/x", &head(), object("x", 1), ManagedFields::default()).unwrap();
    assert!(feed.wait().await);
    store.end_feeds(TABLE);
    assert!(matches!(feed.take(), Moved::Changes { changes, .. } if changes.len() == 1));
    assert!(!feed.wait().await);
}

/// An object whose JSON is about so long.
fn large(name: &str, bytes: usize) -> Map<String, Value> {
    let mut object = object(name, 0);
    object.insert("data".to_owned(), json!({"value": "x".repeat(bytes)}));
    object
}

/// Writes an object anew so many times; the revision before each write, and the one after the last.
fn rewrite(store: &Arc<Store>, table: &str, name: &str, bytes: usize, times: usize) -> Vec<u64> {
    let table: Arc<str> = table.into();
    let key = format!("a/{name}");
    let mut revisions = vec![store.revision()];
    for _ in 0..times {
        match store.get(&table, &key) {
            None => {
                store.create(&table, &key, &head(), large(name, bytes), ManagedFields::default()).unwrap()
            }
            Some(current) => store
                .replace(&table, &key, &current, &head(), large(name, bytes), ManagedFields::default())
                .unwrap(),
        };
        revisions.push(store.revision());
    }
    revisions
}

/// From how many of the revisions a feed can go on.
fn known(store: &Arc<Store>, table: &str, revisions: &[u64]) -> usize {
    revisions.iter().filter(|revision| store.feed(&table.into(), **revision).is_ok()).count()
}

#[test]
fn history_is_bounded_by_bytes() {
    let limits = HistoryLimits { changes: 100, bytes: 100_000, total_bytes: usize::MAX };
    let store = Store::new(limits);
    // Each change counts with the object before it and with its line.
    let small = rewrite(&store, TABLE, "small", 500, 30);
    assert_eq!(known(&store, TABLE, &small), 31);
    let large = rewrite(&store, TABLE, "large", 10_000, 20);
    assert_eq!(known(&store, TABLE, &large), 5, "four changes of 20,000 bytes and more");
    assert_eq!(known(&store, TABLE, &small[..30]), 0);
    let huge = rewrite(&store, TABLE, "large", 1_000_000, 3);
    assert_eq!(known(&store, TABLE, &huge), 2, "the last change is kept however large it is");
}

#[test]
fn of_all_histories_together_the_oldest_changes_are_forgotten_first() {
    let limits = HistoryLimits { changes: 100, bytes: usize::MAX, total_bytes: 100_000 };
    let store = Store::new(limits);
    let all_pods = rewrite(&store, "/pods", "a", 5_000, 5);
    let all_nodes = rewrite(&store, "/nodes", "a", 5_000, 5);
    assert_eq!((known(&store, "/pods", &all_pods), known(&store, "/nodes", &all_nodes)), (6, 6));
    let maps = rewrite(&store, TABLE, "a", 10_000, 3);
    assert_eq!(known(&store, TABLE, &maps), 4);
    let (pods, nodes) = (known(&store, "/pods", &all_pods), known(&store, "/nodes", &all_nodes));
    assert!(pods < 6 && (pods == 1 || nodes == 6), "{pods} {nodes}");
    rewrite(&store, TABLE, "a", 10_000, 10);
    assert_eq!(known(&store, "/nodes", &all_nodes), 1, "only where nothing changed later");
    // What was given up counts no more.
    store.compact();
    let maps = rewrite(&store, TABLE, "a", 10_000, 4);
    assert_eq!(known(&store, TABLE, &maps), 5);
}
