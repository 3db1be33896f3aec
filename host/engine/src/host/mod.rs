//! [`HostImports`]: what a guest's imports reach, one trait for each interface of `wit/`. The manager implements them, with one
//! value for each generation of a plugin, and decides there what the plugin may see and do; this crate only carries calls across
//! the boundary.
//!
//! Methods must not block; those that wait answer with a future. Each has a default, which is the answer of a host that does not
//! have the interface: nothing, or an error that says so. [`Nothing`] is such a host.

mod cache;
mod client;
mod config;
mod events;
mod http;
mod log;
mod queue;

use pilothouse_object::ObjectKey;

pub use cache::{CacheImports, ObjectCursor, WaitFuture};
pub use client::{ApiError, ClientAnswer, ClientCall, ClientFuture, ClientImports, ClientVerb};
pub use config::ConfigImports;
pub use events::{EventImports, EventTarget, GuestEvent};
pub use http::HttpImports;
pub use log::{LogImports, LogLevel};
pub use queue::QueueImports;

/// All that a guest may import.
pub trait HostImports:
    CacheImports
    + ClientImports
    + ConfigImports
    + EventImports
    + HttpImports
    + LogImports
    + QueueImports
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
        + QueueImports
        + Send
        + Sync
        + 'static
{
}

/// A host that has no interface: reads and calls are refused, the configuration is empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl CacheImports for Nothing {}
impl ClientImports for Nothing {}
impl ConfigImports for Nothing {}
impl EventImports for Nothing {}
impl HttpImports for Nothing {}
impl LogImports for Nothing {}
impl QueueImports for Nothing {}

/// The call during which an import was used, for logs.
#[derive(Debug, Clone, Default)]
pub struct CallContext {
    /// Key of the running reconcile or event.
    pub key: Option<ObjectKey>,
    /// Number of the call, unique in this process; 0 outside of calls.
    pub call_id: u64,
}

/// A cached read or an event that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A word for programs: `forbidden`, `invalid`; of reads also `not-watched` and `unknown-index`, of events `over-quota` and
    /// `unavailable`.
    pub reason: &'static str,
    /// What is missing and how to get it.
    pub message: String,
}
