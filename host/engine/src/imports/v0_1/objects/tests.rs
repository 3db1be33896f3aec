//! The amount of unpacked text that stays in the host when a guest reads packed objects, and what a read may cost.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_object::{Body, Dictionary, Gvk, ObjectKey};
use pilothouse_plugin::Limits;

use super::*;
use crate::bindings::v0_1::pilothouse::controller::cache::{self, HostCursor};
use crate::handles::Entry;
use crate::host::{
    CacheImports, CacheQuery, CallContext, ClientImports, ConfigImports, EventImports, HostImports,
    HttpImports, LogImports, MetricImports, ObjectCursor, QueueImports, Refusal, SystemImports,
};
use crate::imports::{Cursor, import_call};
use crate::state::StoreState;

/// A host whose cache has one object. The tests use no other import.
#[derive(Default)]
struct OneObject(Option<Object>);

impl ConfigImports for OneObject {}

impl LogImports for OneObject {}

impl CacheImports for OneObject {
    fn cache_get(&self, _: &Gvk, _: &ObjectKey) -> Result<Option<Object>, Refusal> {
        Ok(self.0.clone())
    }
}

impl ClientImports for OneObject {}

impl EventImports for OneObject {}

impl HttpImports for OneObject {}

impl MetricImports for OneObject {}

impl QueueImports for OneObject {}
impl SystemImports for OneObject {}

/// A method with which a guest reads an object.
type Read = fn(&mut StoreState, Resource<Object>);

/// All methods that need the text.
const READS: [Read; 4] = [
    |state, object| assert!(import_call(state).get(object, "/data/n".to_owned()).unwrap().is_some()),
    |state, object| {
        assert_eq!(
            import_call(state).get_many(object, vec!["/data/n".into(), "/no".into()]).unwrap().len(),
            2
        );
    },
    |state, object| assert!(import_call(state).bytes(object).unwrap().starts_with(b"{")),
    |state, object| assert_eq!(import_call(state).annotations(object).unwrap().len(), 1),
];

fn state() -> StoreState {
    state_with(None)
}

fn state_with(object: Option<Object>) -> StoreState {
    let host: Arc<dyn HostImports> = Arc::new(OneObject(object));
    StoreState::new(host, Limits::default(), Arc::default())
}

fn packed() -> Vec<Object> {
    let object = |n: u32| {
        let numbers: Vec<u32> = (0..200).collect();
        let json = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"n": n.to_string(), "numbers": format!("{numbers:?}")},
            "metadata": {"name": format!("x{n}"), "namespace": "a", "annotations": {"n": n.to_string()}},
        });
        Object::decode(json.to_string().as_bytes()).unwrap()
    };
    let plain: Vec<Object> = (0..100).map(object).collect();
    let dictionary = Dictionary::train(&plain).unwrap();
    let packed: Vec<Object> = plain.iter().map(|object| object.packed(&dictionary)).collect();
    assert!(packed.iter().all(Object::is_packed));
    packed
}

/// Whether a handle of a packed object keeps its text. If it does, its clones share the text; otherwise each clone
/// unpacks its own.
fn keeps_text(object: &Object) -> bool {
    let copies = [object.clone(), object.clone()];
    std::ptr::eq(copies[0].json(), copies[1].json())
}

/// A borrow of a handle, as the bindings pass it to each method.
fn borrow(handle: &Resource<Object>) -> Resource<Object> {
    Resource::new_borrow(handle.rep())
}

#[test]
fn a_guest_that_reads_many_packed_objects_in_one_call_keeps_one_text_unpacked() {
    let mut state = state();
    let cursor = Cursor(Box::new(packed().into_iter()));
    let cursor: Resource<Cursor> = state.handles.push(Entry::Cursor(cursor), 0).unwrap();
    let handles = HostCursor::next(&mut import_call(&mut state), cursor, 100).unwrap();
    assert_eq!(handles.len(), 100);
    for read in READS {
        for handle in &handles {
            read(&mut state, borrow(handle));
        }
        let kept = handles.iter().filter(|handle| keeps_text(state.handles.object(handle).unwrap())).count();
        assert_eq!(kept, 0, "beside the one that was read last");
    }
    assert!(state.reading.as_ref().unwrap().is_same(state.handles.object(&handles[99]).unwrap()));
}

#[test]
fn one_object_that_is_read_again_and_again_is_unpacked_once() {
    let mut state = state();
    let handle = state.handles.push_cached(packed().remove(0)).unwrap();
    READS[0](&mut state, borrow(&handle));
    // Kept alive, so that no other text gets the same address.
    let first = state.reading.clone().unwrap();
    READS.iter().for_each(|read| read(&mut state, borrow(&handle)));
    assert!(std::ptr::eq(state.reading.as_ref().unwrap().json(), first.json()));
}

#[test]
fn after_a_call_nothing_of_what_it_read_is_left_whether_or_not_the_guest_dropped_its_handles() {
    for drops in [false, true] {
        let mut state = state();
        let handle = state.handles.push_cached(packed().remove(0)).unwrap();
        READS[0](&mut state, borrow(&handle));
        if drops {
            HostObject::drop(&mut import_call(&mut state), handle).unwrap();
        }
        state.end();
        assert!(state.reading.is_none() && state.handles.is_empty(), "dropped by the guest: {drops}");
    }
}

#[test]
fn an_object_that_is_read_alone_is_read_from_the_text_that_the_cache_shares() {
    let packed = packed();
    let held = packed[0].held().clone();
    // The cache returns objects that are read often in this way: all handles share one text.
    let body = Arc::<Body>::default();
    let shared = || held.object_sharing(body.clone());
    let mut state = state_with(Some(shared()));
    let text = shared().json().as_ptr();
    let kind = Gvk::new("", "v1", "ConfigMap");
    let kind = crate::imports::v0_1::wit_kind(&kind);
    let key = crate::imports::v0_1::wit_key(held.key());
    let handle = cache::Host::get(&mut import_call(&mut state), kind, key).unwrap().unwrap().unwrap();
    assert!(import_call(&mut state).get(borrow(&handle), "/data/n".to_owned()).unwrap().is_some());
    assert_eq!(state.reading.as_ref().map(|object| object.json().as_ptr()), Some(text));
    assert!(!keeps_text(state.handles.object(&handle).unwrap()));
}

/// A state with these limits and the handle of an object with a field of a megabyte.
fn large(limits: Limits) -> (StoreState, Resource<Object>) {
    let mut state = StoreState::new(Arc::new(OneObject::default()), limits, Arc::default());
    let json = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"},
        "data": {"first": "1", "large": "x".repeat(1 << 20)},
    });
    let handle = state.handles.push_cached(Object::decode(json.to_string().as_bytes()).unwrap()).unwrap();
    state.begin(CallContext::default(), Instant::now());
    (state, handle)
}

fn fault(result: wasmtime::Result<impl std::fmt::Debug>) -> String {
    result.unwrap_err().downcast_ref::<OverLimit>().expect("a limit is named").to_string()
}

#[test]
fn get_many_answers_a_bounded_number_of_pointers_and_never_the_whole_object() {
    let (mut state, handle) = large(Limits { get_many_pointers: 3, ..Limits::default() });
    let pointers = |n: usize| vec!["/data/first".to_owned(); n];
    assert_eq!(import_call(&mut state).get_many(borrow(&handle), pointers(3)).unwrap().len(), 3);
    let message = fault(import_call(&mut state).get_many(borrow(&handle), pointers(4)));
    assert!(message.contains("4 pointers") && message.contains("limits.getManyPointers"), "{message}");
    let message =
        fault(import_call(&mut state).get_many(borrow(&handle), vec!["/data/first".into(), String::new()]));
    assert!(message.contains("empty pointer") && message.contains("`bytes`"), "{message}");
}

#[test]
fn an_answer_beyond_its_bytes_is_refused_before_it_is_collected() {
    let (mut state, handle) = large(Limits { answer_bytes: 5 << 19, ..Limits::default() });
    let many = |n: usize| vec!["/data/large".to_owned(); n];
    assert_eq!(import_call(&mut state).get_many(borrow(&handle), many(2)).unwrap().len(), 2);
    let message = fault(import_call(&mut state).get_many(borrow(&handle), many(64)));
    assert!(message.contains("get-many") && message.contains("limits.answerBytes"), "{message}");

    let (mut state, handle) = large(Limits { answer_bytes: 1 << 19, ..Limits::default() });
    assert!(
        fault(import_call(&mut state).get(borrow(&handle), "/data/large".to_owned()))
            .contains("limits.answerBytes")
    );
    assert!(
        fault(import_call(&mut state).get(borrow(&handle), String::new())).contains("limits.answerBytes")
    );
    assert!(fault(import_call(&mut state).bytes(borrow(&handle))).contains("limits.answerBytes"));
}

#[test]
fn get_many_stops_when_the_budget_is_used() {
    let (mut state, handle) = large(Limits { cpu_per_call: Duration::ZERO, ..Limits::default() });
    let error = import_call(&mut state).get_many(borrow(&handle), vec!["/data/first".into()]).unwrap_err();
    assert!(state.budget.exceeded() && error.downcast_ref::<OverLimit>().is_none(), "{error}");
}

#[test]
fn a_cursor_gives_at_most_a_page_and_goes_on_where_it_was() {
    let mut state = StoreState::new(
        Arc::new(OneObject::default()),
        Limits { page_objects: 30, ..Limits::default() },
        Arc::default(),
    );
    let cursor: Resource<Cursor> =
        state.handles.push(Entry::Cursor(Cursor(Box::new(packed().into_iter()))), 0).unwrap();
    let mut names = std::collections::BTreeSet::new();
    for wanted in [30, 30, 30, 10, 0] {
        let page =
            HostCursor::next(&mut import_call(&mut state), Resource::new_borrow(cursor.rep()), u32::MAX)
                .unwrap();
        assert_eq!(page.len(), wanted);
        names.extend(page.iter().map(|handle| state.handles.object(handle).unwrap().name().to_owned()));
    }
    assert_eq!(names.len(), 100);
}

#[test]
fn keys_and_index_values_are_bounded_by_the_bytes_of_their_answer() {
    /// A list without an end, of objects that are not shown.
    struct Hidden;
    impl ObjectCursor for Hidden {
        fn visit(&mut self, visit: &mut dyn FnMut(Option<Object>) -> ControlFlow<()>) {
            let end = (0..100_000_000_u32).find(|_| visit(None).is_break());
            assert!(end.is_some(), "the list has no end");
        }

        fn remaining(&self, look: &mut dyn FnMut() -> ControlFlow<()>) -> Option<usize> {
            let end = (0..100_000_000_u32).find(|_| look().is_break());
            assert!(end.is_some(), "the list has no end");
            None
        }
    }
    /// Objects, and the value that an index has again and again; none: it and the objects are not shown.
    struct Many(Vec<Object>, Option<&'static str>);
    impl CacheImports for Many {
        fn cache_list(&self, _: &Gvk, _: CacheQuery<'_>) -> Result<Box<dyn ObjectCursor>, Refusal> {
            Ok(if self.1.is_some() { Box::new(self.0.clone().into_iter()) } else { Box::new(Hidden) })
        }

        fn cache_index_values(
            &self,
            _: &Gvk,
            _: &str,
            visit: &mut dyn FnMut(Option<&str>) -> ControlFlow<()>,
        ) -> Result<(), Refusal> {
            let mut visited = 0;
            while visit(self.1).is_continue() {
                visited += 1;
                assert!(visited <= 100_000_000, "the values have no end");
            }
            Ok(())
        }
    }
    impl ConfigImports for Many {}
    impl LogImports for Many {}
    impl ClientImports for Many {}
    impl EventImports for Many {}
    impl HttpImports for Many {}
    impl MetricImports for Many {}
    impl QueueImports for Many {}
    impl SystemImports for Many {}
    let kind = || crate::imports::v0_1::wit_kind(&Gvk::new("", "v1", "ConfigMap"));
    let state = |answer_bytes| {
        let limits = Limits { answer_bytes, ..Limits::default() };
        StoreState::new(Arc::new(Many(packed(), Some("a value"))), limits, Arc::default())
    };
    // Two texts a key: a namespace of one byte and a name of two or three.
    let keys =
        |answer_bytes| cache::Host::keys(&mut import_call(&mut state(answer_bytes)), kind(), String::new());
    assert_eq!(keys(100 * 20).unwrap().unwrap().len(), 100);
    assert!(fault(keys(99 * 19)).contains("the answer of keys exceeds 1881 bytes (limits.answerBytes)"));
    let values = cache::Host::index_values(&mut import_call(&mut state(1 << 20)), kind(), String::new());
    assert!(fault(values).contains("the answer of index-values"));
    // Values that are not shown have no bytes in the answer, and are charged as CPU.
    let limits = Limits { cpu_per_call: Duration::from_millis(5), ..Limits::default() };
    let mut hidden = StoreState::new(Arc::new(Many(Vec::new(), None)), limits, Arc::default());
    let mut spent = |read: &mut dyn FnMut(&mut ImportCall<'_>) -> wasmtime::Result<()>| {
        hidden.begin(CallContext::default(), Instant::now());
        let spent = read(&mut import_call(&mut hidden)).unwrap_err();
        assert!(spent.to_string().contains("CPU budget"), "{spent}");
    };
    spent(&mut |call| cache::Host::index_values(call, kind(), String::new()).map(drop));
    // Neither has what a list looks at and does not show.
    spent(&mut |call| cache::Host::keys(call, kind(), String::new()).map(drop));
    let cursor = |call: &mut ImportCall<'_>| cache::Host::list(call, kind(), String::new()).unwrap().unwrap();
    spent(&mut |call| {
        let cursor = cursor(call);
        cache::HostCursor::next(call, cursor, 1).map(drop)
    });
    spent(&mut |call| {
        let cursor = cursor(call);
        cache::HostCursor::remaining(call, cursor).map(drop)
    });
}
