//! What guests may ask: bounds with their refusals, the order of lists, options, and values at pointers.

mod builders;
mod cache;
mod objects;
mod remote;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::Mutex;
use pilothouse_object::{Gvk, Object};
use pilothouse_plugin::Limits;
use wasmtime::component::Resource;

use super::*;
use crate::bindings::pilothouse::controller as api;
use crate::host::{
    CacheImports, CacheQuery, CallContext, CallOptions, ClientAnswer, ClientCall, ClientFuture,
    ClientImports, ClientVerb, ConfigImports, EventImports, EventOptions, EventTarget, GuestEvent,
    GuestMetric, HttpImports, LogImports, MetricChange, MetricImports, MetricSpec, ObjectCursor,
    QueueImports, SystemImports, VersionMatch,
};
use crate::imports::{Kind, import_call};

/// A cache with these objects, and a memory of what it was asked.
#[derive(Default)]
struct Recording {
    objects: Vec<Object>,
    values: Vec<&'static str>,
    queries: Mutex<Vec<String>>,
    /// Names of remote clusters.
    remote: Vec<&'static str>,
    calls: Mutex<Vec<CallOptions>>,
    /// The clusters of `calls`.
    sent_to: Mutex<Vec<u32>>,
    events: Mutex<Vec<GuestEvent>>,
    is_quota_used: AtomicBool,
    metrics: Mutex<Vec<String>>,
    queued: Mutex<Vec<(Vec<ObjectKey>, i32)>>,
}

impl CacheImports for Recording {
    fn cache_get(&self, _: &Gvk, key: &ObjectKey) -> Result<Option<Object>, Refusal> {
        Ok(self.objects.iter().find(|object| object.key() == key).cloned())
    }

    fn cache_list(&self, _: &Gvk, query: CacheQuery<'_>) -> Result<Box<dyn ObjectCursor>, Refusal> {
        self.queries.lock().push(format!("{query:?}"));
        Ok(Box::new(self.objects.clone().into_iter()))
    }

    fn cache_index_values(
        &self,
        _: &Gvk,
        _: &str,
        visit: &mut dyn FnMut(Option<&str>) -> ControlFlow<()>,
    ) -> Result<(), Refusal> {
        _ = self.values.iter().try_for_each(|value| visit(Some(value)));
        Ok(())
    }
}

impl ClientImports for Recording {
    fn clusters(&self) -> Arc<[String]> {
        std::iter::once("home").chain(self.remote.iter().copied()).map(str::to_owned).collect()
    }

    fn client(&self, call: ClientCall) -> ClientFuture {
        self.calls.lock().push(call.options);
        self.sent_to.lock().push(call.cluster);
        let answer = match call.verb {
            ClientVerb::Get(key) => ClientAnswer::Object(object(key.as_str())),
            ClientVerb::List => ClientAnswer::Page {
                items: vec![object("a/x")],
                continue_token: None,
                resource_version: "1".to_owned(),
                remaining_items: None,
            },
            _ => ClientAnswer::Deleted(None),
        };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

impl EventImports for Recording {
    fn record_event(&self, _: &CallContext, event: GuestEvent) -> Result<(), Refusal> {
        if self.is_quota_used.load(Relaxed) {
            return Err(Refusal::over_limit("limits.eventQPS"));
        }
        self.events.lock().push(event);
        Ok(())
    }
}

impl SystemImports for Recording {}

impl QueueImports for Recording {
    fn queue_room(&self, keys: &[ObjectKey]) -> Result<(), Refusal> {
        if keys.len() > 2 { Err(Refusal::over_limit("the queue is full")) } else { Ok(()) }
    }

    fn queue_add(&self, keys: Vec<ObjectKey>, priority: i32) {
        self.queued.lock().push((keys, priority));
    }
}

impl ConfigImports for Recording {}
impl HttpImports for Recording {}
impl LogImports for Recording {}

impl MetricImports for Recording {
    fn metric_declare(&self, spec: MetricSpec) -> Result<Arc<dyn GuestMetric>, Refusal> {
        struct Silent;
        impl GuestMetric for Silent {
            fn change(&self, _: &[String], _: MetricChange) -> Result<(), Refusal> {
                Ok(())
            }
        }
        self.metrics.lock().push(spec.name);
        Ok(Arc::new(Silent))
    }
}

fn object(key: &str) -> Object {
    let (namespace, name) = key.split_once('/').unwrap();
    let json = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name, "finalizers": ["a/b"], "creationTimestamp": "2026-11-24T12:00:00Z"},
        "data": {"text": "a\"b", "n": 7, "yes": true, "none": null, "f": 1.5, "list": [{"x": 1}, {}, {"x": "2"}]},
    });
    Object::decode(json.to_string().as_bytes()).unwrap()
}

fn state(host: Recording) -> (Arc<Recording>, StoreState) {
    let host = Arc::new(host);
    let mut state = StoreState::new(Arc::clone(&host) as _, Limits::default(), Arc::default());
    state.begin(CallContext::default(), Instant::now());
    (host, state)
}

/// A state with room for so many handles.
fn state_with_room(handles: usize, host: Recording) -> StoreState {
    let limits = Limits { handle_bytes: handles << 10, ..Limits::default() };
    let mut state = StoreState::new(Arc::new(host), limits, Arc::default());
    state.begin(CallContext::default(), Instant::now());
    state
}

fn kind(state: &mut StoreState) -> Resource<Kind> {
    kind_in(state, 0).unwrap()
}

fn kind_in(state: &mut StoreState, cluster: u32) -> Result<Resource<Kind>, Refused> {
    let [group, version, kind] = ["", "v1", "ConfigMap"].map(str::to_owned);
    api::kinds::Host::resolve(&mut import_call(state), cluster, group, version, kind)
}

/// Another handle, as the guest lends one.
fn lent<T: 'static>(handle: &Resource<T>) -> Resource<T> {
    Resource::new_borrow(handle.rep())
}

fn refusal<T>(answer: Result<T, Refused>) -> (RefusalReason, String) {
    match answer.map(drop).unwrap_err() {
        Refused::Refusal(refusal) => (refusal.reason, refusal.message),
        Refused::Trap(trap) => panic!("{trap}"),
    }
}

fn call_refusal<T>(answer: Result<T, CallFailed>) -> (RefusalReason, String) {
    match answer.map(drop).unwrap_err() {
        CallFailed::Error(ClientError::Refused(refusal)) => (refusal.reason, refusal.message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn kinds_are_bounded_and_of_the_cluster_of_the_host() {
    use api::kinds::{Host, HostKind};
    let (_, mut state) = state(Recording::default());
    let mut resolve = |cluster, text: &str| {
        let mut call = import_call(&mut state);
        call.resolve(cluster, text.to_owned(), "v1".to_owned(), "X".to_owned())
    };
    assert_eq!(refusal(resolve(1, "")).0, RefusalReason::Unsupported);
    assert_eq!(refusal(resolve(0, &"x".repeat(254))).0, RefusalReason::Invalid);
    let kinds: Vec<_> = (0..256).map(|_| resolve(0, "").unwrap()).collect();
    let over = refusal(resolve(0, ""));
    assert!(over.0 == RefusalReason::OverLimit && over.1.contains("256 kinds"), "{over:?}");
    // The number of one that is dropped is free again.
    HostKind::drop(&mut import_call(&mut state), lent(&kinds[7])).unwrap();
    let mut call = import_call(&mut state);
    let again = call.resolve(0, "g".to_owned(), "v2".to_owned(), "Y".to_owned()).unwrap();
    assert_eq!(again.rep(), kinds[7].rep());
    assert_eq!(
        (call.group(lent(&again)).unwrap(), call.name(again).unwrap()),
        ("g".to_owned(), "Y".to_owned())
    );
}

#[test]
fn values_at_pointers_are_typed_and_malformed_pointers_are_refused() {
    use api::objects::HostObject;
    let (_, mut state) = state(Recording::default());
    let object = state.handles.push_cached(object("a/x")).unwrap();
    let mut call = import_call(&mut state);
    let at = |pointer: &str| (lent(&object), pointer.to_owned());
    macro_rules! get {
        ($method:ident, $pointer:expr) => {{
            let (this, pointer) = at($pointer);
            call.$method(this, pointer)
        }};
    }
    assert_eq!(get!(get_string, "/data/text").unwrap().as_deref(), Some("a\"b"));
    assert_eq!(get!(get_int, "/data/n").unwrap(), Some(7));
    assert_eq!(get!(get_bool, "/data/yes").unwrap(), Some(true));
    for nothing in ["/data/none", "/data/absent", "/absent/x"] {
        assert_eq!(get!(get_string, nothing).unwrap(), None);
        assert_eq!(get!(get_int, nothing).unwrap(), None);
    }
    assert!(get!(exists, "/data/none").unwrap() && !get!(exists, "/data/absent").unwrap());
    assert!(get!(exists, "/data/list[*]/x").unwrap() && !get!(exists, "/data/list[*]/y").unwrap());
    assert!(!get!(exists, "/data/absent/[*]").unwrap());
    for long in [format!("/{}/[*]", "x".repeat(4096)), format!("{}/[*]", "/a".repeat(64))] {
        refusal(get!(exists, &long));
    }
    assert_eq!(get!(get, "/data/list/[*]/x").unwrap().as_deref(), Some(r#"[1,"2"]"#));
    assert_eq!(get!(get, "/data/none").unwrap().as_deref(), Some("null"));
    let wrong = refusal(get!(get_int, "/data/f"));
    assert!(wrong.1.contains("is no integer of 64 bits: 1.5"), "{wrong:?}");
    assert!(refusal(get!(get_string, "/data/n")).1.contains("is no string: 7"));
    assert!(refusal(get!(get_bool, "/data/text")).1.contains("is no boolean"));
    for malformed in ["data", "/a~2", "/a~", "a[*]"] {
        assert_eq!(refusal(get!(get, malformed)).0, RefusalReason::Invalid, "{malformed}");
    }
    let long = format!("/{}", "x".repeat(4096));
    assert_eq!(refusal(get!(exists, &long)).0, RefusalReason::OverLimit);
    let many = refusal(call.get_many(lent(&object), vec!["/data/n".to_owned(); 65]));
    assert!(many.1.contains("limits.getManyPointers"), "{many:?}");
    assert_eq!(refusal(call.get_many(lent(&object), vec![String::new()])).0, RefusalReason::Invalid);
    assert_eq!(call.finalizers(lent(&object)).unwrap(), ["a/b"]);
    assert_eq!(call.creation_timestamp(lent(&object)).unwrap().as_deref(), Some("2026-11-24T12:00:00Z"));
    assert!(call.bytes(object).unwrap().starts_with(b"{"));
}

#[test]
fn answers_are_bounded() {
    use api::objects::HostObject;
    let (_, mut state) = state(Recording::default());
    state.limits.answer_bytes = 16;
    let object = state.handles.push_cached(object("a/x")).unwrap();
    let mut call = import_call(&mut state);
    for pointer in ["", "/data", "/data/list[*]"] {
        let over = refusal(call.get(lent(&object), pointer.to_owned()));
        assert!(over.0 == RefusalReason::OverLimit && over.1.contains("limits.answerBytes"), "{over:?}");
    }
    assert_eq!(refusal(call.bytes(object)).0, RefusalReason::OverLimit);
}

#[tokio::test]
async fn options_of_live_calls_are_passed_on_and_bad_ones_are_refused() {
    use api::client::{FieldValidation, HostOptions, Propagation};
    let (host, mut state) = state(Recording::default());
    let kind = kind(&mut state);
    let mut call = import_call(&mut state);
    let options = HostOptions::new(&mut call).unwrap();
    HostOptions::subresource(&mut call, lent(&options), "status".to_owned()).unwrap();
    call.field_validation(lent(&options), FieldValidation::Strict).unwrap();
    call.propagation(lent(&options), Propagation::Orphan).unwrap();
    call.precondition_uid(lent(&options), "u".to_owned()).unwrap();
    HostOptions::resource_version(
        &mut call,
        lent(&options),
        "5".to_owned(),
        Some(api::client::VersionMatch::Exact),
    )
    .unwrap();
    let delete = api::client::Host::delete(
        &mut call,
        lent(&kind),
        "a".to_owned(),
        "x".to_owned(),
        Some(lent(&options)),
    );
    assert!(delete.await.unwrap().is_none());
    {
        let calls = host.calls.lock();
        assert_eq!(calls[0].subresource.as_deref(), Some("status"));
        assert_eq!(calls[0].field_validation.as_deref(), Some("Strict"));
        assert_eq!(calls[0].preconditions.as_ref().unwrap().uid.as_deref(), Some("u"));
        assert_eq!(calls[0].version_match, Some(VersionMatch::Exact));
    }
    // A text that is too long, and a name that is none.
    HostOptions::namespace(&mut call, lent(&options), "x".repeat(MAX_TEXT + 1)).unwrap();
    let list = api::client::Host::list(&mut call, lent(&kind), Some(lent(&options))).await;
    assert_eq!(call_refusal(list).0, RefusalReason::Invalid);
    let get = api::client::Host::get(&mut call, lent(&kind), "a".to_owned(), "x/y".to_owned(), None).await;
    assert_eq!(call_refusal(get).0, RefusalReason::Invalid);
    let large = api::client::Host::create(&mut call, lent(&kind), vec![b' '; (3 << 20) + 1], None).await;
    let large = call_refusal(large);
    assert!(large.0 == RefusalReason::OverLimit && large.1.contains("3145728"), "{large:?}");
    let log = api::client::Host::pod_log(&mut call, 3, "a".to_owned(), "x".to_owned(), None).await;
    assert_eq!(call_refusal(log).0, RefusalReason::Unsupported);
    assert_eq!(host.calls.lock().len(), 1, "nothing else was sent");
}

#[test]
fn a_metric_without_a_handle_is_not_declared() {
    use api::metrics::{Host, HostMetric, MetricKind};
    let (host, mut state) = state(Recording::default());
    let mut call = import_call(&mut state);
    let declare = |call: &mut ImportCall<'_>, name: &str| {
        call.declare(MetricKind::Gauge, name.to_owned(), String::new(), Vec::new(), Vec::new())
    };
    let metrics: Vec<_> = (0..256).map(|_| declare(&mut call, "x").unwrap()).collect();
    let (reason, message) = refusal(declare(&mut call, "more"));
    assert!(reason == RefusalReason::OverLimit && message.contains("256 handles"), "{message}");
    assert!(!host.metrics.lock().contains(&"more".to_owned()));
    HostMetric::drop(&mut call, lent(&metrics[3])).unwrap();
    declare(&mut call, "more").unwrap();
}

#[test]
fn keys_are_added_all_or_none_and_only_to_this_cluster() {
    use api::queue::Host;
    let (host, mut state) = state(Recording::default());
    let mut call = import_call(&mut state);
    let key = |name: &str| wit::types::ObjectKey { namespace: "a".to_owned(), name: name.to_owned() };
    call.add(0, key("x"), 5).unwrap();
    call.add_many(0, vec![key("x"), key("y")], -1).unwrap();
    assert_eq!(refusal(call.add(1, key("x"), 0)).0, RefusalReason::Unsupported);
    assert_eq!(refusal(call.add(0, key("x/y"), 0)).0, RefusalReason::Invalid);
    assert_eq!(refusal(call.add_many(0, vec![key("x"), key("")], 0)).0, RefusalReason::Invalid);
    assert_eq!(refusal(call.add_many(0, vec![key("x"); 3], 0)).0, RefusalReason::OverLimit);
    assert!(refusal(call.add_many(0, vec![key("x"); 16_385], 0)).1.contains("16384"));
    assert_eq!(call.num_requeues(9, key("x")).unwrap(), 0);
    let added: Vec<_> = host.queued.lock().iter().map(|(keys, priority)| (keys.len(), *priority)).collect();
    assert_eq!(added, [(1, 5), (2, -1)]);
}

#[test]
fn times_are_as_the_api_writes_them() {
    use api::clock::Host;
    let (_, mut state) = state(Recording::default());
    let mut call = import_call(&mut state);
    let text = call.now_rfc3339().unwrap();
    let time: jiff::Timestamp = text.parse().unwrap();
    assert!(text.len() == 20 && text.ends_with('Z'), "{text}");
    assert!(call.now().unwrap().abs_diff(u64::try_from(time.as_millisecond()).unwrap()) < 60_000);
}
