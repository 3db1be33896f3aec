//! The amount of unpacked text that stays in the host when a guest reads packed objects, and what a read may cost.

use std::time::Duration;

use api::cache::HostCursor;
use api::objects::HostObject;
use pilothouse_object::{Body, Dictionary};

use super::*;
use crate::handles::Entry;
use crate::imports::Cursor;

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

#[test]
fn a_guest_that_reads_many_packed_objects_in_one_call_keeps_one_text_unpacked() {
    let (_, mut state) = state(Recording::default());
    let cursor = Cursor(Box::new(packed().into_iter()));
    let cursor: Resource<Cursor> = state.handles.push(Entry::Cursor(cursor), 0).unwrap();
    let handles = HostCursor::next(&mut import_call(&mut state), cursor, 100).unwrap();
    assert_eq!(handles.len(), 100);
    for read in READS {
        for handle in &handles {
            read(&mut state, lent(handle));
        }
        let kept = handles.iter().filter(|handle| keeps_text(state.handles.object(handle).unwrap())).count();
        assert_eq!(kept, 0, "beside the one that was read last");
    }
    assert!(state.reading.as_ref().unwrap().is_same(state.handles.object(&handles[99]).unwrap()));
}

#[test]
fn one_object_that_is_read_again_and_again_is_unpacked_once() {
    let (_, mut state) = state(Recording::default());
    let handle = state.handles.push_cached(packed().remove(0)).unwrap();
    READS[0](&mut state, lent(&handle));
    // Kept alive, so that no other text gets the same address.
    let first = state.reading.clone().unwrap();
    READS.iter().for_each(|read| read(&mut state, lent(&handle)));
    assert!(std::ptr::eq(state.reading.as_ref().unwrap().json(), first.json()));
}

#[test]
fn after_a_call_nothing_of_what_it_read_is_left_whether_or_not_the_guest_dropped_its_handles() {
    for drops in [false, true] {
        let (_, mut state) = state(Recording::default());
        let handle = state.handles.push_cached(packed().remove(0)).unwrap();
        READS[0](&mut state, lent(&handle));
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
    let (_, mut state) = state(Recording { objects: vec![shared()], ..Recording::default() });
    let text = shared().json().as_ptr();
    let kind = kind(&mut state);
    let [namespace, name] = ["a", held.key().name()].map(str::to_owned);
    let mut call = import_call(&mut state);
    let handle = api::cache::Host::get(&mut call, kind, namespace, name).unwrap().unwrap();
    drop(call);
    assert!(import_call(&mut state).get(lent(&handle), "/data/n".to_owned()).unwrap().is_some());
    assert_eq!(state.reading.as_ref().map(|object| object.json().as_ptr()), Some(text));
    assert!(!keeps_text(state.handles.object(&handle).unwrap()));
}

/// A state with these limits and the handle of an object with a field of a megabyte.
fn large(limits: Limits) -> (StoreState, Resource<Object>) {
    let mut state = StoreState::new(Arc::new(Recording::default()), limits, Arc::default());
    let json = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"},
        "data": {"first": "1", "large": "x".repeat(1 << 20)},
    });
    let handle = state.handles.push_cached(Object::decode(json.to_string().as_bytes()).unwrap()).unwrap();
    state.begin(CallContext::default(), Instant::now());
    (state, handle)
}

/// The message of a refusal beyond a limit.
fn over<T>(answer: Result<T, Refused>) -> String {
    let (reason, message) = refusal(answer);
    assert_eq!(reason, RefusalReason::OverLimit, "{message}");
    message
}

#[test]
fn get_many_answers_a_bounded_number_of_pointers_and_never_the_whole_object() {
    let (mut state, handle) = large(Limits { get_many_pointers: 3, ..Limits::default() });
    let pointers = |n: usize| vec!["/data/first".to_owned(); n];
    assert_eq!(import_call(&mut state).get_many(lent(&handle), pointers(3)).unwrap().len(), 3);
    let message = over(import_call(&mut state).get_many(lent(&handle), pointers(4)));
    assert!(message.contains("4 pointers") && message.contains("limits.getManyPointers"), "{message}");
    let whole = vec!["/data/first".into(), String::new()];
    let (reason, message) = refusal(import_call(&mut state).get_many(lent(&handle), whole));
    assert!(reason == RefusalReason::Invalid && message.contains("`bytes`"), "{message}");
}

#[test]
fn an_answer_beyond_its_bytes_is_refused_before_it_is_collected() {
    let (mut state, handle) = large(Limits { answer_bytes: 5 << 19, ..Limits::default() });
    let many = |n: usize| vec!["/data/large".to_owned(); n];
    assert_eq!(import_call(&mut state).get_many(lent(&handle), many(2)).unwrap().len(), 2);
    let message = over(import_call(&mut state).get_many(lent(&handle), many(64)));
    assert!(message.contains("get-many") && message.contains("limits.answerBytes"), "{message}");

    let (mut state, handle) = large(Limits { answer_bytes: 1 << 19, ..Limits::default() });
    assert!(
        over(import_call(&mut state).get(lent(&handle), "/data/large".to_owned()))
            .contains("limits.answerBytes")
    );
    assert!(over(import_call(&mut state).get(lent(&handle), String::new())).contains("limits.answerBytes"));
    assert!(over(import_call(&mut state).bytes(lent(&handle))).contains("limits.answerBytes"));
}

#[test]
fn get_many_stops_when_the_budget_is_used() {
    let (mut state, handle) = large(Limits { cpu_per_call: Duration::ZERO, ..Limits::default() });
    let spent = import_call(&mut state).get_many(lent(&handle), vec!["/data/first".into()]);
    assert!(matches!(spent, Err(Refused::Trap(trap)) if trap.to_string().contains("CPU budget")));
    assert!(state.budget.exceeded());
}

#[test]
fn a_cursor_gives_at_most_a_page_and_goes_on_where_it_was() {
    let (_, mut state) = state(Recording::default());
    state.limits.page_objects = 30;
    let cursor: Resource<Cursor> =
        state.handles.push(Entry::Cursor(Cursor(Box::new(packed().into_iter()))), 0).unwrap();
    let mut names = std::collections::BTreeSet::new();
    for wanted in [30, 30, 30, 10, 0] {
        let page = HostCursor::next(&mut import_call(&mut state), lent(&cursor), u32::MAX).unwrap();
        assert_eq!(page.len(), wanted);
        names.extend(page.iter().map(|handle| state.handles.object(handle).unwrap().name().to_owned()));
    }
    assert_eq!(names.len(), 100);
}
