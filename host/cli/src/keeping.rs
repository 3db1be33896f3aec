//! [`Keeping`]: the events of the host and the guests as lines that the admin address shows. Called by tracing, on whatever
//! thread an event happens.

use std::fmt::Write as _;

use pilothouse_manager::RecentLog;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use pilothouse_hosting::event_fields::EventFields;

/// The layer that keeps the last lines.
pub(crate) struct Keeping(pub(crate) RecentLog);

impl<S: Subscriber> Layer<S> for Keeping {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let (level, target) = (name(*event.metadata().level()), event.metadata().target());
        self.0.push(level, target, fields.plugin.as_deref(), &fields.message, &others(&fields));
    }
}

fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARN",
        Level::INFO => "INFO",
        Level::DEBUG => "DEBUG",
        Level::TRACE => "TRACE",
    }
}

/// All fields but the plugin and the message.
fn others(fields: &EventFields) -> String {
    let key = fields.key.iter().map(|key| ("key", key));
    let rest = fields.rest.iter().map(|(name, value)| (*name, value));
    let more = fields.fields.iter().map(|fields| ("fields", fields));
    let mut text = String::new();
    for (name, value) in key.chain(rest).chain(more) {
        let separator = if text.is_empty() { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{name}={value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn a_line_has_its_plugin_its_message_and_all_other_fields() {
        let log = RecentLog::default();
        {
            let _guard =
                pilothouse_testkit::log::subscribe(tracing_subscriber::registry().with(Keeping(log.clone())));
            let fields = tracing::field::display("{\"a\":1}");
            tracing::warn!(target: "guest", plugin = "p", generation = 3, key = %"ns/x", fields, "hello {}", 1);
            tracing::info!(event = "stopped", "stopped");
        }
        let lines = log.after(0).lines;
        let shown = |line: &pilothouse_manager::LogLine| {
            (line.level, line.target.clone(), line.plugin.clone(), line.message.clone(), line.fields.clone())
        };
        let some = |text: &str| text.to_owned();
        assert_eq!(
            lines.iter().map(shown).collect::<Vec<_>>(),
            [
                (
                    "WARN",
                    some("guest"),
                    Some(some("p")),
                    some("hello 1"),
                    some("key=ns/x generation=3 fields={\"a\":1}")
                ),
                ("INFO", some(module_path!()), None, some("stopped"), some("event=stopped")),
            ]
        );
    }
}
