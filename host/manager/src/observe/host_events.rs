//! [`HostEvents`]: the Kubernetes Events that the host records about its plugins, on its own Pod, or on a Namespace where it
//! runs outside of a cluster; and [`Reporter`], the part of one plugin.
//!
//! Invariants: recording never waits and never fails. `kubectl describe` finds Events by the UID of the Pod, so Events that are
//! recorded before the UID is known wait for it, up to a bound. The denials of one plugin, which a guest can cause at will,
//! have a limit of their own, so they cost no other plugin an Event.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_client::{ApiResource, Client, Error};
use pilothouse_events::{
    BroadcasterOptions, CoreV1Sink, CorrelatorOptions, Event, EventBroadcaster, EventRecorder, EventSource,
    EventType, EventWatch, MESSAGE_LIMIT, ObjectReference, RecorderCounts,
};
use pilothouse_object::{Gvk, ObjectKey};
use tokio_util::sync::CancellationToken;

use crate::imports::guest_events::{EventCounts, PLUGIN_ANNOTATION};
use crate::imports::token_bucket::TokenBucket;
use crate::lifecycle::quarantine::Quarantined;
use crate::lifecycle::rollback::Rollback;

/// The component of the host's own events.
const HOST_COMPONENT: &str = "pilothouse";

/// The object that a host's events are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostObject {
    /// The Pod that the host runs in. Where there is none of that name, as on the host's network, it is the Namespace.
    Pod {
        /// Its namespace and name.
        key: ObjectKey,
        /// Its UID; it is asked for when it is not known.
        uid: Option<String>,
    },
    /// A Namespace: the host runs outside of the cluster.
    Namespace(String),
}

/// Reason of the events about what a guest was denied.
const DENIED: &str = "PluginDenied";

/// Events that wait for the UID of what they are about; more are dropped.
const MOST_WAITING: usize = 256;
/// Wait between two tries to learn the UID.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Denials of one plugin that become events: so many at once, and one in so many seconds.
const DENIALS: f64 = 5.0;
const DENIAL_EVERY: f64 = 60.0;

/// The events of a host; a cheap clone. The default records nothing.
#[derive(Clone, Default)]
pub(crate) struct HostEvents(Option<Arc<Inner>>);

struct Inner {
    broadcaster: EventBroadcaster,
    source: EventSource,
    watch: EventWatch,
    /// Events for which there was no room while the UID was unknown.
    unwritten: AtomicU64,
    /// What events are about, without its UID.
    object: ObjectReference,
    about: Mutex<About>,
    stopping: CancellationToken,
}

enum About {
    /// What was recorded so far.
    Unknown(Vec<Waiting>),
    Known(Arc<ObjectReference>),
}

struct Waiting {
    recorder: EventRecorder,
    /// When it happened; the UID may be known much later.
    timestamp: Timestamp,
    event_type: EventType,
    reason: &'static str,
    message: String,
}

/// The plugin that an event of the host is about: each has its own share of what may be written about one Pod.
fn plugin_of(event: &Event) -> &str {
    let plugin = event.body.source.annotations.iter().find(|(name, _)| name == PLUGIN_ANNOTATION);
    plugin.map_or("", |(_, plugin)| plugin)
}

impl HostEvents {
    /// Begins to record about `object`, on the current runtime. `host` is the reporting instance.
    pub(crate) async fn start(client: Client, host: &str, object: HostObject) -> Self {
        let correlator = CorrelatorOptions {
            key_func: Some(Arc::new(|event, similar, own| {
                similar.part(plugin_of(event)).part(event.body.event_type.as_str()).part(&event.body.reason);
                own.part(&event.message);
            })),
            spam_key_func: Some(Arc::new(|event, key| {
                let denied = if event.body.reason == DENIED { DENIED } else { "" };
                key.part(plugin_of(event)).part(event.body.event_type.as_str()).part(denied);
            })),
            ..CorrelatorOptions::default()
        };
        let broadcaster =
            EventBroadcaster::new(BroadcasterOptions { correlator, ..BroadcasterOptions::default() });
        let watch = match broadcaster.start_recording_to_sink(CoreV1Sink::new(client.clone())).await {
            Ok(watch) => watch,
            Err(error) => {
                tracing::warn!(event = "host_events_off", "the host records no events: {error}");
                return Self(None);
            }
        };
        let inner = Arc::new(Inner {
            source: EventSource::new(HOST_COMPONENT, host),
            broadcaster,
            watch,
            unwritten: AtomicU64::new(0),
            object: object.reference(),
            about: Mutex::new(About::Unknown(Vec::new())),
            stopping: CancellationToken::new(),
        });
        let this = Arc::clone(&inner);
        tokio::spawn(async move {
            let stopping = this.stopping.clone();
            if let Some(about) = stopping.run_until_cancelled(resolve(&client, object)).await {
                this.known(about);
            }
        });
        Self(Some(inner))
    }

    /// Records the Events about one plugin.
    pub(crate) fn of(&self, plugin: Arc<str>) -> Reporter {
        let denials = Mutex::new(TokenBucket::new(1.0 / DENIAL_EVERY, DENIALS));
        let inner = self.0.clone().map(|inner| {
            let source = inner.source.clone().with_annotation(PLUGIN_ANNOTATION, &plugin);
            (inner.broadcaster.new_recorder(source), inner)
        });
        Reporter { inner, plugin, denials }
    }

    /// Counts of the host's Events so far; none where it records none.
    pub(crate) fn counts(&self) -> Option<EventCounts> {
        let inner = self.0.as_ref()?;
        let recorder = inner.broadcaster.metrics().counts();
        let unwritten = inner.unwritten.load(Relaxed);
        Some(EventCounts {
            recorder: RecorderCounts { dropped: recorder.dropped + unwritten, ..recorder },
            sink: inner.watch.metrics().counts(),
            ..EventCounts::default()
        })
    }

    /// Takes no more events, and writes those that were recorded, for `deadline` at most.
    pub(crate) async fn shutdown(&self, deadline: Duration) {
        if let Some(inner) = &self.0 {
            inner.stopping.cancel();
            // What waits for the UID is written without.
            inner.known(inner.object.clone());
            inner.broadcaster.shutdown(deadline).await;
        }
    }
}

impl Inner {
    fn record(&self, event: Waiting) {
        let about = {
            let mut about = self.about.lock();
            match &mut *about {
                About::Known(about) => Arc::clone(about),
                About::Unknown(waiting) => {
                    if waiting.len() < MOST_WAITING {
                        waiting.push(event);
                    } else {
                        self.unwritten.fetch_add(1, Relaxed);
                    }
                    return;
                }
            }
        };
        event.write(about);
    }

    /// What events are about is known, now or since long ago.
    fn known(&self, reference: ObjectReference) {
        let reference = Arc::new(reference);
        let before = {
            let mut about = self.about.lock();
            if matches!(&*about, About::Known(_)) {
                return;
            }
            std::mem::replace(&mut *about, About::Known(Arc::clone(&reference)))
        };
        if let About::Unknown(waiting) = before {
            for event in waiting {
                event.write(Arc::clone(&reference));
            }
        }
    }
}

impl Waiting {
    fn write(&self, about: Arc<ObjectReference>) {
        let Self { recorder, timestamp, event_type, reason, message } = self;
        recorder.past_eventf(about, *timestamp, *event_type, reason, format_args!("{message}"));
    }
}

impl HostObject {
    fn reference(&self) -> ObjectReference {
        match self {
            Self::Pod { key, uid } => ObjectReference::of_key(&Gvk::new("", "v1", "Pod"), key)
                .with_uid(uid.as_deref().unwrap_or_default()),
            Self::Namespace(name) => ObjectReference {
                api_version: "v1".to_owned(),
                kind: "Namespace".to_owned(),
                name: name.clone(),
                ..ObjectReference::default()
            },
        }
    }
}

/// The reference with its UID; without where the server does not give it.
async fn resolve(client: &Client, object: HostObject) -> ObjectReference {
    let namespace = match object {
        HostObject::Pod { key, uid } => {
            let known = uid.is_some();
            let reference = HostObject::Pod { key: key.clone(), uid }.reference();
            if known {
                return reference;
            }
            match uid_of(client, "Pod", "pods", &key).await {
                Ok(uid) => return reference.with_uid(&uid),
                Err(error) if error.is_not_found() => {
                    let namespace = key.namespace().unwrap_or_default().to_owned();
                    tracing::warn!(
                        event = "host_pod_unknown",
                        "the host records Events about namespace {namespace} instead of its Pod: {error}; set POD_NAME and POD_NAMESPACE with the downward API"
                    );
                    namespace
                }
                Err(error) => {
                    tracing::warn!(
                        event = "host_pod_unknown",
                        "kubectl describe will not show the host's events on {key}: {error}; grant the host `get` on its Pod, or set \
                         POD_UID from the Pod's own fields (downward API)"
                    );
                    return reference;
                }
            }
        }
        HostObject::Namespace(namespace) => namespace,
    };
    let reference = HostObject::Namespace(namespace.clone()).reference();
    let Ok(key) = ObjectKey::new(None, &namespace) else { return reference };
    match uid_of(client, "Namespace", "namespaces", &key).await {
        Ok(uid) => reference.with_uid(&uid),
        Err(error) => {
            tracing::debug!("Events of the host lack the UID of namespace {namespace}: {error}");
            reference
        }
    }
}

/// Asks until the server answers.
async fn uid_of(client: &Client, kind: &str, plural: &str, key: &ObjectKey) -> Result<String, Error> {
    let resource = ApiResource::new(Gvk::new("", "v1", kind), plural, key.namespace().is_some());
    loop {
        match client.get(&resource, key, None).await {
            Ok(object) => return Ok(object.uid().to_owned()),
            Err(error @ (Error::Request(_) | Error::Config(_))) => return Err(error),
            Err(error)
                if error
                    .status()
                    .is_some_and(|status| (400..500).contains(&status.code) && status.code != 429) =>
            {
                return Err(error);
            }
            Err(error) => tracing::debug!("asking for {kind} {key}: {error}"),
        }
        tokio::time::sleep(ASK_AGAIN.mul_f64(rand::random_range(0.8..1.2))).await;
    }
}

/// Tells of one plugin.
pub(crate) struct Reporter {
    inner: Option<(EventRecorder, Arc<Inner>)>,
    plugin: Arc<str>,
    denials: Mutex<TokenBucket>,
}

impl Reporter {
    fn record(&self, event_type: EventType, reason: &'static str, message: String) {
        let Some((recorder, inner)) = &self.inner else { return };
        let mut message = message;
        // What a guest said may be long, and waits.
        message.truncate(message.floor_char_boundary(MESSAGE_LIMIT));
        let timestamp = Timestamp::now();
        inner.record(Waiting { recorder: recorder.clone(), timestamp, event_type, reason, message });
    }

    /// A generation took over, from another one or as the first.
    pub(crate) fn running(&self, generation: u64, before: Option<u64>, digest: &str) {
        let Self { plugin, .. } = self;
        match before {
            None => self.record(
                EventType::Normal,
                "PluginLoaded",
                format!("plugin {plugin}: generation {generation} runs ({digest})"),
            ),
            Some(before) => self.record(
                EventType::Normal,
                "PluginReloaded",
                format!(
                    "plugin {plugin}: generation {generation} took over from generation {before} ({digest})"
                ),
            ),
        }
    }

    /// The plugin could not be loaded; `kept` is the generation that goes on.
    pub(crate) fn failed(&self, error: &str, kept: Option<u64>) {
        let kept = kept.map_or(String::new(), |kept| format!(", keeping generation {kept}"));
        self.record(
            EventType::Warning,
            "PluginFailed",
            format!("plugin {} not loaded{kept}: {error}", self.plugin),
        );
    }

    /// The plugin is paused after faults of several keys.
    pub(crate) fn quarantined(&self, quarantined: Quarantined, error: &str) {
        let Quarantined { keys, pause } = quarantined;
        self.record(
            EventType::Warning,
            "PluginQuarantined",
            format!(
                "plugin {} quarantined for {pause:?} after faults of {keys} different keys; last fault: {error}",
                self.plugin
            ),
        );
    }

    /// A generation was rolled back; `generation` restores an earlier one.
    pub(crate) fn rolled_back(&self, rollback: &Rollback, generation: u64) {
        self.record(
            EventType::Warning,
            "PluginRolledBack",
            format!("plugin {}: generation {generation} runs; {rollback}", self.plugin),
        );
    }

    /// A guest was denied what it has no grant for.
    pub(crate) fn denied(&self, what: &str) {
        if self.inner.is_some() && self.denials.lock().take(Instant::now()) {
            self.record(EventType::Warning, DENIED, what.to_owned());
        }
    }

    /// An object of the cluster exceeds one of the plugin's data limits.
    pub(crate) fn limit_exceeded(&self, what: &str) {
        self.record(EventType::Warning, "PluginLimitExceeded", format!("plugin {}: {what}", self.plugin));
    }

    /// The plugin was taken out of the directory.
    pub(crate) fn removed(&self) {
        self.record(EventType::Normal, "PluginRemoved", format!("plugin {} removed", self.plugin));
    }
}

impl fmt::Debug for HostEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostEvents").field("records", &self.0.is_some()).finish()
    }
}

#[cfg(test)]
mod tests;
