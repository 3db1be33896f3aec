//! Panics of the host where it writes a line of its log: the code around such a line has no other place to fail.

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber, span};

/// Panics at the first lines of this event on this thread, until it is dropped.
pub(crate) fn panic_at(event: &'static str, times: usize) -> DefaultGuard {
    pilothouse_testkit::log::subscribe(PanickingLog { event, left: AtomicUsize::new(times) })
}

struct PanickingLog {
    event: &'static str,
    left: AtomicUsize,
}

/// Whether the field `event` has this value.
struct Matches {
    event: &'static str,
    found: bool,
}

impl Visit for Matches {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.found |= field.name() == "event" && value == self.event;
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

impl Subscriber for PanickingLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut matches = Matches { event: self.event, found: false };
        event.record(&mut matches);
        if matches.found {
            let left = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
            assert!(left.is_err(), "a bug");
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
