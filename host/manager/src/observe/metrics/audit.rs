//! What became of the lines of the audit.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::EncodeLabelSet;

use super::scraped::{Figure, Scraped, Value};
use crate::observe::audit::Audit;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LineResult {
    result: &'static str,
}

static LINES: [Figure<u64>; 1] = [Figure {
    name: "pilothouse_audit_lines",
    help: "Lines of the audit of writes by what became of them",
    value: Value::Counter(|count| *count),
}];

/// The lines of an audit.
pub(crate) fn audit(audit: Audit) -> Box<dyn Collector> {
    let row = |(result, count)| (LineResult { result }, count);
    Scraped::new(&LINES, move || audit.counts().map(row).into())
}
