//! Typed access: [`Resource`] types are read, written and watched by their type, which knows its kind, plural and scope.

mod api;
mod condition;
mod finalizer;
#[cfg(feature = "kube")]
mod kube;
mod merge;
mod metadata;
mod owners;
mod read;
mod resource;
mod write;

pub use api::Api;
pub use condition::{Condition, ConditionStatus, Conditions};
pub use finalizer::{Finalizer, finalizer};
pub use metadata::Metadata;
pub use owners::{controller_reference, owner_reference, set_controller_reference};
pub use read::TypedObjects;
pub use resource::{ObjectMetadata, Resource, Scope};
pub use write::Written;

#[cfg(not(target_family = "wasm"))]
pub(crate) use {merge::transfer, resource::body_of};
