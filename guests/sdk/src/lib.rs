//! Write Kubernetes controllers that run as WebAssembly plugins of Pilothouse.
//!
//! ```
//! use pilothouse_sdk::prelude::*;
//!
//! const NODE: Kind = Kind::core("v1", "Node");
//!
//! #[derive(Deserialize, Default)]
//! #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
//! struct Settings {
//!     greeting: String,
//! }
//!
//! struct Greeter {
//!     settings: Settings,
//! }
//!
//! #[pilothouse_sdk::reconciler]
//! impl Reconciler for Greeter {
//!     fn describe(config: &Config) -> Result<Descriptor, String> {
//!         config.parse::<Settings>()?;
//!         Ok(Descriptor::new("greeter").watch(Watch::new(NODE)))
//!     }
//!
//!     fn new(config: &Config) -> Result<Self, String> {
//!         Ok(Self { settings: config.parse()? })
//!     }
//!
//!     fn reconcile(&mut self, ctx: &Context, request: &Request) -> Result<Outcome, Failure> {
//!         if ctx.cache().get(&NODE, &request.key)?.is_some() {
//!             info!("{}", self.settings.greeting, node = request.key);
//!         }
//!         Ok(Outcome::Done)
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! - A plugin targets one of four worlds. The attribute on its `impl` block selects the world: [`macro@reconciler`],
//!   [`macro@batch_reconciler`], [`macro@event_handler`] or [`macro@controller`].
//! - [`Context`] is a call's access to the host: [`cache`], [`client`], [`queue`], [`events`], [`metrics`] and the
//!   clock. [`http`] calls other servers.
//! - The host may drop the memory of an instance between calls: after idle time, after a fault, at a reload. Store
//!   state in the cluster. Up to `maxConcurrentReconciles` instances of a plugin reconcile concurrently.
//! - A panic is a fault: the host logs its message and drops the instance. A reconcile that panicked is retried like a
//!   failed one.
//! - A crate that derives `Deserialize` or `Serialize` needs `serde` among its own dependencies, as everywhere.

#![warn(rustdoc::broken_intra_doc_links)]

// The attribute macros name this crate from outside; its own tests and examples use the macros too.
extern crate self as pilothouse_sdk;

#[doc(hidden)]
pub mod bindings;
pub mod cache;
pub mod client;
mod config;
mod context;
mod controller;
mod descriptor;
pub mod duration;
mod error;
pub mod events;
#[doc(hidden)]
pub mod export;
mod failure;
mod handler;
pub mod http;
mod key;
mod kind;
pub mod log;
pub mod metrics;
mod object;
mod owner;
pub mod queue;
mod reconciler;
pub mod schema;
mod sys;
#[cfg(not(target_family = "wasm"))]
pub mod testing;
mod typed;

pub use config::Config;
pub use context::{Context, InCluster};
pub use controller::Controller;
pub use descriptor::{
    Delivery, Descriptor, Index, Map, Permission, Predicate, Projection, RateLimiter, Schedule, Verb, Watch,
};
pub use error::{AlreadyOwned, ApiStatus, DecodeError, Error, Refusal, RefusalReason, StatusCause};
pub use failure::Failure;
pub use handler::{Added, Deleted, Event, EventHandler, Updated};
pub use key::Key;
pub use kind::Kind;
pub use object::Object;
pub use owner::OwnerReference;
pub use pilothouse_sdk_macros::{Resource, Schema, batch_reconciler, controller, event_handler, reconciler};
pub use reconciler::{BatchReconciler, Outcome, Reasons, Reconciler, Request};
pub use schema::Schema;
pub use typed::{
    Api, Condition, ConditionStatus, Conditions, Finalizer, Metadata, ObjectMetadata, Resource, Scope,
    TypedObjects, Written, controller_reference, finalizer, owner_reference, set_controller_reference,
};
pub use {serde, serde_json};

/// The items that most plugins use.
pub mod prelude {
    pub use std::time::Duration;

    pub use serde::{Deserialize, Serialize};
    pub use serde_json::{Value, json};

    pub use crate::cache::Query;
    pub use crate::client::{
        ApplyOptions, DeleteOptions, ListOptions, Preconditions, Propagation, WriteOptions,
    };
    pub use crate::http;
    pub use crate::metrics::{Counter, Gauge, Histogram};
    pub use crate::{
        Added, BatchReconciler, Condition, ConditionStatus, Conditions, Config, Context, Controller, Deleted,
        Delivery, Descriptor, Error, Event, EventHandler, Failure, Finalizer, Index, Key, Kind, Map,
        Metadata, Object, ObjectMetadata, Outcome, OwnerReference, Permission, Predicate, Projection,
        RateLimiter, Reconciler, Refusal, Request, Resource, Schedule, Schema, Updated, Verb, Watch, Written,
        controller_reference, finalizer, owner_reference, set_controller_reference,
    };
    pub use crate::{debug, error, info, trace, warn};
}

/// The Rust blocks of the documents are compiled as documentation tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/guests.md")]
    struct Guests;

    #[doc = include_str!("../README.md")]
    struct Crate;
}
