//! The `events` interface: Kubernetes Events that the guest records. A malformed or refused event returns an error to
//! the guest.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{gvk, json, key, reason};
use crate::bindings::v0_1::pilothouse::controller::events::{EventError, Host, Regarding};
use crate::host::{EventOptions, EventTarget, GuestEvent, Refusal, RefusalReason};
use crate::imports::ImportCall;
use crate::state::StoreState;

impl From<Refusal> for EventError {
    fn from(refusal: Refusal) -> Self {
        let reason = match refusal.reason {
            RefusalReason::OverLimit => "over-quota",
            other => reason(other),
        };
        Self { reason: reason.to_owned(), message: refusal.message }
    }
}

/// The parameter `options`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Options {
    annotations: BTreeMap<String, String>,
    field_path: String,
    timestamp: Option<String>,
}

impl StoreState {
    fn target(&self, regarding: Regarding) -> wasmtime::Result<Result<EventTarget, Refusal>> {
        Ok(match regarding {
            Regarding::Object(handle) => Ok(self.handles.object(&handle)?.into()),
            Regarding::Reference(reference) => match key(&reference.key) {
                Ok(key) => Ok(EventTarget {
                    kind: gvk(reference.kind),
                    key,
                    uid: reference.uid,
                    resource_version: reference.resource_version,
                }),
                Err(error) => Err(Refusal::invalid(error)),
            },
        })
    }
}

impl Host for ImportCall<'_> {
    fn record(
        &mut self,
        regarding: Regarding,
        related: Option<Regarding>,
        event_type: String,
        reason: String,
        action: String,
        note: String,
        options: String,
    ) -> wasmtime::Result<Result<(), EventError>> {
        let regarding = self.target(regarding)?;
        let related = related.map(|related| self.target(related)).transpose()?.transpose();
        let recorded = || {
            let (regarding, related) = (regarding?, related?);
            let options = json("options", &options).map(|Options { annotations, field_path, timestamp }| {
                EventOptions { annotations, field_path, timestamp }
            });
            let event = GuestEvent { regarding, related, event_type, reason, action, note, options };
            self.host.record_event(&self.call.get(), event)
        };
        Ok(recorded().map_err(EventError::from))
    }
}
