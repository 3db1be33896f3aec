//! The host's side of the resources of the contract. Those of a call stand in [`Handles`](crate::handles::Handles); kinds and
//! metrics live as long as the instance, in [`Kept`].

#![expect(unreachable_pub, reason = "the generated bindings re-export them")]

use std::sync::Arc;

use pilothouse_object::{Gvk, Object};
use wasmtime::component::Resource;

use crate::host::{CallOptions, EventOptions, EventTarget, GuestMetric, ObjectCursor, Refusal};

/// A snapshot of objects that a guest reads in portions.
pub struct Cursor(pub(crate) Box<dyn ObjectCursor>);

/// A kind in a cluster.
#[derive(Clone)]
pub struct Kind {
    /// Number of the cluster.
    pub(crate) cluster: u32,
    pub(crate) kind: Gvk,
}

/// The values of an index that a guest has not read yet, the next one last.
pub struct Values(pub(crate) Vec<String>);

/// A query that is being put together.
pub struct Query {
    pub(crate) kind: Gvk,
    pub(crate) namespace: String,
    pub(crate) label_selector: String,
    /// Name and value.
    pub(crate) index: Option<(String, String)>,
    pub(crate) limit: u64,
    /// Why the query cannot be run.
    pub(crate) refusal: Option<Refusal>,
}

/// Options that are being put together.
#[derive(Default)]
pub struct Options {
    pub(crate) options: CallOptions,
    /// Why they cannot be used.
    pub(crate) refusal: Option<Refusal>,
}

/// One page of a list.
pub struct Page {
    /// Number of the cluster.
    pub(crate) cluster: u32,
    pub(crate) items: Vec<Object>,
    pub(crate) continue_token: Option<String>,
    pub(crate) resource_version: String,
    pub(crate) remaining_items: Option<u64>,
}

/// An Event that is being put together.
pub struct NewEvent {
    pub(crate) regarding: EventTarget,
    pub(crate) related: Option<EventTarget>,
    pub(crate) is_warning: bool,
    pub(crate) reason: String,
    pub(crate) action: String,
    pub(crate) note: String,
    pub(crate) options: EventOptions,
    /// Why it cannot be recorded.
    pub(crate) refusal: Option<Refusal>,
    pub(crate) is_recorded: bool,
}

/// A metric that was declared.
pub struct Metric(pub(crate) Arc<dyn GuestMetric>);

/// Resources that live as long as the instance, by the number of their handle. The guest can name only what it has, so the
/// number of one that it dropped is used again.
pub(crate) struct Kept<T>(Vec<Option<T>>);

impl<T: 'static> Kept<T> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Whether there is room for one more handle, of at most `most`.
    pub(crate) fn has_room(&self, most: usize) -> bool {
        self.0.len() < most || self.0.iter().any(Option::is_none)
    }

    /// A handle; none when there are `most` already.
    pub(crate) fn push(&mut self, value: T, most: usize) -> Option<Resource<T>> {
        let free = self.0.iter().position(Option::is_none);
        let number = free.or_else(|| {
            (self.0.len() < most).then(|| {
                self.0.push(None);
                self.0.len() - 1
            })
        })?;
        self.0[number] = Some(value);
        Some(Resource::new_own(u32::try_from(number).ok()?))
    }

    /// The value behind a handle.
    pub(crate) fn get(&self, handle: &Resource<T>) -> wasmtime::Result<&T> {
        let value = self.0.get(handle.rep() as usize).and_then(Option::as_ref);
        value
            .ok_or_else(|| wasmtime::Error::msg("a handle of a kind or metric was used after it was dropped"))
    }

    pub(crate) fn delete(&mut self, handle: &Resource<T>) {
        if let Some(slot) = self.0.get_mut(handle.rep() as usize) {
            *slot = None;
        }
    }
}
