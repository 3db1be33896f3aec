//! The `events` interface: Kubernetes Events that the guest records. A malformed or refused event returns an error to
//! the guest.

use pilothouse_object::Object;

use super::{ImportCall, gvk, key};
use crate::bindings::pilothouse::controller::events::{EventError, Host, Regarding};
use crate::host::{EventTarget, GuestEvent, Refusal};
use crate::state::StoreState;

impl From<Refusal> for EventError {
    fn from(refusal: Refusal) -> Self {
        Self { reason: refusal.reason.to_owned(), message: refusal.message }
    }
}

impl StoreState {
    fn target(&self, regarding: Regarding) -> wasmtime::Result<Result<EventTarget, Refusal>> {
        Ok(match regarding {
            Regarding::Object(handle) => {
                Ok(EventTarget::Object(Object::clone(self.handles.object(&handle)?)))
            }
            Regarding::Reference(reference) => match key(&reference.key) {
                Ok(key) => Ok(EventTarget::Reference {
                    kind: gvk(reference.kind),
                    key,
                    uid: reference.uid,
                    resource_version: reference.resource_version,
                }),
                Err(error) => Err(Refusal { reason: "invalid", message: error.to_string() }),
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
        let recorded = match (regarding, related) {
            (Ok(regarding), Ok(related)) => {
                let event = GuestEvent { regarding, related, event_type, reason, action, note, options };
                self.host.record_event(&self.call.get(), event)
            }
            (Err(refusal), _) | (_, Err(refusal)) => Err(refusal),
        };
        Ok(recorded.map_err(EventError::from))
    }
}
