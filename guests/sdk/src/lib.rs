//! Write Kubernetes controllers that run as WebAssembly plugins of Pilothouse. A plugin needs no other dependency.
//!
//! ```
//! use pilothouse_sdk::prelude::*;
//!
//! const NODE: Kind = Kind::core("v1", "Node");
//!
//! #[derive(Deserialize, Default)]
//! #[serde(crate = "pilothouse_sdk::serde", rename_all = "camelCase", deny_unknown_fields, default)]
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
//!     fn reconcile(&mut self, request: &Request) -> Result<Outcome, Failure> {
//!         if cache::get(&NODE, &request.key)?.is_some() {
//!             info!("{}", self.settings.greeting, node = request.key);
//!         }
//!         Ok(Outcome::Done)
//!     }
//! }
//! ```
//!
//! - A plugin targets one of four worlds. The attribute on its `impl` block selects the world: [`macro@reconciler`],
//!   [`macro@batch_reconciler`], [`macro@event_handler`] or [`macro@controller`].
//! - [`cache`] reads from the host's cache. [`client`] calls the API server, and [`http`] other servers.
//! - [`events`] records Kubernetes Events about objects.
//! - The host may drop the memory of an instance between calls: after idle time, after a fault, at a reload. Store
//!   state in the cluster. Up to `maxConcurrentReconciles` instances of a plugin reconcile concurrently.
//! - A panic is a fault: the host logs its message and drops the instance. A reconcile that panicked is retried like a
//!   failed one.

#![warn(rustdoc::broken_intra_doc_links)]

// The attribute macros name this crate from outside; its own tests and examples use the macros too.
extern crate self as pilothouse_sdk;

#[doc(hidden)]
pub mod bindings;
pub mod cache;
pub mod client;
mod config;
mod controller;
mod descriptor;
pub mod duration;
pub mod events;
#[doc(hidden)]
pub mod export;
mod failure;
mod handler;
pub mod http;
mod key;
mod kind;
pub mod log;
mod object;
pub mod queue;
mod reconciler;

pub use bindings::imports::types::ObjectKey as Key;
pub use config::Config;
pub use controller::Controller;
pub use descriptor::{
    Delivery, Descriptor, Index, Map, Permission, Predicate, Projection, RateLimiter, Schedule, Watch,
};
pub use failure::Failure;
pub use handler::{Deleted, EventHandler};
pub use kind::Kind;
pub use object::{Object, OwnerReference};
pub use pilothouse_sdk_macros::{batch_reconciler, controller, event_handler, reconciler};
pub use reconciler::{BatchReconciler, Outcome, Reconciler, Request};
pub use {serde, serde_json};

/// The items that most plugins use.
pub mod prelude {
    pub use std::time::Duration;

    pub use serde::{Deserialize, Serialize};
    pub use serde_json::json;

    pub use crate::cache::{self, CacheError, Query};
    pub use crate::client::{
        self, ApiError, ApplyOptions, DeleteOptions, ListOptions, Preconditions, WriteOptions,
    };
    pub use crate::events;
    pub use crate::queue;
    pub use crate::{
        BatchReconciler, Config, Controller, Deleted, Delivery, Descriptor, EventHandler, Failure, Index,
        Key, Kind, Map, Object, Outcome, Permission, Predicate, Projection, RateLimiter, Reconciler, Request,
        Schedule, Watch,
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
}
