//! What a live list hands a guest at most, on the development server.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use pilothouse_client::{ClientOptions, ObservedRequest, RequestObserver};
use pilothouse_devserver::{DevServer, DevServerOptions};
use pilothouse_engine::{CallContext, RefusalReason};
use pilothouse_object::Gvk;
use pilothouse_plugin::Rule;
use serde_json::json;

use super::*;
use crate::observe::audit::tests::AuditLines;
use crate::observe::host_events::HostEvents;
use crate::observe::traces::TRACE;
use crate::observe::traces::tests::Spans;

/// A plugin that may do all with ConfigMaps of one namespace.
pub(crate) struct Plugin {
    pub(crate) server: DevServer,
    pub(crate) api_calls: ApiCalls,
    requests: Arc<Requests>,
}

/// Counts the requests to the server.
#[derive(Default)]
struct Requests(AtomicUsize);

impl RequestObserver for Requests {
    fn request(&self, _: &ObservedRequest<'_>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Bytes that a call may answer.
const MAX_BYTES: usize = 64 << 20;

/// A page as far as the tests look: the names, and whether there are more.
pub(crate) type Names = (Vec<String>, Option<String>);

impl Plugin {
    pub(crate) async fn start() -> Self {
        let server = DevServer::start(DevServerOptions::default()).await.unwrap();
        let requests = Arc::<Requests>::default();
        let observer = Arc::clone(&requests) as Arc<dyn RequestObserver>;
        let options = ClientOptions {
            server: Some(server.url()),
            observer: Some(observer),
            ..ClientOptions::default()
        };
        let rules: Vec<Rule> = serde_json::from_value(json!([
            {"groups": [""], "resources": ["configmaps"], "verbs": ["list", "create"], "namespaces": ["default"]},
            {"groups": ["hostile.example"], "resources": ["*"], "verbs": ["get"], "namespaces": ["*"]},
        ]))
        .unwrap();
        let api_calls = ApiCalls {
            plugin: "plugin".into(),
            remote_cluster: None,
            denials: Arc::new(Denials::new(
                "plugin".into(),
                Arc::new(HostEvents::default().of("plugin".into())),
                crate::observe::metrics::PluginMetrics::of_test(),
            )),
            grants: Grants::new(rules),
            client: Client::new(options).await.unwrap(),
            availability: Availability::new(),
            work: Handle::current(),
            tasks: TaskTracker::new(),
            writes: Arc::default(),
            write_room: WriteRoom::default(),
            election: LeaderElection::disabled(),
            metrics: crate::observe::metrics::PluginMetrics::of_test(),
        };
        Self { server, api_calls, requests }
    }

    /// One of a host that does not lead.
    pub(crate) fn standing_by(mut self) -> (Self, impl Future<Output = ()>) {
        let (election, begin) = crate::leader_election::tests::standby();
        self.api_calls.election = election;
        (self, begin)
    }

    async fn call(&self, verb: ClientVerb, options: CallOptions) -> Result<ClientAnswer, ClientError> {
        self.call_for(Gvk::new("", "v1", "ConfigMap"), verb, options).await
    }

    async fn call_for(
        &self,
        kind: Gvk,
        verb: ClientVerb,
        options: CallOptions,
    ) -> Result<ClientAnswer, ClientError> {
        let context = CallContext::default();
        let call = ClientCall { cluster: 0, kind, verb, options, max_bytes: MAX_BYTES, context };
        self.api_calls.call(call).await
    }

    /// Makes objects of so many bytes and a little.
    async fn create(&self, count: usize, bytes: usize) {
        for n in 0..count {
            let body = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"text": "x".repeat(bytes)},
                "metadata": {"name": format!("x{n:04}"), "namespace": "default"},
            });
            self.call(ClientVerb::Create(body.to_string().into_bytes()), CallOptions::default())
                .await
                .unwrap();
        }
    }

    pub(crate) async fn list(&self, options: CallOptions) -> Result<Names, ClientError> {
        let options = CallOptions { namespace: in_default().namespace, ..options };
        match self.call(ClientVerb::List, options).await? {
            ClientAnswer::Page { items, continue_token, resource_version, remaining_items: _ } => {
                assert!(!resource_version.is_empty());
                Ok((items.iter().map(|object| object.name().to_owned()).collect(), continue_token))
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The options of calls for all objects of the namespace.
fn in_default() -> CallOptions {
    CallOptions { namespace: Some("default".to_owned()), ..CallOptions::default() }
}

pub(crate) fn limited(limit: u32) -> CallOptions {
    CallOptions { limit, ..CallOptions::default() }
}

fn from_cache(limit: u32) -> CallOptions {
    CallOptions { resource_version: Some("0".to_owned()), ..limited(limit) }
}

/// Why the host refused a call; none if the server did.
pub(crate) fn reason(error: &ClientError) -> Option<RefusalReason> {
    match error {
        ClientError::Refused(refusal) => Some(refusal.reason),
        ClientError::Api(_) => None,
    }
}

#[tokio::test]
async fn without_a_limit_and_with_one_too_large_a_list_comes_in_pages_of_500() {
    let plugin = Plugin::start().await;
    plugin.create(501, 0).await;
    for limit in [0, 501, u32::MAX] {
        let (first, token) = plugin.list(limited(limit)).await.unwrap();
        assert_eq!((first.len(), token.is_some()), (500, true), "limit {limit}");
        let (last, end) = plugin.list(CallOptions { continue_token: token, ..limited(limit) }).await.unwrap();
        assert_eq!((last, end), (vec!["x0500".to_owned()], None), "limit {limit}");
    }
    let (some, token) = plugin.list(limited(3)).await.unwrap();
    assert_eq!((some.len(), token.is_some()), (3, true));
    // The whole list as one page is no more than what this server has.
    let (all, token) = plugin.list(from_cache(0)).await.unwrap();
    assert_eq!((all.len(), token), (501, None));
    plugin.server.shutdown().await;
}

#[tokio::test]
async fn a_page_beyond_the_bytes_of_the_call_is_refused_with_the_way_out_and_smaller_pages_are_not() {
    const OBJECT: usize = 1_000_000;
    let plugin = Plugin::start().await;
    let too_many = MAX_BYTES / OBJECT + 1;
    plugin.create(too_many, OBJECT).await;
    // From version "0" the server answers with everything, whatever the limit.
    for options in [limited(0), from_cache(1)] {
        let error = plugin.list(options.clone()).await.unwrap_err();
        assert_eq!(reason(&error), Some(RefusalReason::OverLimit), "{options:?}");
        for way in ["67108864 bytes", "limits.handleBytes", "limit", "resourceVersion", "read the cache"] {
            assert!(error.message().contains(way), "{options:?}: {}", error.message());
        }
        assert!(plugin.api_calls.availability.is_up(), "the server is not to blame");
    }
    let (some, token) = plugin.list(limited(2)).await.unwrap();
    assert_eq!((some.len(), token.is_some()), (2, true));
    plugin.server.shutdown().await;
}

/// The server creates a Lease that an update does not find; `update` alone does not grant that.
#[tokio::test]
async fn an_update_that_may_create_needs_the_permission_to_create() {
    let mut plugin = Plugin::start().await;
    let grant = |verbs: &[&str]| {
        let rule: Rule = serde_json::from_value(json!({
            "groups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs, "namespaces": ["default"],
        }))
        .unwrap();
        Grants::new(vec![rule])
    };
    let update = async |calls: &ApiCalls, uid: &str| {
        let body = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "x", "namespace": "default", "uid": uid},
        });
        let kind = Gvk::new("coordination.k8s.io", "v1", "Lease");
        let verb = ClientVerb::Update(body.to_string().into_bytes());
        let (options, context) = Default::default();
        let call = ClientCall { cluster: 0, kind, verb, options, context, max_bytes: usize::MAX };
        calls.call(call).await
    };
    plugin.api_calls.grants = grant(&["update"]);
    let refused = update(&plugin.api_calls, "").await.unwrap_err();
    assert_eq!(reason(&refused), Some(RefusalReason::Forbidden));
    assert!(refused.message().contains("no permission to create leases"), "{}", refused.message());
    // With a UID nothing can be created, so the request is sent.
    let sent = update(&plugin.api_calls, "1").await.unwrap_err();
    assert_eq!(reason(&sent), None, "{sent:?}");
    plugin.api_calls.grants = grant(&["update", "create"]);
    let sent = update(&plugin.api_calls, "").await;
    assert!(sent.as_ref().err().is_none_or(|error| reason(error).is_none()), "{sent:?}");
    plugin.server.shutdown().await;
}

#[tokio::test]
async fn a_host_that_does_not_lead_reads_and_writes_nothing() {
    let (plugin, begin) = Plugin::start().await.standing_by();
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"},
    });
    let create = || plugin.call(ClientVerb::Create(body.to_string().into_bytes()), CallOptions::default());
    let refused = create().await.unwrap_err();
    assert_eq!(reason(&refused), Some(RefusalReason::Unavailable));
    assert!(refused.message().contains("not the leader"), "{}", refused.message());
    assert_eq!(plugin.list(limited(0)).await.unwrap().0, [""; 0]);
    let late = || plugin.api_calls.metrics.late_writes.get();
    assert_eq!(late(), 0, "there was no term yet");
    begin.await;
    create().await.unwrap();
    assert_eq!(plugin.list(limited(0)).await.unwrap().0, ["x"]);
    // The term is over by the clock, and nobody has said so.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(10)).await;
    tokio::time::resume();
    assert_eq!(reason(&create().await.unwrap_err()), Some(RefusalReason::Unavailable));
    assert_eq!(late(), 1);
    // The client asks last, for what waited since the first look.
    let ApiCalls { client, election, metrics, .. } = &plugin.api_calls;
    let gated = election.gated(client.clone(), metrics);
    let resource = client.discover_charged(&Gvk::new("", "v1", "ConfigMap")).await.unwrap();
    let other = body.to_string().replace("\"x\"", "\"y\"");
    let sent = gated.create(&resource, Some("default"), other.as_bytes(), &WriteParams::default()).await;
    assert!(matches!(sent, Err(Error::Transport { unsent: true, .. })), "{sent:?}");
    assert_eq!((late(), plugin.list(limited(0)).await.unwrap().0), (2, vec!["x".to_owned()]));
    // A question is no write.
    let asking = ApiCalls { client: gated, ..plugin.api_calls.clone() };
    let (options, context) = Default::default();
    let [verb, subresource, namespace, name] = ["list", "", "default", ""].map(str::to_owned);
    let (kind, verb) =
        (Gvk::new("", "v1", "ConfigMap"), ClientVerb::May { verb, subresource, namespace, name });
    let may = ClientCall { cluster: 0, kind, verb, options, context, max_bytes: MAX_BYTES };
    let may = asking.call(may).await.unwrap();
    assert!(matches!(may, ClientAnswer::May(_)), "{may:?}");
    assert_eq!(late(), 2);
}

#[tokio::test]
async fn a_write_that_outlives_its_call_is_still_a_task_of_the_plugin() {
    let plugin = Plugin::start().await;
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"},
    });
    {
        let mut call = std::pin::pin!(
            plugin.call(ClientVerb::Create(body.to_string().into_bytes()), CallOptions::default())
        );
        // The call is cut when its write has been handed over and not yet begun: this thread has not let it run.
        std::future::poll_fn(|context| {
            assert!(call.as_mut().poll(context).is_pending(), "the call ended first");
            if plugin.api_calls.tasks.is_empty() {
                std::task::Poll::Pending
            } else {
                std::task::Poll::Ready(())
            }
        })
        .await;
    }
    plugin.api_calls.tasks.close();
    plugin.api_calls.tasks.wait().await;
    assert_eq!(plugin.list(limited(0)).await.unwrap().0, ["x"]);
    plugin.server.shutdown().await;
}

/// A server that hangs keeps the bodies of writes whose calls are over.
#[tokio::test]
async fn a_write_is_not_begun_before_there_is_room_and_reads_go_on() {
    let plugin = Plugin::start().await;
    // What a call asks the server for before its first write is known then.
    plugin.create(1, 10).await;
    let all = ClientVerb::Create(vec![b' '; 64 << 20]);
    let taken = plugin.api_calls.write_room.enter(&all).await;
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"},
    });
    let verb = ClientVerb::Create(body.to_string().into_bytes());
    let reading = async {
        for _ in 0..3 {
            assert_eq!(plugin.list(limited(0)).await.unwrap().0, ["x0000"]);
        }
        drop(taken);
    };
    let (created, ()) = tokio::join!(plugin.call(verb, CallOptions::default()), reading);
    created.unwrap();
    assert_eq!(plugin.list(limited(0)).await.unwrap().0, ["x", "x0000"]);
    plugin.server.shutdown().await;
}

#[tokio::test]
async fn a_write_that_the_end_of_the_host_prevents_may_be_tried_again() {
    let mut plugin = Plugin::start().await;
    let ended = tokio::runtime::Runtime::new().unwrap();
    plugin.api_calls.work = ended.handle().clone();
    ended.shutdown_background();
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"},
    });
    let error = plugin
        .call(ClientVerb::Create(body.to_string().into_bytes()), CallOptions::default())
        .await
        .unwrap_err();
    assert_eq!(reason(&error), Some(RefusalReason::Unavailable), "{error:?}");
    assert!(error.message().contains("shutting down"), "{error:?}");
    plugin.server.shutdown().await;
}

#[tokio::test]
async fn group_versions_that_nobody_serves_cost_no_requests_of_their_own() {
    let plugin = Plugin::start().await;
    let ask = async |version: u32| {
        let kind = Gvk::new("hostile.example", &format!("v{version}"), "Thing");
        let key: ObjectKey = "default/x".parse().unwrap();
        let error = plugin.call_for(kind, ClientVerb::Get(key), CallOptions::default()).await.unwrap_err();
        let ClientError::Api(status) = &error else { panic!("{error:?}") };
        assert_eq!((status.code, status.reason.as_str()), (404, "NotFound"), "{error:?}");
        plugin.requests.0.load(Relaxed)
    };
    let first = ask(0).await;
    assert!(first <= 2, "the list of groups: {first} requests");
    for version in 1..50 {
        assert_eq!(ask(version).await, first, "version {version}");
    }
    plugin.server.shutdown().await;
}

#[tokio::test]
async fn collections_subresources_logs_and_reviews_need_their_own_permissions() {
    let mut plugin = Plugin::start().await;
    let pod = || Gvk::new("", "v1", "Pod");
    let key: ObjectKey = "default/web".parse().unwrap();
    let options = CallOptions::default;
    let eviction =
        || CallOptions { target: Some(key.clone()), subresource: Some("eviction".to_owned()), ..options() };
    let evict = || {
        let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web", "namespace": "default"}});
        ClientVerb::Create(body.to_string().into_bytes())
    };
    let may = |verb: &str, name: &str| ClientVerb::May {
        verb: verb.to_owned(),
        subresource: String::new(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
    };
    let collection = || CallOptions { namespace: Some("default".to_owned()), ..options() };
    for (verb, options, missing) in [
        (evict(), eviction(), "pods/eviction"),
        (ClientVerb::PodLog(key.clone()), options(), "pods/log"),
        (ClientVerb::DeleteCollection, collection(), "deletecollection"),
    ] {
        let refused = plugin.call_for(pod(), verb, options).await.map(drop).unwrap_err();
        assert_eq!(reason(&refused), Some(RefusalReason::Forbidden));
        assert!(refused.message().contains(missing), "{}", refused.message());
    }
    let answer = plugin.call_for(pod(), may("delete", ""), options()).await.unwrap();
    assert!(matches!(answer, ClientAnswer::May(false)), "{answer:?}");

    let rules: Vec<Rule> = serde_json::from_value(json!([
        {"groups": [""], "resources": ["pods", "pods/eviction", "pods/log"], "namespaces": ["default"],
         "verbs": ["get", "create", "delete", "deletecollection"]},
    ]))
    .unwrap();
    plugin.api_calls.grants = Grants::new(rules);
    let body = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let create = || ClientVerb::Create(body.to_string().into_bytes());
    plugin.call_for(pod(), create(), options()).await.unwrap();
    let answer = plugin.call_for(pod(), may("delete", "web"), options()).await.unwrap();
    assert!(matches!(answer, ClientAnswer::May(true)), "{answer:?}");
    let answer = plugin.call_for(pod(), evict(), eviction()).await.unwrap();
    let ClientAnswer::Object(status) = answer else { panic!("{answer:?}") };
    assert_eq!((status.kind(), status.key()), ("Status", &key), "a Status has the name of its object here");
    let gone = plugin.call_for(pod(), ClientVerb::Get(key.clone()), options()).await.map(drop).unwrap_err();
    assert_eq!(reason(&gone), None, "the server's answer: {}", gone.message());
    plugin.call_for(pod(), create(), options()).await.unwrap();
    let deleted = plugin.call_for(pod(), ClientVerb::DeleteCollection, collection()).await.unwrap();
    assert!(matches!(deleted, ClientAnswer::Deleted(None)), "{deleted:?}");
    assert!(plugin.call_for(pod(), ClientVerb::Get(key.clone()), options()).await.is_err());
}

#[tokio::test]
async fn options_are_for_their_calls_only() {
    let plugin = Plugin::start().await;
    let key: ObjectKey = "default/a".parse().unwrap();
    let body = || ClientVerb::Create(br#"{"metadata": {"name": "a", "namespace": "default"}}"#.to_vec());
    let options = CallOptions::default;
    for (verb, options, named) in [
        (body(), CallOptions { target: Some(key.clone()), ..options() }, "name the subresource too"),
        (body(), CallOptions { subresource: Some("x".to_owned()), ..options() }, "subresource"),
        (ClientVerb::List, CallOptions { tail_lines: Some(1), ..options() }, "container, tailLines"),
        (ClientVerb::List, CallOptions { target: Some(key.clone()), ..options() }, "name has no meaning"),
        (ClientVerb::DeleteCollection, CallOptions { limit: 1, ..options() }, "limit"),
        (
            ClientVerb::DeleteCollection,
            CallOptions { preconditions: Some(Default::default()), ..options() },
            "preconditions",
        ),
        (
            ClientVerb::Delete(key.clone()),
            CallOptions { resource_version: Some("1".to_owned()), ..options() },
            "resourceVersion",
        ),
        (
            ClientVerb::PodLog(key.clone()),
            CallOptions { subresource: Some("log".to_owned()), ..options() },
            "pod-log",
        ),
    ] {
        let refused = plugin.call(verb, options).await.map(drop).unwrap_err();
        assert_eq!(reason(&refused), Some(RefusalReason::Invalid));
        assert!(refused.message().contains(named), "{named}: {}", refused.message());
    }
    assert_eq!(plugin.requests.0.load(Relaxed), 0);
}

#[tokio::test]
async fn each_write_that_is_sent_has_a_line_of_the_audit_and_no_line_has_anything_of_a_body() {
    let mut plugin = Plugin::start().await;
    let (lines, _guard) = AuditLines::capture();
    let rules: Vec<Rule> = serde_json::from_value(json!([
        {"groups": [""], "resources": ["secrets"], "namespaces": ["default"],
         "verbs": ["get", "create", "update", "patch", "delete"]},
    ]))
    .unwrap();
    plugin.api_calls.grants = Grants::new(rules);
    let body = |version: &str| {
        let body = json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": {"password": "hunter2"},
            "metadata": {"name": "s", "namespace": "default", "resourceVersion": version},
        });
        body.to_string().into_bytes()
    };
    let send = async |kind: &str, verb: ClientVerb, dry_run: bool| {
        let (kind, options) = (Gvk::new("", "v1", kind), CallOptions { dry_run, ..CallOptions::default() });
        let context = CallContext { key: Some("default/k".parse().unwrap()), call_id: 5 };
        let call = ClientCall { cluster: 0, kind, verb, options, max_bytes: MAX_BYTES, context };
        let _ = plugin.api_calls.call(call).await;
    };
    let key = || "default/s".parse().unwrap();
    let patch = |kind, body: &[u8]| ClientVerb::Patch { key: key(), kind, body: body.to_vec() };
    let apply =
        br#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"password":"hunter2"}}"#;
    for (kind, verb, dry_run) in [
        ("Secret", ClientVerb::Create(body("")), false),
        ("Secret", ClientVerb::Create(body("")), false),
        ("Secret", patch(PatchKind::Merge, br#"{"metadata":{"labels":{"hunter2":"hunter2"}}}"#), false),
        ("Secret", ClientVerb::Update(body("1")), false),
        ("Secret", patch(PatchKind::Apply, apply), true),
        // Neither a read nor what the host refuses.
        ("Secret", ClientVerb::Get(key()), false),
        ("Pod", ClientVerb::Delete(key()), false),
        ("Secret", ClientVerb::Delete(key()), false),
        ("Secret", ClientVerb::Delete(key()), false),
    ] {
        send(kind, verb, dry_run).await;
    }
    let lines = lines.get();
    let shown = lines.iter().map(|line| {
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        (text("verb"), text("result"), line["code"].as_u64().unwrap_or_default(), text("reason"))
    });
    let wanted = [
        ("create", "done", 0, ""),
        ("create", "refused", 409, "AlreadyExists"),
        ("patch", "done", 0, ""),
        ("update", "refused", 409, "Conflict"),
        ("apply", "done", 0, ""),
        ("delete", "done", 0, ""),
        ("delete", "refused", 404, "NotFound"),
    ];
    let wanted =
        wanted.map(|(verb, result, code, reason)| (verb.into(), result.into(), code, reason.to_owned()));
    assert_eq!(shown.collect::<Vec<(String, String, u64, String)>>(), wanted);
    for line in &lines {
        let object =
            ["plugin", "key", "call", "resource", "namespace", "name"].map(|name| line[name].clone());
        let wanted = json!(["plugin", "default/k", 5, "secrets", "default", "s"]);
        assert_eq!(json!(object), wanted, "{line}");
        assert!(!line.to_string().contains("hunter2"), "{line}");
    }
    assert_eq!((&lines[4]["dry_run"], &lines[2]["dry_run"]), (&json!(true), &json!(null)));
    plugin.server.shutdown().await;
}

#[tokio::test]
async fn a_write_within_the_span_of_a_call_has_one_there_and_others_have_none() {
    let plugin = Plugin::start().await;
    let (spans, _guard) = Spans::capture();
    plugin.create(1, 1).await;
    assert!(spans.take().is_empty());
    let reconcile = tracing::info_span!(target: TRACE, parent: None, "reconcile");
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x0000", "namespace": "default"},
        "data": {"password": "hunter2"},
    });
    let again = plugin.call(ClientVerb::Create(body.to_string().into_bytes()), CallOptions::default());
    again.instrument(reconcile.clone()).await.unwrap_err();
    // A read has none.
    plugin.call(ClientVerb::List, in_default()).instrument(reconcile.clone()).await.unwrap();
    let ended = spans.take();
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert_eq!((ended[0].name, ended[0].parent), ("write", reconcile.id().map(|id| id.into_u64())));
    let fields =
        ["otel.kind", "k8s.verb", "k8s.resource", "k8s.namespace", "k8s.name", "http.response.status_code"];
    let shown = fields.map(|name| ended[0].field(name));
    assert_eq!(shown, ["client", "create", "configmaps", "default", "x0000", "409"]);
    assert!(ended[0].field("otel.status_description").contains("already exists"), "{ended:?}");
    assert!(!format!("{ended:?}").contains("hunter2"), "{ended:?}");
    plugin.server.shutdown().await;
}
