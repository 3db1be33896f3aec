//! Records Kubernetes Events as its configuration says, one reconcile of a ConfigMap or Node after the other, and logs what the host
//! says of each: `recorded` with the reason and `ok`, or the error. Tests of the `events` import use it.

use std::time::Instant;

use pilothouse_sdk::events::{Event, EventType, Regarding};
use pilothouse_sdk::prelude::*;

#[derive(Deserialize)]
#[serde(crate = "pilothouse_sdk::serde", rename_all = "camelCase", deny_unknown_fields, default)]
struct Settings {
    /// What is watched, as `v1/Node`.
    kind: String,
    /// What is recorded in each reconcile.
    events: Vec<Spec>,
    /// Records this many events as fast as it can, and logs `measured` with nanoseconds a call.
    measure: u32,
}

#[derive(Deserialize, Default)]
#[serde(crate = "pilothouse_sdk::serde", rename_all = "camelCase", deny_unknown_fields, default)]
struct Spec {
    /// `Warning` when set.
    warning: bool,
    reason: String,
    note: String,
    action: String,
    /// How often; once when absent.
    times: Option<u32>,
    /// About this key of the watched kind, and not about the object.
    key: Option<String>,
    /// With this UID.
    uid: String,
    /// Related to this Node.
    related_node: Option<String>,
    annotation: Option<(String, String)>,
    field_path: Option<String>,
    timestamp: Option<String>,
}

struct Recorder {
    settings: Settings,
    kind: Kind,
}

impl Default for Settings {
    fn default() -> Self {
        Self { kind: "v1/ConfigMap".to_owned(), events: Vec::new(), measure: 0 }
    }
}

#[pilothouse_sdk::reconciler]
impl Reconciler for Recorder {
    fn describe(config: &Config) -> Result<Descriptor, String> {
        let kind: Kind = config.parse::<Settings>()?.kind.parse()?;
        Ok(Descriptor::new("recorder").watch(Watch::new(kind)))
    }

    fn new(config: &Config) -> Result<Self, String> {
        let settings: Settings = config.parse()?;
        let kind = settings.kind.parse()?;
        Ok(Self { settings, kind })
    }

    fn reconcile(&mut self, request: &Request) -> Result<Outcome, Failure> {
        let Some(object) = cache::get(&self.kind, &request.key)? else { return Ok(Outcome::Done) };
        for spec in &self.settings.events {
            for _ in 0..spec.times.unwrap_or(1) {
                let result = spec.record(&self.kind, &object);
                let result = result.map_or_else(|error| error.to_string(), |()| "ok".to_owned());
                info!("recorded", reason = spec.reason, result = result);
            }
        }
        if self.settings.measure > 0 {
            self.measure(&object);
        }
        Ok(Outcome::Done)
    }
}

impl Recorder {
    fn measure(&self, object: &Object) {
        let began = Instant::now();
        let mut refused = 0;
        for number in 0..self.settings.measure {
            let note = format_args!("measured {number}");
            if Event::new(EventType::Normal, "Measured", note).record(object).is_err() {
                refused += 1;
            }
        }
        let nanoseconds = began.elapsed().as_nanos() / u128::from(self.settings.measure);
        info!("measured", nanoseconds = nanoseconds, refused = refused);
    }
}

impl Spec {
    fn record(&self, kind: &Kind, object: &Object) -> Result<(), events::EventError> {
        let event_type = if self.warning { EventType::Warning } else { EventType::Normal };
        let mut event = Event::new(event_type, &self.reason, &self.note).action(&self.action);
        if let Some((name, value)) = &self.annotation {
            event = event.annotation(name, value);
        }
        if let Some(path) = &self.field_path {
            event = event.field_path(path);
        }
        if let Some(time) = &self.timestamp {
            event = event.timestamp(time);
        }
        let node = Kind::core("v1", "Node");
        let related = self.related_node.as_ref().map(Key::cluster);
        if let Some(related) = &related {
            event = event.related(Regarding::key(&node, related, ""));
        }
        match &self.key {
            None => event.record(object),
            Some(key) => {
                let key = key.parse().unwrap_or_else(|_| Key::cluster(key));
                event.record(Regarding::key(kind, &key, &self.uid))
            }
        }
    }
}
