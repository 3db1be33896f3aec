//! [`HostImports`]: the host side of a guest's imports, one trait per interface of `wit/`. The manager implements the
//! traits with one value per generation of a plugin and checks the plugin's permissions there; this crate only converts
//! calls at the boundary.
//!
//! Methods must not block; those that wait return a future. Each method has a default implementation for a host without
//! the interface: an empty result or an error that says so. [`Nothing`] uses only defaults.

mod cache;
mod client;
mod config;
mod events;
mod http;
mod log;
mod log_only;
mod metrics;
mod queue;
mod refusal;
mod system;

use pilothouse_object::ObjectKey;

pub use cache::{CacheImports, CacheQuery, Listed, ObjectCursor, ObjectReader, WaitFuture};
pub use client::{
    ApiStatus, CallOptions, CallPreconditions, ClientAnswer, ClientCall, ClientError, ClientFuture,
    ClientImports, ClientVerb, Dependents, PatchKind, StatusCause, VersionMatch,
};
pub use config::ConfigImports;
pub use events::{EventImports, EventOptions, EventTarget, GuestEvent};
pub use http::{
    HttpExchange, HttpExchanges, HttpImports, HttpRequestHead, HttpResponse, HttpResponseHead, HttpRoute,
};
pub use log::{LogImports, LogLevel};
pub use log_only::LogOnly;
pub use metrics::{GuestMetric, MetricChange, MetricImports, MetricKind, MetricSpec};
pub use queue::QueueImports;
pub use refusal::{Refusal, RefusalReason};
pub use system::{RandomSource, System, SystemImports};

/// All imports of a guest. Implemented for every type that implements the traits of the interfaces.
pub trait HostImports:
    CacheImports
    + ClientImports
    + ConfigImports
    + EventImports
    + HttpImports
    + LogImports
    + MetricImports
    + QueueImports
    + SystemImports
    + Send
    + Sync
    + 'static
{
}

impl<T> HostImports for T where
    T: CacheImports
        + ClientImports
        + ConfigImports
        + EventImports
        + HttpImports
        + LogImports
        + MetricImports
        + QueueImports
        + SystemImports
        + Send
        + Sync
        + 'static
{
}

/// A host without interfaces: reads and calls return errors, the configuration is empty. For tests and for parts of a
/// host.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl CacheImports for Nothing {}
impl ClientImports for Nothing {}
impl ConfigImports for Nothing {}
impl EventImports for Nothing {}
impl HttpImports for Nothing {}
impl LogImports for Nothing {}
impl MetricImports for Nothing {}
impl QueueImports for Nothing {}
impl SystemImports for Nothing {}

/// The call in which a guest used an import, for logs.
#[derive(Debug, Clone, Default)]
pub struct CallContext {
    /// Key of the object that the guest reconciles or handles an event of; `None` in a batch and outside of calls.
    pub key: Option<ObjectKey>,
    /// Number of the call, unique in this process; 0 outside of calls.
    pub call_id: u64,
}
