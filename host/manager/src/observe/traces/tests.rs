//! [`Spans`]: the spans of a test.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::Registry;

use super::*;

/// A span that has ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ended {
    pub(crate) name: &'static str,
    /// The number of the span that it is a part of.
    pub(crate) parent: Option<u64>,
    pub(crate) fields: BTreeMap<&'static str, String>,
}

impl Ended {
    /// A field; empty when there is none.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

impl Visit for Ended {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

/// The spans that end on this thread while the guard lives.
#[derive(Clone, Default)]
pub(crate) struct Spans(Arc<Mutex<Vec<Ended>>>);

impl Spans {
    pub(crate) fn capture() -> (Self, DefaultGuard) {
        let spans = Self::default();
        let layer = spans.clone().with_filter(Targets::new().with_target(TRACE, tracing::Level::INFO));
        (spans, pilothouse_testkit::log::subscribe(tracing_subscriber::registry().with(layer)))
    }

    /// Those that have ended since the last time.
    pub(crate) fn take(&self) -> Vec<Ended> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Layer<Registry> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, Registry>) {
        let Some(span) = context.span(id) else { return };
        let parent = span.parent().map(|parent| parent.id().into_u64());
        let mut new = Ended { name: span.name(), parent, ..Ended::default() };
        attributes.record(&mut new);
        span.extensions_mut().insert(new);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, Registry>) {
        let Some(span) = context.span(id) else { return };
        if let Some(ended) = span.extensions_mut().get_mut::<Ended>() {
            values.record(ended);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, Registry>) {
        let ended = context.span(&id).and_then(|span| span.extensions_mut().remove::<Ended>());
        self.0.lock().extend(ended);
    }
}

#[test]
fn a_failure_is_cut_and_numbers_beyond_the_end_are_the_greatest() {
    let (spans, _guard) = Spans::capture();
    let span = tracing::info_span!(
        target: TRACE,
        parent: None,
        "write",
        many = number(u64::MAX),
        otel.status_description = tracing::field::Empty,
    );
    failed(&span, &"ü".repeat(1000));
    drop(span);
    let spans = spans.take();
    assert_eq!(spans[0].field("otel.status_description").len(), 252);
    assert_eq!((spans.len(), spans[0].field("many")), (1, i64::MAX.to_string().as_str()));
}

#[test]
fn without_a_subscriber_that_asks_for_the_target_there_is_no_span() {
    let registry =
        tracing_subscriber::registry().with("info,pilothouse::trace=off".parse::<Targets>().unwrap());
    let _guard = pilothouse_testkit::log::subscribe(registry);
    assert!(tracing::info_span!(target: TRACE, parent: None, "reconcile").is_disabled());
}
