//! Spans of calls: a `reconcile`, or a `handle` of events, and in it a `write` for each write of the guest.
//!
//! They are spans of `tracing` with a target of their own. A layer that the binary adds with its feature `traces` sends them to a
//! collector, and samples them. Where nobody asks for the target a span is none, and costs one look at its place in the code.
//! A call is polled within its span, so the imports of the guest find it as the current one.

use pilothouse_engine::{Failure, Fault};
use tracing::Span;

use crate::observe::audit::{LONGEST, clip};

/// Target of the spans of calls.
pub const TRACE: &str = "pilothouse::trace";

/// Number of an attribute. Those of calls and generations are far from the end.
pub(crate) fn number(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// A call has ended. Its span fails with the fault, or with the first failure among the answers.
pub(crate) fn ended<T>(span: Span, outcome: Result<&[Result<T, Failure>], &Fault>) {
    if span.is_disabled() {
        return;
    }
    match outcome {
        Ok(answers) => {
            let failure = answers.iter().find_map(|answer| answer.as_ref().err());
            failure.into_iter().for_each(|failure| failed(&span, &failure.message));
        }
        Err(fault) => failed(&span, &fault.to_string()),
    }
}

/// What the span is of has failed.
pub(crate) fn failed(span: &Span, error: &str) {
    span.record("otel.status_description", clip(error, LONGEST));
}

#[cfg(test)]
pub(crate) mod tests;
