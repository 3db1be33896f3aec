//! [`Exemplars`]: the last traced reconcile of each result, which a scrape shows beside the counter, so that a dashboard leads to
//! the trace.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::SystemTime;

use parking_lot::Mutex;
use prometheus_client::metrics::exemplar::CounterWithExemplar;

/// A call that was traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traced {
    /// Number of the trace.
    trace: u128,
    /// When the call ended.
    at: SystemTime,
}

/// The last traced reconcile by result. Without one it has no memory of its own.
#[derive(Debug, Default)]
pub(crate) struct Exemplars(OnceLock<Box<Mutex<BTreeMap<&'static str, Traced>>>>);

impl Exemplars {
    /// A reconcile with this result was traced.
    pub(crate) fn note(&self, result: &'static str, trace: u128) {
        let last = self.0.get_or_init(Box::default);
        last.lock().insert(result, Traced { trace, at: SystemTime::now() });
    }

    /// The last one with this result.
    pub(super) fn of(&self, result: &str) -> Option<Traced> {
        self.0.get()?.lock().get(result).copied()
    }
}

/// A counter with the last of what it counts as its exemplar.
pub(super) fn counter(
    count: u64,
    traced: Option<Traced>,
) -> CounterWithExemplar<[(&'static str, String); 1]> {
    let counter = CounterWithExemplar::default();
    // The call may not be counted yet.
    let traced = traced.filter(|_| count > 0);
    counter.inc_by(count - u64::from(traced.is_some()), None, None);
    if let Some(Traced { trace, at }) = traced {
        counter.inc_by(1, Some([("trace_id", format!("{trace:032x}"))]), Some(at));
    }
    counter
}
