//! The border to the host. In a component it is the generated bindings, without a layer in between; in native builds a
//! [`Host`] is a trait object, of which [`testing::World`](crate::testing::World) is the implementation.
//!
//! Both sides have the same functions and types, so the rest of the crate is written once. Errors are those of the
//! bindings: this module adds nothing to a call but the handle of its kind and its options.

mod options;

#[cfg(not(target_family = "wasm"))]
mod native;
#[cfg(target_family = "wasm")]
mod wasm;

#[cfg(not(target_family = "wasm"))]
pub(crate) use native::*;
#[cfg(target_family = "wasm")]
pub(crate) use wasm::*;

pub(crate) use options::{CallOptions, Declaration, EventParts, MetricUse, PatchKind, Target};

use crate::bindings::imports::types as raw;

/// One page of a live list.
pub(crate) struct Page {
    pub(crate) items: Vec<Object>,
    pub(crate) continue_token: Option<String>,
    pub(crate) resource_version: String,
    pub(crate) remaining_items: Option<u64>,
}

pub(crate) type Refused<T> = Result<T, raw::Refusal>;
pub(crate) type Called<T> = Result<T, raw::ClientError>;
