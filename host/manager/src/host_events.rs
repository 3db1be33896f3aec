//! [`HostEvents`]: what the host itself records about its plugins, as Kubernetes Events on its own Pod, or on a Namespace where it runs
//! outside of a cluster; and [`Reporter`], one plugin's share of it.
//!
//! Invariants: recording never waits and never fails; what is recorded before the UID of the Pod is known, by which `kubectl describe`
//! finds its events, waits for it, up to a bound. One plugin's denials, which a guest can cause at will, are limited on their
//! own, so that they cost no other plugin an event.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pilothouse_client::{ApiResource, Client, Error};
use pilothouse_events::{
    BroadcasterOptions, CoreV1Sink, EventBroadcaster, EventDetails, EventRecorder, EventSource, EventType,
    ObjectReference,
};
use pilothouse_object::{Gvk, ObjectKey};
use tokio_util::sync::CancellationToken;

use crate::guest_events::PLUGIN_ANNOTATION;
use crate::token_bucket::TokenBucket;

/// The component of the host's own events.
pub const HOST_COMPONENT: &str = "pilothouse";

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
    recorder: EventRecorder,
    about: Mutex<About>,
    stopping: CancellationToken,
}

enum About {
    /// What was recorded so far.
    Unknown(Vec<Waiting>),
    Known(Arc<ObjectReference>),
}

struct Waiting {
    event_type: EventType,
    reason: &'static str,
    message: String,
    details: EventDetails,
}

impl HostEvents {
    /// Begins to record about `object`, on the current runtime. `host` is the reporting instance.
    pub(crate) async fn start(client: Client, host: &str, object: HostObject) -> Self {
        let broadcaster = EventBroadcaster::new(BroadcasterOptions::default());
        if let Err(error) = broadcaster.start_recording_to_sink(CoreV1Sink::new(client.clone())).await {
            tracing::warn!("the host records no events: {error}");
            return Self(None);
        }
        let inner = Arc::new(Inner {
            recorder: broadcaster.new_recorder(EventSource::new(HOST_COMPONENT, host)),
            broadcaster,
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

    /// What the host tells of one plugin.
    pub(crate) fn of(&self, plugin: Arc<str>) -> Reporter {
        let denials = Mutex::new(TokenBucket::new(1.0 / DENIAL_EVERY, DENIALS));
        Reporter { host: self.clone(), plugin, denials }
    }

    /// Takes no more events, and writes those that were recorded, for `deadline` at most.
    pub(crate) async fn shutdown(&self, deadline: Duration) {
        if let Some(inner) = &self.0 {
            inner.stopping.cancel();
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
                    }
                    return;
                }
            }
        };
        self.write(about, event);
    }

    fn write(&self, about: Arc<ObjectReference>, event: Waiting) {
        let Waiting { event_type, reason, message, details } = event;
        self.recorder.record(about, event_type, reason, format_args!("{message}"), details);
    }

    fn known(&self, reference: ObjectReference) {
        let reference = Arc::new(reference);
        let before = std::mem::replace(&mut *self.about.lock(), About::Known(Arc::clone(&reference)));
        if let About::Unknown(waiting) = before {
            for event in waiting {
                self.write(Arc::clone(&reference), event);
            }
        }
    }
}

/// The reference with its UID; without where the server does not give it.
async fn resolve(client: &Client, object: HostObject) -> ObjectReference {
    let namespace = match object {
        HostObject::Pod { key, uid } => {
            let reference = ObjectReference::of_key(&Gvk::new("", "v1", "Pod"), &key);
            if let Some(uid) = uid {
                return reference.with_uid(&uid);
            }
            match uid_of(client, "Pod", "pods", &key).await {
                Ok(uid) => return reference.with_uid(&uid),
                Err(error) if error.is_not_found() => {
                    let namespace = key.namespace().unwrap_or_default().to_owned();
                    tracing::warn!(
                        "the host's events are about namespace {namespace}: {error}; set POD_NAME and POD_NAMESPACE from the Pod's own \
                         fields (downward API)"
                    );
                    namespace
                }
                Err(error) => {
                    tracing::warn!(
                        "kubectl describe will not show the host's events on {key}: {error}; grant the host `get` on its Pod, or set \
                         POD_UID from the Pod's own fields (downward API)"
                    );
                    return reference;
                }
            }
        }
        HostObject::Namespace(namespace) => namespace,
    };
    let (gvk, key) = (Gvk::new("", "v1", "Namespace"), ObjectKey::new(None, &namespace));
    let Ok(key) = key else { return ObjectReference::default() };
    let reference = ObjectReference::of_key(&gvk, &key);
    match uid_of(client, "Namespace", "namespaces", &key).await {
        Ok(uid) => reference.with_uid(&uid),
        Err(error) => {
            tracing::debug!("the host's events have no UID of namespace {namespace}: {error}");
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
            Err(error @ (Error::Api(_) | Error::Request(_) | Error::Config(_))) => return Err(error),
            Err(error) => tracing::debug!("asking for {kind} {key}: {error}"),
        }
        tokio::time::sleep(ASK_AGAIN.mul_f64(rand::random_range(0.8..1.2))).await;
    }
}

/// Tells of one plugin.
pub(crate) struct Reporter {
    host: HostEvents,
    plugin: Arc<str>,
    denials: Mutex<TokenBucket>,
}

impl Reporter {
    fn record(&self, event_type: EventType, reason: &'static str, message: String) {
        let Some(inner) = &self.host.0 else { return };
        let annotations = vec![(PLUGIN_ANNOTATION.to_owned(), self.plugin.to_string())];
        let details = EventDetails { annotations, ..EventDetails::default() };
        inner.record(Waiting { event_type, reason, message, details });
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
        let kept = kept.map_or(String::new(), |kept| format!(", generation {kept} goes on"));
        self.record(
            EventType::Warning,
            "PluginFailed",
            format!("plugin {} not loaded{kept}: {error}", self.plugin),
        );
    }

    /// The plugin rests after many faults.
    pub(crate) fn quarantined(&self, faults: u32, rest: Duration, error: &str) {
        self.record(
            EventType::Warning,
            "PluginQuarantined",
            format!(
                "plugin {} rests for {rest:?} after {faults} faults in a row; the last one: {error}",
                self.plugin
            ),
        );
    }

    /// A guest was denied what it has no grant for.
    pub(crate) fn denied(&self, what: &str) {
        if self.host.0.is_some() && self.denials.lock().take(Instant::now()) {
            self.record(EventType::Warning, "PluginDenied", what.to_owned());
        }
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
