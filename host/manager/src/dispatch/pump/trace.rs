//! The spans of calls of event handlers.

use pilothouse_engine::{Failure, Fault};
use pilothouse_object::ObjectKey;
use tokio::time::Instant;

use super::{Pump, PumpSpec};

impl Pump {
    /// Records the span of a call for `count` events, the first of which is of `key`, if the call is sampled.
    pub(super) fn trace(
        &self,
        call: u64,
        began: Instant,
        key: &ObjectKey,
        count: usize,
        outcome: &Result<Vec<Result<(), Failure>>, Fault>,
    ) {
        let PumpSpec { plugin, generation, watch, .. } = &self.spec;
        let Some(traces) = plugin.traces() else { return };
        let Some(of) = traces.of_call(call) else { return };
        let error = match outcome {
            Ok(answers) => answers.iter().find_map(|answer| answer.as_ref().err()).map(|e| e.message.clone()),
            Err(fault) => Some(fault.to_string()),
        };
        let attributes = vec![
            ("pilothouse.plugin", (&**plugin.name()).into()),
            ("pilothouse.generation", generation.number.into()),
            ("pilothouse.call", call.into()),
            ("pilothouse.watch", watch.as_str().into()),
            ("pilothouse.key", key.to_string().as_str().into()),
            ("pilothouse.events", (count as u64).into()),
        ];
        traces.handle(of, began, attributes, error);
    }
}
