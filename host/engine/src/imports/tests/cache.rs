//! Reads of the cache: orders, portions, bounds and what is charged.

use std::time::{Duration, Instant};

use super::*;
use api::cache::{Host, HostCursor, HostQuery, HostValues};

/// A cache whose lists have no end and show nothing.
struct Hidden;

struct Endless(usize);

impl Endless {
    fn look(&mut self) {
        self.0 += 1;
        assert!(self.0 <= 100_000_000, "nobody looked at the budget");
    }
}

impl ObjectCursor for Endless {
    fn visit(&mut self, visit: &mut dyn FnMut(Option<Object>) -> ControlFlow<()>) {
        while visit(None).is_continue() {
            self.look();
        }
    }

    fn remaining(&self, look: &mut dyn FnMut() -> ControlFlow<()>) -> Option<usize> {
        let mut looked = Self(0);
        while look().is_continue() {
            looked.look();
        }
        None
    }
}

impl CacheImports for Hidden {
    fn cache_list(&self, _: &Gvk, _: CacheQuery<'_>) -> Result<Box<dyn ObjectCursor>, Refusal> {
        Ok(Box::new(Endless(0)))
    }

    fn cache_index_values(
        &self,
        _: &Gvk,
        _: &str,
        visit: &mut dyn FnMut(Option<&str>) -> ControlFlow<()>,
    ) -> Result<(), Refusal> {
        let mut looked = Endless(0);
        while visit(None).is_continue() {
            looked.look();
        }
        Ok(())
    }
}
impl ClientImports for Hidden {}
impl ConfigImports for Hidden {}
impl EventImports for Hidden {}
impl HttpImports for Hidden {}
impl LogImports for Hidden {}
impl MetricImports for Hidden {}
impl QueueImports for Hidden {}
impl SystemImports for Hidden {}

#[test]
fn a_read_that_shows_nothing_is_charged_for_what_it_looks_at() {
    let limits = Limits { cpu_per_call: Duration::from_millis(5), ..Limits::default() };
    let mut state = StoreState::new(Arc::new(Hidden), limits, Arc::default());
    let kind = kind(&mut state);
    for read in ["run", "count", "index-values"] {
        state.begin(CallContext::default(), Instant::now());
        let mut call = import_call(&mut state);
        let query = HostQuery::new(&mut call, lent(&kind)).unwrap();
        let spent = match read {
            "run" => call.run(query).map(drop),
            "count" => call.count(query).map(drop),
            _ => call.index_values(lent(&kind), "i".to_owned()).map(drop),
        };
        assert!(matches!(spent, Err(Refused::Trap(trap)) if trap.to_string().contains("CPU budget")));
        assert!(call.budget.exceeded());
    }
}

#[test]
fn a_query_lists_in_the_order_of_keys_up_to_its_limit() {
    let names = ["b/x", "a/z", "a-b/x", "a/a", "c/x"];
    let (host, mut state) = state(Recording { objects: names.map(object).into(), ..Recording::default() });
    let kind = kind(&mut state);
    let mut call = import_call(&mut state);
    let query = HostQuery::new(&mut call, kind).unwrap();
    call.index(lent(&query), "i".to_owned(), "v".to_owned()).unwrap();
    HostQuery::namespace(&mut call, lent(&query), "a".to_owned()).unwrap();
    call.limit(lent(&query), 4).unwrap();
    let cursor = call.run(lent(&query)).unwrap();
    assert_eq!(call.count(lent(&query)).unwrap(), 4);
    assert_eq!(HostCursor::remaining(&mut call, lent(&cursor)).unwrap(), 4);
    let mut keys = Vec::new();
    for most in [1, 0, 100] {
        let portion = call.next_keys(lent(&cursor), most).unwrap();
        keys.extend(portion.into_iter().map(|key| format!("{}/{}", key.namespace, key.name)));
    }
    // As the API server sorts: by the bytes of namespace and name with "/" between them.
    assert_eq!(keys, ["a-b/x", "a/a", "a/z", "b/x"]);
    assert_eq!(HostCursor::remaining(&mut call, cursor).unwrap(), 0);
    assert!(
        host.queries.lock()[0].contains(r#"namespace: "a", label_selector: "", index: Some(("i", "v"))"#)
    );
}

#[test]
fn a_query_with_a_text_that_is_too_long_is_refused_when_it_runs() {
    let (host, mut state) = state(Recording::default());
    let kind = kind(&mut state);
    let mut call = import_call(&mut state);
    let query = HostQuery::new(&mut call, kind).unwrap();
    call.label_selector(lent(&query), "x".repeat(MAX_TEXT + 1)).unwrap();
    let (reason, message) = refusal(call.run(query));
    assert!(reason == RefusalReason::Invalid && message.contains("at most 65536"), "{message}");
    assert!(host.queries.lock().is_empty());
}

#[test]
fn a_sorted_list_is_bounded_by_the_room_for_handles() {
    let objects: Vec<Object> = (0..2_000).map(|n| object(&format!("a/{n}"))).collect();
    let host = Recording { objects, ..Recording::default() };
    let mut state = StoreState::new(
        Arc::new(host),
        Limits { handle_bytes: 16 << 10, ..Limits::default() },
        Arc::default(),
    );
    state.begin(CallContext::default(), Instant::now());
    let kind = kind(&mut state);
    let mut call = import_call(&mut state);
    let query = HostQuery::new(&mut call, kind).unwrap();
    let (reason, message) = refusal(call.run(query));
    assert!(reason == RefusalReason::OverLimit && message.contains("limits.handleBytes"), "{message}");
}

#[test]
fn values_of_an_index_come_in_portions() {
    let (_, mut state) = state(Recording { values: vec!["a", "b", "c"], ..Recording::default() });
    let kind = kind(&mut state);
    let mut call = import_call(&mut state);
    let values = call.index_values(kind, "i".to_owned()).unwrap();
    assert_eq!(HostValues::next(&mut call, lent(&values), 2).unwrap(), ["a", "b"]);
    call.limits.answer_bytes = 4;
    assert_eq!(refusal(HostValues::next(&mut call, lent(&values), 2)).0, RefusalReason::OverLimit);
    call.limits.answer_bytes = 100;
    assert_eq!(HostValues::next(&mut call, lent(&values), 2).unwrap(), ["c"]);
    assert!(HostValues::next(&mut call, values, 2).unwrap().is_empty());
}

fn numbered(objects: usize) -> Recording {
    Recording { objects: (0..objects).map(|n| object(&format!("a/{n}"))).collect(), ..Recording::default() }
}

#[test]
fn a_query_with_a_limit_needs_room_for_what_it_lists_only() {
    let objects = || {
        // Neither the order of the keys nor the other one.
        let names = (0..2_000).map(|n| format!("a/{:04}", n * 7 % 2_000));
        Recording { objects: names.map(|name| object(&name)).collect(), ..Recording::default() }
    };
    for (limit, wanted) in [(0, vec![]), (1, vec!["0000"]), (3, vec!["0000", "0001", "0002"])] {
        let mut state = state_with_room(4, objects());
        let kind = kind(&mut state);
        let mut call = import_call(&mut state);
        let query = HostQuery::new(&mut call, kind).unwrap();
        call.limit(lent(&query), limit).unwrap();
        let cursor = call.run(query).unwrap();
        assert_eq!(HostCursor::remaining(&mut call, lent(&cursor)).unwrap(), limit);
        let keys = call.next_keys(cursor, 100).unwrap();
        assert_eq!(keys.into_iter().map(|key| key.name).collect::<Vec<_>>(), wanted);
    }
    // One that has no room for twice its limit.
    let mut state = state_with_room(4, objects());
    let kind = kind(&mut state);
    let mut call = import_call(&mut state);
    let query = HostQuery::new(&mut call, kind).unwrap();
    call.limit(lent(&query), 1_500).unwrap();
    assert_eq!(refusal(call.run(query)).0, RefusalReason::OverLimit);
}

#[test]
fn a_cursor_goes_on_where_it_was_when_there_is_room_again() {
    // Room for the query, the cursor with what it sorts, and three objects.
    let mut state = state_with_room(6, numbered(10));
    let kind = kind(&mut state);
    let mut call = import_call(&mut state);
    let query = HostQuery::new(&mut call, kind).unwrap();
    let cursor = call.run(query).unwrap();
    let mut names = Vec::new();
    let mut take = |call: &mut ImportCall<'_>| {
        let objects = HostCursor::next(call, lent(&cursor), 100)?;
        names.extend(objects.iter().map(|object| call.handles.object(object).unwrap().name().to_owned()));
        Ok::<_, Refused>(objects)
    };
    let mut held = take(&mut call).unwrap();
    assert_eq!(held.len(), 3, "the portion ends where the room does");
    let (reason, message) = refusal(take(&mut call));
    assert!(reason == RefusalReason::OverLimit && message.contains("limits.handleBytes"), "{message}");
    for _ in 0..3 {
        held.iter().for_each(|object| call.handles.delete(object));
        held = take(&mut call).unwrap();
    }
    assert!(take(&mut call).unwrap().is_empty(), "at the end no room is needed");
    assert_eq!(names, (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn get_many_makes_all_handles_or_none() {
    let mut state = state_with_room(3, numbered(10));
    let kind = kind(&mut state);
    let mut call = import_call(&mut state);
    let key = |name: &str| wit::types::ObjectKey { namespace: "a".to_owned(), name: name.to_owned() };
    let mut get = |names: &[&str]| {
        let keys = names.iter().map(|name| key(name)).collect();
        Host::get_many(&mut call, lent(&kind), keys)
    };
    assert_eq!(refusal(get(&["0", "1", "2", "3"])).0, RefusalReason::OverLimit);
    assert_eq!(refusal(get(&["0", "1", "a/b"])).0, RefusalReason::Invalid);
    // What the cache does not have needs no room.
    let objects = get(&["0", "absent", "1", "2", "gone"]).unwrap();
    assert_eq!(objects.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true, true, false]);
}
