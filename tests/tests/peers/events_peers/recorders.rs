//! [`Recorders`]: objects on the real server, and the recorders that record about them, client-go's and ours.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Result, bail, ensure};
use jiff::Timestamp;
use pilothouse_client::{ApiResource, Client};
use pilothouse_events::{
    BroadcasterOptions, CoreV1Sink, EventBroadcaster, EventDetails, EventRecorder, EventSource, EventWatch,
    EventsV1Sink, ObjectReference,
};
use pilothouse_object::{Gvk, ObjectKey};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::{Cluster, ControlPlane, clientgo, informers, poll, process};
use serde::Serialize;
use serde_json::json;
use tokio::runtime::Runtime;

use super::seen::Seen;

/// When what is recorded as past has happened.
pub(crate) const PAST: &str = "2020-01-02T03:04:05Z";

/// One call of a recorder; `tests/clientgo/recorder` has the same, but that its `past` is a plain `eventf`: client-go has no other.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) field_path: String,
    pub(crate) related: String,
    pub(crate) r#type: String,
    pub(crate) reason: String,
    pub(crate) action: String,
    pub(crate) message: String,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// Which recorder, and so which API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// `tools/record`: core/v1.
    Record,
    /// `tools/events`: events.k8s.io/v1.
    Events,
}

/// Objects on the real server, about which both record.
pub(crate) struct Recorders {
    pub(crate) plane: &'static ControlPlane,
    pub(crate) runtime: Runtime,
    client: Client,
    pub(crate) namespace: &'static str,
    node: String,
    folder: tempfile::TempDir,
}

impl Recorders {
    pub(crate) fn set(namespace: &'static str) -> Result<Self> {
        let plane = ControlPlane::shared(Server::Real)?;
        let cluster = Cluster::of(plane)?;
        cluster.namespace(namespace)?;
        for name in ["web", "many", "other"] {
            cluster.create(&json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
                "spec": {"containers": [{"name": "main", "image": "example/none:1"}]},
            }))?;
        }
        let node = format!("{namespace}-node");
        cluster.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let client = runtime.block_on(informers::client(plane.kubeconfig()))?;
        Ok(Self { plane, runtime, client, namespace, node, folder: tempfile::tempdir()? })
    }

    /// client-go makes the calls.
    fn theirs(&self, api: Api, calls: &[Call]) -> Result<()> {
        let program = self.folder.path().join("recorder");
        clientgo::build("./recorder", &program)?;
        let mut command = Command::new(&program);
        command.arg(self.plane.kubeconfig()).arg(self.namespace);
        command.arg(if api == Api::Record { "record" } else { "events" });
        let finished = process::run(&mut command, &serde_json::to_string(calls)?, SOON)?;
        ensure!(finished.status.success(), "{}\n{}", finished.status, finished.stderr);
        Ok(())
    }

    /// Ours makes them; the broadcaster goes on.
    fn ours(&self, api: Api, calls: &[Call]) -> Result<(EventBroadcaster, EventWatch)> {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
        let (broadcaster, watch) = self.runtime.block_on(async {
            let broadcaster = EventBroadcaster::new(BroadcasterOptions::default());
            let client = self.client.clone();
            let watch = match api {
                Api::Record => broadcaster.start_recording_to_sink(CoreV1Sink::new(client)).await?,
                Api::Events => broadcaster.start_recording_series_to_sink(EventsV1Sink::new(client)).await?,
            };
            anyhow::Ok((broadcaster, watch))
        })?;
        let recorder = broadcaster.new_recorder(match api {
            Api::Record => EventSource::new("shop", "node-1"),
            Api::Events => EventSource::reporting("shop", host.trim()),
        });
        for call in calls {
            self.make(&recorder, api, call)?;
        }
        poll::until("all events to come to an end", SOON, || {
            let counts = watch.metrics().counts();
            (counts.received == calls.len() as u64 && counts.pending() == 0).then_some(())
        })?;
        let counts = watch.metrics().counts();
        ensure!(counts.failed + counts.dropped + counts.filtered == 0, "{counts:?}");
        Ok((broadcaster, watch))
    }

    fn make(&self, recorder: &EventRecorder, api: Api, call: &Call) -> Result<()> {
        let Call { r#type, reason, message, .. } = call;
        let (regarding, event_type) = (self.reference(&call.kind, &call.name)?, r#type.parse()?);
        let regarding = regarding.with_field_path(&call.field_path);
        if api == Api::Events {
            let related = match call.related.as_str() {
                "" => None,
                related => Some(self.reference("Pod", related)?.into()),
            };
            let details = EventDetails { related, action: call.action.clone(), ..EventDetails::default() };
            recorder.record(regarding, event_type, reason, format_args!("{message}"), details);
            return Ok(());
        }
        match call.method.as_str() {
            "event" => recorder.event(regarding, event_type, reason, message),
            "eventf" => recorder.eventf(regarding, event_type, reason, format_args!("{message}")),
            "past" => {
                let then: Timestamp = PAST.parse()?;
                recorder.past_eventf(regarding, then, event_type, reason, format_args!("{message}"));
            }
            "annotated" => {
                let annotations: Vec<_> =
                    call.annotations.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                recorder.annotated_eventf(
                    regarding,
                    &annotations,
                    event_type,
                    reason,
                    format_args!("{message}"),
                );
            }
            other => bail!("unknown method {other:?}"),
        }
        Ok(())
    }

    /// The reference to an object as the server has it.
    fn reference(&self, kind: &str, name: &str) -> Result<ObjectReference> {
        let namespaced = kind == "Pod";
        let plural = format!("{}s", kind.to_lowercase());
        let resource = ApiResource::new(Gvk::new("", "v1", kind), &plural, namespaced);
        let key = ObjectKey::new(namespaced.then_some(self.namespace), name)?;
        let object = self.runtime.block_on(self.client.get(&resource, &key, None))?;
        Ok(ObjectReference::from(&object))
    }

    pub(crate) fn seen(&self) -> Result<Seen> {
        Seen::of(self.plane, self.namespace, &self.node)
    }

    fn forget(&self) -> Result<()> {
        let node = format!("involvedObject.name={}", self.node);
        self.plane.kubectl(&["delete", "events", "--all", "-n", self.namespace])?;
        self.plane.kubectl(&["delete", "events", "-n", "default", "--field-selector", &node]).map(drop)
    }

    /// Lets both make the calls; what ours has left is still there afterwards.
    pub(crate) fn both(
        &self,
        api: Api,
        calls: &[Call],
    ) -> Result<(Seen, Seen, (EventBroadcaster, EventWatch))> {
        let calls: Vec<Call> = calls.iter().map(|call| self.placed(call)).collect();
        self.theirs(api, &calls)?;
        let theirs = self.seen()?;
        self.forget()?;
        let running = self.ours(api, &calls)?;
        Ok((theirs, self.seen()?, running))
    }

    /// The node has a name of its own in each recorders.
    fn placed(&self, call: &Call) -> Call {
        let name = if call.kind == "Node" { self.node.clone() } else { call.name.clone() };
        Call { name, ..call.clone() }
    }
}
