//! The JSON options of 0.1: malformed ones are refused, and the host gets the others typed.

use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_object::Gvk;
use pilothouse_plugin::Limits;

use super::wit;
use crate::host::{
    CacheImports, CacheQuery, CallContext, CallOptions, CallPreconditions, ClientAnswer, ClientCall,
    ClientFuture, ClientImports, ConfigImports, Dependents, EventImports, EventOptions, GuestEvent,
    HttpImports, LogImports, MetricImports, ObjectCursor, QueueImports, Refusal, SystemImports,
};
use crate::imports::import_call;
use crate::state::StoreState;

/// Remembers what it was asked.
#[derive(Default)]
struct Recording {
    queries: Mutex<Vec<(String, String)>>,
    calls: Mutex<Vec<CallOptions>>,
    events: Mutex<Vec<Result<EventOptions, Refusal>>>,
}

impl CacheImports for Recording {
    fn cache_list(&self, _: &Gvk, query: CacheQuery<'_>) -> Result<Box<dyn ObjectCursor>, Refusal> {
        self.queries.lock().push((query.namespace.to_owned(), query.label_selector.to_owned()));
        Ok(Box::new(Vec::new().into_iter()))
    }
}

impl ClientImports for Recording {
    fn client(&self, call: ClientCall) -> ClientFuture {
        self.calls.lock().push(call.options);
        Box::pin(std::future::ready(Ok(ClientAnswer::Deleted(None))))
    }
}

impl EventImports for Recording {
    fn record_event(&self, _: &CallContext, event: GuestEvent) -> Result<(), Refusal> {
        self.events.lock().push(event.options.clone());
        event.options.map(drop)
    }
}

impl ConfigImports for Recording {}
impl HttpImports for Recording {}
impl LogImports for Recording {}
impl MetricImports for Recording {}

impl QueueImports for Recording {}
impl SystemImports for Recording {}

fn state() -> (Arc<Recording>, StoreState) {
    let host = Arc::new(Recording::default());
    (Arc::clone(&host), StoreState::new(host, Limits::default(), Arc::default()))
}

fn kind() -> wit::types::Gvk {
    wit::types::Gvk { group: String::new(), version: "v1".to_owned(), kind: "ConfigMap".to_owned() }
}

fn key(name: &str) -> wit::types::ObjectKey {
    wit::types::ObjectKey { namespace: Some("a".to_owned()), name: name.to_owned() }
}

#[test]
fn a_query_is_read_and_one_that_cannot_be_is_refused() {
    let (host, mut state) = state();
    let mut list = |query: &str| {
        let listed = wit::cache::Host::list(&mut import_call(&mut state), kind(), query.to_owned()).unwrap();
        listed.map(drop).map_err(|error| (error.reason, error.message))
    };
    list("").unwrap();
    list(r#"{"namespace": "a", "labelSelector": "app=web"}"#).unwrap();
    for (query, why) in [("{", "query: EOF"), (r#"{"names": 1}"#, "query: unknown field `names`")] {
        let (reason, message) = list(query).unwrap_err();
        assert!(reason == "invalid" && message.starts_with(why), "{reason}: {message}");
    }
    let all = [("", ""), ("a", "app=web")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(*host.queries.lock(), all);
}

#[tokio::test]
async fn options_of_live_calls_are_read_and_those_that_cannot_be_are_refused() {
    let (host, mut state) = state();
    let mut delete = async |options: &str| {
        let mut call = import_call(&mut state);
        let deleted = wit::client::Host::delete(&mut call, kind(), key("x"), options.to_owned()).await;
        deleted.unwrap().map_err(|error| (error.code, error.reason, error.message))
    };
    delete("").await.unwrap();
    delete(r#"{"preconditions": {"uid": "u"}, "propagationPolicy": "Orphan", "gracePeriodSeconds": 3}"#)
        .await
        .unwrap();
    // Preconditions without any are given: verbs that have none refuse them.
    delete(r#"{"preconditions": {}}"#).await.unwrap();
    for (options, why) in [
        ("[", "options: EOF"),
        (r#"{"dryrun": true}"#, "options: unknown field `dryrun`"),
        (r#"{"propagationPolicy": "orphan"}"#, "options: unknown variant `orphan`"),
    ] {
        let (code, reason, message) = delete(options).await.unwrap_err();
        assert!(code == 0 && reason == "invalid" && message.starts_with(why), "{reason}: {message}");
    }
    let none = CallOptions::default;
    let uid = CallPreconditions { uid: Some("u".to_owned()), resource_version: None };
    let orphan = CallOptions {
        preconditions: Some(uid),
        propagation: Some(Dependents::Orphan),
        grace_period_seconds: Some(3),
        ..none()
    };
    let empty = CallOptions { preconditions: Some(CallPreconditions::default()), ..none() };
    assert_eq!(*host.calls.lock(), [none(), orphan, empty]);
    let mut call = import_call(&mut state);
    let patched =
        wit::client::Host::patch(&mut call, kind(), key("x"), "strange".to_owned(), vec![], String::new());
    let message = patched.await.unwrap().unwrap_err().message;
    assert_eq!(message, "patch type \"strange\": use json, merge, strategic or apply");
}

#[test]
fn the_host_hears_of_options_of_events_that_cannot_be_read() {
    let (host, mut state) = state();
    let mut record = |name: &str, options: &str| {
        let regarding = wit::events::Regarding::Reference(wit::events::Reference {
            kind: kind(),
            key: key(name),
            uid: String::new(),
            resource_version: String::new(),
        });
        let [event_type, reason, action, note] = ["Normal", "R", "", ""].map(str::to_owned);
        let mut call = import_call(&mut state);
        let options = options.to_owned();
        let recorded =
            wit::events::Host::record(&mut call, regarding, None, event_type, reason, action, note, options);
        recorded.unwrap().map_err(|error| error.message)
    };
    record("x", r#"{"fieldPath": "data", "annotations": {"a": "b"}}"#).unwrap();
    assert!(record("x", r#"{"labels": {}}"#).unwrap_err().contains("unknown field `labels`"));
    // A key that is none comes first, and the host hears nothing.
    assert!(record("x/y", "{").unwrap_err().contains("key"));
    let events = host.events.lock();
    let annotations = [("a".to_owned(), "b".to_owned())].into();
    let first = EventOptions { annotations, field_path: "data".to_owned(), timestamp: None };
    assert!(events.len() == 2 && events[0] == Ok(first) && events[1].is_err(), "{events:?}");
}
