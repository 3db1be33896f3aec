//! The generated traits of a guest's imports, implemented on [`HostImports`](crate::HostImports): one file per
//! interface.

mod cache;
mod client;
mod events;
mod log;
mod objects;
mod queue;

use pilothouse_object::{Gvk, KeyError, ObjectKey};

use crate::bindings::pilothouse::controller::types as wit;
use crate::error::OverLimit;
use crate::host::ObjectCursor;
use crate::state::StoreState;

/// The resource behind a guest's handle of a cursor: a snapshot that the guest reads in portions.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct Cursor(Box<dyn ObjectCursor>);

/// Counts the bytes that one call of an import answers, against `limits.answerBytes`: the guest chooses how much it asks
/// for, and the host holds the answer until it is copied.
struct Answer {
    import: &'static str,
    bytes: usize,
    max: usize,
}

impl Answer {
    fn new(import: &'static str, max: usize) -> Self {
        Self { import, bytes: 0, max }
    }

    /// Adds a part of the answer; an error when the answer becomes too large.
    fn add(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes <= self.max {
            return Ok(());
        }
        Err(OverLimit::new(format_args!(
            "the answer of {} exceeds {} bytes (limits.answerBytes): ask for less at a time, or raise the limit",
            self.import, self.max
        )))
    }
}

impl wit::Host for StoreState {}

impl crate::bindings::pilothouse::controller::config::Host for StoreState {
    fn get(&mut self) -> wasmtime::Result<Vec<u8>> {
        Ok(self.host.config().to_vec())
    }
}

fn gvk(kind: wit::Gvk) -> Gvk {
    Gvk { group: kind.group, version: kind.version, kind: kind.kind }
}

fn key(key: &wit::ObjectKey) -> Result<ObjectKey, KeyError> {
    ObjectKey::new(key.namespace.as_deref(), &key.name)
}
