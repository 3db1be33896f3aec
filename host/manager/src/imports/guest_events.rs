//! [`PluginEvents`]: the Kubernetes Events that the guests of one plugin record through their `events` import.
//!
//! ```text
//! record ── check: grant, shape, quota ── recorder ── queue ── correlator ── core/v1, as the plugin's identity
//! ```
//!
//! Invariants: a guest never waits, and all that a guest sends is kept within bounds; each plugin has a queue and a
//! correlator of its own, so a plugin that floods costs no other plugin an event; they survive reloads, so repeated events go
//! on counting. A plugin that never records has neither. Called from guest threads by
//! [`PluginImports`](crate::imports::plugin_imports::PluginImports).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use futures_util::FutureExt as _;
use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_client::Client;
use pilothouse_engine::{EventTarget, GuestEvent, Refusal};
use pilothouse_events::{
    BroadcasterOptions, CoreV1Sink, Event, EventBroadcaster, EventDetails, EventRecorder, EventSink,
    EventSource, EventType, EventWatch, FIELD_LIMIT, ObjectReference, Recorded, RecorderCounts, SinkCounts,
    SinkError,
};
use pilothouse_object::is_qualified_name;
use pilothouse_plugin::{Access, Grants, Place, PluginLimits, split_run};
use tokio::runtime::Handle;

use crate::imports::token_bucket::TokenBucket;
use crate::observe::audit::{self, Ended, Write, WriteResult};

/// Annotation of every event of or about a plugin: the plugin's name. `pilothouse events` finds them by it.
pub const PLUGIN_ANNOTATION: &str = "pilothouse.dev/plugin";

/// After a rest so many times as many events may come at once as in a second of the long run.
const BURST_SECONDS: f64 = 2.0;

/// Events that wait to be correlated, and as many that wait to be written; with the bounds below, those of one plugin take ten
/// megabytes at the very most.
const QUEUE_LENGTH: usize = 256;

/// Bytes that the texts of one event may have in all, beside those that are cut anyway: far more than names and annotations need.
const MAX_TEXTS: usize = 8 << 10;

/// Annotations of one event.
const MAX_ANNOTATIONS: usize = 64;

/// The events of one plugin.
pub(crate) struct PluginEvents {
    plugin: Arc<str>,
    host: Arc<str>,
    work: Handle,
    identity: Arc<CurrentSink>,
    /// Number of the generation that works.
    generation: AtomicU64,
    quota: Mutex<TokenBucket>,
    running: OnceLock<Option<Running>>,
    refused: AtomicU64,
    over_quota: AtomicU64,
}

struct Running {
    broadcaster: EventBroadcaster,
    recorder: EventRecorder,
    watch: EventWatch,
}

/// Writes with the client of the generation that is the current one.
#[derive(Default)]
struct CurrentSink(ArcSwapOption<Speaker>);

/// The client of a generation of a plugin.
struct Speaker {
    plugin: Arc<str>,
    sink: CoreV1Sink,
}

/// Counts of recorded, dropped and written events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EventCounts {
    /// Without a grant, or malformed.
    pub(crate) refused: u64,
    /// More than the quota.
    pub(crate) over_quota: u64,
    pub(crate) recorder: RecorderCounts,
    pub(crate) sink: SinkCounts,
}

impl PluginEvents {
    /// Records nothing yet. Events are written on `work`; `host` is the reporting instance.
    pub(crate) fn new(plugin: Arc<str>, host: Arc<str>, work: Handle) -> Self {
        let (qps, burst) = rate(PluginLimits::default().event_qps);
        Self {
            plugin,
            host,
            work,
            identity: Arc::default(),
            generation: AtomicU64::new(0),
            quota: Mutex::new(TokenBucket::new(qps, burst)),
            running: OnceLock::new(),
            refused: AtomicU64::new(0),
            over_quota: AtomicU64::new(0),
        }
    }

    /// A new generation took over: events are written with its client, and counted against its quota.
    pub(crate) fn speak_as(&self, generation: u64, client: Client, qps: f64) {
        self.identity.0.store(Some(Arc::new(Speaker {
            plugin: Arc::clone(&self.plugin),
            sink: CoreV1Sink::new(client),
        })));
        let (qps, burst) = rate(qps);
        let mut quota = self.quota.lock();
        if self.generation.swap(generation, Relaxed) == 0 {
            *quota = TokenBucket::new(qps, burst);
        } else {
            quota.change(qps, burst);
        }
    }

    /// Records an event of a guest of this generation, with these grants. `not_here` is why another host records Events now, if
    /// one does.
    ///
    /// # Errors
    /// When nothing may be recorded now, there is no grant for it, it is malformed, or there are too many.
    pub(crate) fn record(
        &self,
        generation: u64,
        not_here: Option<String>,
        grants: &Grants,
        event: GuestEvent,
    ) -> Result<(), Refusal> {
        // A generation that was replaced may still be in a call; one that does not work yet would speak as the one that does.
        let checked = if generation > self.generation.load(Relaxed) {
            Err(Refusal::unavailable("Events cannot be recorded in describe or before it"))
        } else if let Some(why) = not_here {
            Err(Refusal::unavailable(format_args!("the Event is not recorded: {why}")))
        } else {
            self.check(grants, event)
        };
        let checked = checked.inspect_err(|_| {
            self.refused.fetch_add(1, Relaxed);
        })?;
        if !self.quota.lock().take(Instant::now()) {
            self.over_quota.fetch_add(1, Relaxed);
            return Err(Refusal::over_limit("the plugin exceeds its Event rate (limits.eventQPS)"));
        }
        let Checked { regarding, event_type, reason, note, details } = checked;
        let running = self.running().ok_or_else(|| Refusal::unavailable("the host is ending"))?;
        running.recorder.record(regarding, event_type, &reason, format_args!("{note}"), details);
        Ok(())
    }

    fn check(&self, grants: &Grants, event: GuestEvent) -> Result<Checked, Refusal> {
        let options = event.options;
        let event_type = if event.is_warning { EventType::Warning } else { EventType::Normal };
        if event.reason.is_empty() {
            return Err(Refusal::invalid("the reason is empty: say why in UpperCamelCase, as ScaledUp"));
        }
        let timestamp = options.timestamp.map(|time| {
            time.parse::<Timestamp>()
                .map_err(|_| Refusal::invalid(format_args!("options: timestamp is not RFC 3339")))
        });
        let mut regarding = reference(event.regarding);
        regarding.field_path = options.field_path;
        let related = event.related.map(reference);
        if options.annotations.len() > MAX_ANNOTATIONS {
            return Err(Refusal::invalid(format_args!("options: more than {MAX_ANNOTATIONS} annotations")));
        }
        if let Some(name) = options.annotations.keys().find(|name| !is_qualified_name(name)) {
            let name = name.get(..name.floor_char_boundary(FIELD_LIMIT)).unwrap_or_default();
            return Err(Refusal::invalid(format_args!("options: {name:?} is not the name of an annotation")));
        }
        let annotations: usize =
            options.annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
        let texts = size(&regarding) + related.as_ref().map_or(0, size) + annotations;
        if texts > MAX_TEXTS {
            return Err(Refusal::invalid(format_args!(
                "references and annotations of the event have {texts} bytes, and may have {MAX_TEXTS}"
            )));
        }
        self.check_grant(grants, regarding.event_namespace())?;
        let annotations = options.annotations.into_iter().collect();
        let details = EventDetails {
            related: related.map(Arc::new),
            action: event.action,
            annotations,
            timestamp: timestamp.transpose()?,
        };
        Ok(Checked { regarding, event_type, reason: event.reason, note: event.note, details })
    }

    /// Events have two names in the API; a grant of either will do.
    fn check_grant(&self, grants: &Grants, namespace: &str) -> Result<(), Refusal> {
        let check = |group| {
            grants.check(&Access {
                verb: "create",
                group,
                resource: "events",
                subresource: None,
                place: Place::Namespace(namespace),
                name: None,
            })
        };
        check("")
            .or_else(|missing| check("events.k8s.io").map_err(|_| missing))
            .map_err(|missing| Refusal::forbidden(format_args!("plugin {}: {missing}", self.plugin)))
    }

    /// Queue, correlator and sink, made with the first event; none while the runtime ends.
    fn running(&self) -> Option<&Running> {
        let make = || {
            // The tasks of the broadcaster run there.
            let _on_work = self.work.enter();
            let options = BroadcasterOptions {
                name: Some(Arc::clone(&self.plugin)),
                queue_length: QUEUE_LENGTH,
                ..BroadcasterOptions::default()
            };
            let broadcaster = EventBroadcaster::new(options);
            let starting = broadcaster.start_recording_to_sink(Arc::clone(&self.identity));
            // A new broadcaster has room in its queue, which is all that could be waited for.
            let watch = tokio::task::unconstrained(starting).now_or_never().and_then(Result::ok)?;
            // Who reads Events in a cluster need not know what the host calls it.
            let source = EventSource::new(split_run(&self.plugin).0, &self.host);
            let source = source.with_annotation(PLUGIN_ANNOTATION, &self.plugin);
            Some(Running { recorder: broadcaster.new_recorder(source), broadcaster, watch })
        };
        self.running.get_or_init(make).as_ref()
    }

    /// Counts of the plugin's events so far.
    pub(crate) fn counts(&self) -> EventCounts {
        let running = self.running.get().and_then(Option::as_ref);
        EventCounts {
            refused: self.refused.load(Relaxed),
            over_quota: self.over_quota.load(Relaxed),
            recorder: running.map(|running| running.broadcaster.metrics().counts()).unwrap_or_default(),
            sink: running.map(|running| running.watch.metrics().counts()).unwrap_or_default(),
        }
    }

    /// Whether each recorded event was written, counted or given up.
    pub(crate) fn are_written(&self) -> bool {
        let EventCounts { recorder, sink, .. } = self.counts();
        recorder.received <= recorder.dropped + sink.received && sink.pending() == 0
    }

    /// Takes no more events, and writes those that were recorded, for `deadline` at most.
    pub(crate) async fn shutdown(&self, deadline: Duration) {
        if let Some(Some(running)) = self.running.get() {
            running.broadcaster.shutdown(deadline).await;
        }
    }
}

/// An event that may be recorded.
struct Checked {
    regarding: ObjectReference,
    event_type: EventType,
    reason: String,
    note: String,
    details: EventDetails,
}

fn rate(qps: f64) -> (f64, f64) {
    (qps, (qps * BURST_SECONDS).max(1.0))
}

fn reference(target: EventTarget) -> ObjectReference {
    let EventTarget { kind, key, uid, resource_version } = target;
    ObjectReference { resource_version, ..ObjectReference::of_key(&kind, &key) }.with_uid(&uid)
}

fn size(reference: &ObjectReference) -> usize {
    let ObjectReference { api_version, kind, namespace, name, uid, resource_version, field_path } = reference;
    [api_version, kind, namespace, name, uid, resource_version, field_path].map(String::len).iter().sum()
}

impl CurrentSink {
    fn get(&self) -> Result<Arc<Speaker>, SinkError> {
        let none = || SinkError::Transient {
            message: "no generation of the plugin works yet".to_owned(),
            retry_after: None,
            unsent: true,
        };
        self.0.load_full().ok_or_else(none)
    }
}

impl Speaker {
    /// Makes a write of an Event, and hands it to the audit.
    async fn audited(
        &self,
        verb: &'static str,
        event: &Event,
        write: impl Future<Output = Result<Recorded, SinkError>>,
    ) -> Result<Recorded, SinkError> {
        let outcome = write.await;
        let (namespace, name) = (Some(event.namespace()), Some(&*event.name));
        let write = Write { verb, resource: "events", namespace, name, ..Write::default() };
        audit::record(&self.plugin, &write, &ended(&outcome));
        outcome
    }
}

/// What the audit says of a write of an Event.
fn ended(outcome: &Result<Recorded, SinkError>) -> Ended<'_> {
    let (result, reason) = match outcome {
        Ok(recorded) => return Ended::done(Some(&recorded.name)),
        Err(SinkError::NotFound(_)) => (WriteResult::Refused, Some("NotFound")),
        Err(SinkError::AlreadyExists(_)) => (WriteResult::Refused, Some("AlreadyExists")),
        Err(SinkError::NamespaceTerminating(_)) => (WriteResult::Refused, Some("NamespaceTerminating")),
        Err(SinkError::Rejected(_)) => (WriteResult::Refused, None),
        Err(SinkError::Construction(_) | SinkError::Transient { unsent: true, .. }) => {
            (WriteResult::Unsent, None)
        }
        Err(SinkError::Transient { .. }) => (WriteResult::Unknown, None),
    };
    Ended::failed(result, reason)
}

impl EventSink for CurrentSink {
    async fn create(&self, event: &Event) -> Result<Recorded, SinkError> {
        let speaker = self.get()?;
        speaker.audited("create", event, speaker.sink.create(event)).await
    }

    async fn patch(&self, event: &Event, patch: &[u8]) -> Result<Recorded, SinkError> {
        let speaker = self.get()?;
        speaker.audited("patch", event, speaker.sink.patch(event, patch)).await
    }
}

#[cfg(test)]
mod tests;
