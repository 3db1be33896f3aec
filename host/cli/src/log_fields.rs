//! [`LogFields`]: the fields of an event in the log as text.
//!
//! Invariant: an event is one line and commands no terminal, whatever its fields have. Users of the cluster choose keys of plugins,
//! since names of some kinds, annotations and fields of objects may hold any character. The log as JSON escapes line breaks itself.

use std::fmt::{self, Debug};

use pilothouse_plugin::printable;
use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{FormatFields, Writer};

/// Writes fields as tracing does, with control characters escaped, and texts cut at some KiB.
pub(crate) struct LogFields;

impl<'writer> FormatFields<'writer> for LogFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut visitor = FieldVisitor { writer, is_first: true, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

/// Writes one field after the other.
struct FieldVisitor<'writer> {
    writer: Writer<'writer>,
    is_first: bool,
    result: fmt::Result,
}

impl Visit for FieldVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        // The message is a sentence; other texts have quotes.
        match field.name() {
            "message" => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Fields of events of the crate `log` that are in the head of the line.
        if self.result.is_ok() && !field.name().starts_with("log.") {
            self.result = self.write(field.name(), &printable(&format!("{value:?}")));
        }
    }
}

impl FieldVisitor<'_> {
    fn write(&mut self, name: &str, value: &str) -> fmt::Result {
        if !std::mem::take(&mut self.is_first) {
            self.writer.write_char(' ')?;
        }
        match name {
            "message" => self.writer.write_str(value),
            _ if self.writer.has_ansi_escapes() => {
                write!(self.writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m{value}")
            }
            _ => write!(self.writer, "{name}={value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// What a log has written.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The log of an event about this key.
    fn logged(key: &str, colours: bool) -> String {
        let written = Written::default();
        let out = written.clone();
        let lines = tracing_subscriber::fmt::layer()
            .fmt_fields(LogFields)
            .with_writer(move || out.clone())
            .with_ansi(colours)
            .without_time();
        {
            let _guard = pilothouse_testkit::log::subscribe(tracing_subscriber::registry().with(lines));
            tracing::warn!(event = "reconcile_failed", key = %key, call = 7, "failed: {key}");
        }
        let written = written.0.lock().unwrap().clone();
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn a_line_has_the_message_and_the_fields() {
        let line = logged("ns/x", false);
        let wanted = "failed: ns/x event=\"reconcile_failed\" key=ns/x call=7\n";
        assert!(line.ends_with(wanted) && line.contains("WARN"), "{line}");
        let line = logged("ns/x", true);
        assert!(line.contains("\x1b[3mkey\x1b[0m\x1b[2m=\x1b[0mns/x "), "{line:?}");
    }

    #[test]
    fn a_key_with_control_characters_makes_no_second_line_and_commands_no_terminal() {
        let hostile = "ns/x\n2026-11-27T00:00:00Z  INFO forged\r\u{1b}[2J\u{9b}31m";
        for colours in [false, true] {
            let line = logged(hostile, colours);
            assert_eq!(line.lines().count(), 1, "{line:?}");
            assert!(!line.contains(['\r', '\u{9b}']) && !line.contains("\u{1b}[2J"), "{line:?}");
            let escaped = "ns/x\\n2026-11-27T00:00:00Z  INFO forged\\r\\u{1b}[2J\\u{9b}31m";
            assert_eq!(line.matches(escaped).count(), 2, "in the message and in the key: {line:?}");
        }
        assert!(logged(&"x".repeat(1 << 20), false).len() < 20 << 10);
    }
}
