//! Contract 0.1: its interfaces on the host's side. Its options cross as JSON, and its reasons as strings. Only this module
//! reads and writes them.

mod cache;
mod client;
mod events;
mod log;
mod objects;
mod queue;

use pilothouse_object::{Gvk, KeyError, ObjectKey};
use wasmtime::component::Linker;

use super::{ImportCall, ImportCalls, import_call};
use crate::bindings::v0_1::pilothouse::controller as wit;
use crate::host::{Refusal, RefusalReason};
use crate::state::StoreState;

/// Links the interfaces.
pub(crate) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    wit::types::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::objects::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::cache::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::client::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::queue::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::config::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::log::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::events::add_to_linker::<StoreState, ImportCalls>(linker, import_call)
}

/// How 0.1 names a reason.
fn reason(reason: RefusalReason) -> &'static str {
    match reason {
        RefusalReason::Forbidden => "forbidden",
        // 0.1 has no word of its own for a bound.
        RefusalReason::Invalid | RefusalReason::OverLimit => "invalid",
        RefusalReason::NotWatched => "not-watched",
        RefusalReason::UnknownIndex => "unknown-index",
        RefusalReason::Unavailable | RefusalReason::Unsupported => "unavailable",
    }
}

/// Reads a text of JSON; an empty one is that of nothing.
fn json<T: Default + serde::de::DeserializeOwned>(what: &str, text: &str) -> Result<T, Refusal> {
    match text {
        "" => Ok(T::default()),
        text => serde_json::from_str(text).map_err(|error| Refusal::invalid(format_args!("{what}: {error}"))),
    }
}

impl wit::types::Host for ImportCall<'_> {}

impl wit::config::Host for ImportCall<'_> {
    fn get(&mut self) -> wasmtime::Result<Vec<u8>> {
        Ok(self.host.config().to_vec())
    }
}

fn gvk(kind: wit::types::Gvk) -> Gvk {
    Gvk { group: kind.group, version: kind.version, kind: kind.kind }
}

fn key(key: &wit::types::ObjectKey) -> Result<ObjectKey, KeyError> {
    ObjectKey::new(key.namespace.as_deref(), &key.name)
}

pub(crate) fn wit_key(key: &ObjectKey) -> wit::types::ObjectKey {
    wit::types::ObjectKey { namespace: key.namespace().map(str::to_owned), name: key.name().to_owned() }
}

pub(crate) fn wit_kind(kind: &Gvk) -> wit::types::Gvk {
    wit::types::Gvk { group: kind.group.clone(), version: kind.version.clone(), kind: kind.kind.clone() }
}

#[cfg(test)]
mod tests;
