//! The amount of unpacked text that stays in the host when a guest reads packed objects.

use std::sync::Arc;

use pilothouse_object::{Body, Dictionary, Gvk, ObjectKey};

use super::*;
use crate::bindings::pilothouse::controller::cache::{self, HostCursor};
use crate::host::{
    CacheImports, ClientImports, ConfigImports, EventImports, HostImports, HttpImports, LogImports,
    QueueImports, Refusal,
};
use crate::imports::Cursor;
use crate::wasi;

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

impl QueueImports for OneObject {}

/// A method with which a guest reads an object.
type Read = fn(&mut StoreState, Resource<Object>);

/// All methods that need the text.
const READS: [Read; 4] = [
    |state, object| assert!(state.get(object, "/data/n".to_owned()).unwrap().is_some()),
    |state, object| assert_eq!(state.get_many(object, vec![String::new(), "/no".into()]).unwrap().len(), 2),
    |state, object| assert!(state.bytes(object).unwrap().starts_with(b"{")),
    |state, object| assert_eq!(state.annotations(object).unwrap().len(), 1),
];

fn state() -> StoreState {
    state_with(None)
}

fn state_with(object: Option<Object>) -> StoreState {
    let host: Arc<dyn HostImports> = Arc::new(OneObject(object));
    let wasi = wasi::context(&host);
    StoreState::new(host, 0, wasi)
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
    let cursor = state.handles.push(cursor).unwrap();
    let handles = HostCursor::next(&mut state, cursor, 100).unwrap();
    assert_eq!(handles.len(), 100);
    for read in READS {
        for handle in &handles {
            read(&mut state, borrow(handle));
        }
        let kept = handles.iter().filter(|handle| keeps_text(state.object(handle).unwrap())).count();
        assert_eq!(kept, 0, "beside the one that was read last");
    }
    assert!(state.reading.as_ref().unwrap().is_same(state.object(&handles[99]).unwrap()));
}

#[test]
fn one_object_that_is_read_again_and_again_is_unpacked_once() {
    let mut state = state();
    let handle = state.handles.push(packed().remove(0)).unwrap();
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
        let handle = state.handles.push(packed().remove(0)).unwrap();
        READS[0](&mut state, borrow(&handle));
        if drops {
            HostObject::drop(&mut state, handle).unwrap();
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
    let kind = crate::instance::wit_kind(&kind);
    let key = crate::instance::wit_key(held.key());
    let handle = cache::Host::get(&mut state, kind, key).unwrap().unwrap().unwrap();
    assert!(state.get(borrow(&handle), "/data/n".to_owned()).unwrap().is_some());
    assert_eq!(state.reading.as_ref().map(|object| object.json().as_ptr()), Some(text));
    assert!(!keeps_text(state.handles.get(&handle).unwrap()));
}
