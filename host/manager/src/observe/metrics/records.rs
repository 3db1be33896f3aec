//! What became of the spans of traces.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::EncodeLabelSet;

use super::scraped::{Figure, Scraped, Value};
use crate::observe::traces::Traces;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RecordResult {
    result: &'static str,
}

static SPANS: [Figure<u64>; 1] = [Figure {
    name: "pilothouse_trace_spans",
    help: "Spans of traces by what became of them; those that failed were recorded before",
    value: Value::Counter(|count| *count),
}];

/// The spans of traces.
pub(crate) fn traces(traces: Traces) -> Box<dyn Collector> {
    Scraped::new(&SPANS, move || traces.counts().get().map(row).into())
}

fn row((result, count): (&'static str, u64)) -> (RecordResult, u64) {
    (RecordResult { result }, count)
}
