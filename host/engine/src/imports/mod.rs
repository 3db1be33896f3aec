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
use crate::host::ObjectCursor;
use crate::state::StoreState;

/// The resource behind a guest's handle of a cursor: a snapshot that the guest reads in portions.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct Cursor(Box<dyn ObjectCursor>);

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
