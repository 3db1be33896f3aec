//! [`Readable`]: the events of the host and the guests as lines of the log.
//!
//! What a line holds is decided in [`describe`]; fields that say nothing to the author of a guest (numbers of calls, digests)
//! are left out. Called by tracing, on whatever thread an event happens.

use std::fmt::{Debug, Write as _};
use std::time::Instant;

use pilothouse_manager::RECONCILES;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::limit::Class;
use super::{Log, Tone};
use pilothouse_hosting::event_fields::EventFields;

/// Target of what guests log.
const GUEST: &str = "guest";
/// Fields that are shown in another way, or say nothing to the author of a guest.
const LEFT_OUT: [&str; 9] =
    ["event", "generation", "call", "digest", "before", "kept", "took", "kind", "retry_in"];

/// The layer that writes to the log that is found for the thread of an event, if there is one.
pub(super) struct Readable<F>(pub(super) F);

impl<S: Subscriber, F: Fn() -> Option<Log> + 'static> Layer<S> for Readable<F> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let (target, level) = (event.metadata().target(), *event.metadata().level());
        let Some(log) = &self.0() else { return };
        if let Some(class) = class(target, level) {
            // A look at the name alone: most of a flood goes no further.
            let mut plugin = PluginOnly { log, class, allowed: true };
            event.record(&mut plugin);
            if !plugin.allowed {
                return;
            }
        }
        let mut fields = EventFields::default();
        event.record(&mut fields);
        if let Some((tone, text)) = describe(target, level, &fields) {
            let who = fields.plugin.as_deref().unwrap_or(component(target));
            log.say(who, tone, &text);
        }
    }
}

/// The class whose limit holds; none for what the host says now and then.
fn class(target: &str, level: Level) -> Option<Class> {
    match target {
        RECONCILES => Some(Class::Reconcile),
        // The least severe level is the greatest.
        _ if level <= Level::WARN => Some(Class::Trouble),
        GUEST => Some(Class::Said),
        _ => None,
    }
}

/// Who speaks when no plugin does.
fn component(target: &str) -> &'static str {
    if target.starts_with("pilothouse_devserver") { "api" } else { "host" }
}

/// Asks the limits for one more line of the plugin that the event is of.
struct PluginOnly<'a> {
    log: &'a Log,
    class: Class,
    allowed: bool,
}

impl Visit for PluginOnly<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "plugin" {
            let (allowed, told) = self.log.0.limits.ask(value, self.class, Instant::now());
            if let Some(dropped) = told {
                self.log.say(value, Tone::Quiet, &dropped.to_string());
            }
            self.allowed = allowed;
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// The line for an event; none when another one tells the same.
fn describe(target: &str, level: Level, fields: &EventFields) -> Option<(Tone, String)> {
    if target == RECONCILES {
        return reconcile(fields).map(|text| (Tone::Quiet, text));
    }
    let tone = match level {
        Level::ERROR => Tone::Error,
        Level::WARN => Tone::Warning,
        Level::INFO => Tone::Plain,
        _ => Tone::Quiet,
    };
    if target == GUEST {
        return Some((tone, said(fields)));
    }
    Some(match (fields.get("event"), fields.get("before")) {
        (Some("plugin_running"), None) => (Tone::Good, "running".to_owned()),
        (Some("plugin_running"), Some(_)) => {
            (Tone::Good, format!("reloaded: generation {}", fields.get("generation").unwrap_or("?")))
        }
        _ => (tone, hosted(fields)),
    })
}

/// A reconcile. Failures are told by an event of their own, with the reason.
fn reconcile(fields: &EventFields) -> Option<String> {
    let outcome = match (fields.get("outcome")?, fields.get("after")) {
        ("success", _) => String::new(),
        ("requeue", _) => ", requeued".to_owned(),
        ("requeue_after", Some(after)) => format!(", requeued after {after}"),
        _ => return None,
    };
    let key = fields.key.as_deref().unwrap_or_default();
    let milliseconds = fields.get("milliseconds").and_then(|text| text.parse().ok()).unwrap_or(0.0_f64);
    Some(format!("reconciled {key} in {milliseconds:.1} ms{outcome}"))
}

/// What a guest logs: its text, its fields, and the key if neither tells it.
fn said(fields: &EventFields) -> String {
    let mut text = fields.message.clone();
    let more = fields.fields.as_deref().and_then(|json| serde_json::from_str(json).ok());
    let more: serde_json::Map<String, serde_json::Value> = more.unwrap_or_default();
    for (name, value) in &more {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ = write!(text, " {name}={value}");
    }
    if let Some(key) = fields.key.as_deref().filter(|key| !text.contains(*key)) {
        let _ = write!(text, " key={key}");
    }
    text
}

/// What the host says of a plugin or of itself.
fn hosted(fields: &EventFields) -> String {
    let mut text = match fields.key.as_deref().filter(|key| !fields.message.contains(*key)) {
        Some(key) => format!("{key}: {}", fields.message),
        None => fields.message.clone(),
    };
    for (name, value) in fields.rest.iter().filter(|(name, _)| !LEFT_OUT.contains(name)) {
        let _ = write!(text, " {name}={value}");
    }
    if let Some(retry) = fields.get("retry_in") {
        let _ = write!(text, " (retry in {retry})");
    }
    if let Some(kept) = fields.get("kept") {
        let _ = write!(text, "; keeping generation {kept}");
    }
    text
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::super::testing::Written;
    use super::*;

    /// The lines that the events of `events` make.
    fn lines(events: impl FnOnce()) -> Vec<String> {
        let written = Written::default();
        let log = written.log();
        log.expect_name("a");
        let _guard = pilothouse_testkit::log::subscribe(
            tracing_subscriber::registry().with(Readable(move || Some(log.clone()))),
        );
        events();
        written.lines()
    }

    #[test]
    fn what_a_guest_says_comes_with_its_fields_and_the_key_once() {
        let said = lines(|| {
            let fields = tracing::field::display(r#"{"node":"worker-1","total":"7"}"#);
            tracing::info!(target: "guest", plugin = "a", generation = 1, key = %"worker-1", call = 3, fields, "wrote x");
            tracing::info!(target: "guest", plugin = "a", generation = 1, key = %"worker-2", call = 4, "hello");
        });
        assert_eq!(said, ["a     wrote x node=worker-1 total=7", "a     hello key=worker-2"]);
    }

    #[test]
    fn reconciles_tell_their_outcome_and_failures_are_told_once() {
        let after = |seconds| Some(tracing::field::debug(std::time::Duration::from_secs(seconds)));
        let none = after(1).filter(|_| false);
        let said = lines(|| {
            macro_rules! reconciled {
                ($outcome:literal, $after:expr) => {
                    tracing::debug!(target: RECONCILES, plugin = "a", key = %"n/x", outcome = $outcome, after = $after,
                        milliseconds = 1.26, "reconciled")
                };
            }
            reconciled!("success", none);
            reconciled!("requeue", none);
            reconciled!("requeue_after", after(5));
            reconciled!("error", none);
            tracing::warn!(plugin = "a", generation = 1, key = %"n/x", call = 1, kind = "transient", retry_in = after(2),
                "reconcile failed: no");
        });
        assert_eq!(
            said,
            [
                "a     reconciled n/x in 1.3 ms",
                "a     reconciled n/x in 1.3 ms, requeued",
                "a     reconciled n/x in 1.3 ms, requeued after 5s",
                "a     warning: n/x: reconcile failed: no (retry in 2s)",
            ]
        );
    }

    #[test]
    fn loads_are_told_in_few_words() {
        let said = lines(|| {
            let none: Option<u64> = None;
            tracing::info!(
                event = "plugin_running",
                plugin = "a",
                generation = 1,
                before = none,
                digest = "sha256:1",
                "plugin running"
            );
            tracing::info!(
                event = "plugin_running",
                plugin = "a",
                generation = 3,
                before = Some(1),
                digest = "sha256:2",
                "plugin running"
            );
            tracing::error!(plugin = "a", kept = Some(3), "plugin not loaded: bad");
            tracing::info!(event = "connected", server = "http://x", version = "v1", "connected");
        });
        assert_eq!(
            said,
            [
                "a     running",
                "a     reloaded: generation 3",
                "a     error: plugin not loaded: bad; keeping generation 3",
                "host  connected server=http://x version=v1",
            ]
        );
    }

    #[test]
    fn a_flood_of_one_plugin_leaves_the_others_alone() {
        let said = lines(|| {
            for _ in 0..1000 {
                tracing::info!(target: "guest", plugin = "a", "again");
            }
            tracing::info!(target: "guest", plugin = "b", "hello");
            tracing::error!(target: "guest", plugin = "a", "alas");
        });
        assert!(said.len() < 100, "{}", said.len());
        assert_eq!(said[said.len() - 2..], ["b     hello", "a     error: alas"]);
    }
}
