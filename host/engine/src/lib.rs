//! The WebAssembly runtime of the host: the only crate that uses wasmtime.
//!
//! ```text
//!  bytes ──► Compiler (a process of its own) ──► CompileCache (.cwasm by digest) ──► Code (linked, unloadable)
//!                                                                                      │ instantiate
//!                      HostImports (the manager) ◄── imports ── Instance (one store) ◄───┘
//!                                                               │ describe · reconcile(_many) · handle
//!                                                               ▼
//!                                                        answer or Fault
//! ```
//!
//! Invariants: a guest runs only inside an [`Instance`], under a CPU budget, a wall-clock deadline and a memory limit.
//! A fault is a value with a reason; it makes its instance unusable and does not affect the host. The public API
//! contains no types of wasmtime.

mod backtrace;
mod bindings;
mod budget;
mod cache;
mod code;
mod compile;
mod contract;
mod cwasm;
mod deadline;
mod engine;
mod error;
mod exports;
mod guest_memory;
mod handles;
mod host;
mod http;
mod imports;
mod instance;
mod limits;
mod reasons;
mod state;
mod wasi;

pub use code::Code;
pub use compile::{Compiler, compile_worker};
pub use contract::CONTRACT;
pub use engine::{Engine, EngineOptions};
pub use error::{EngineError, Fault, FaultKind, LoadError};
pub use guest_memory::GuestMemory;
pub use handles::HANDLE_BYTES;
pub use host::{
    ApiStatus, CacheImports, CacheQuery, CallContext, CallOptions, CallPreconditions, ClientAnswer,
    ClientCall, ClientError, ClientFuture, ClientImports, ClientVerb, ConfigImports, Dependents,
    EventImports, EventOptions, EventTarget, GuestEvent, GuestMetric, HostImports, HttpExchange,
    HttpExchanges, HttpImports, HttpRequestHead, HttpResponse, HttpResponseHead, HttpRoute, Listed,
    LogImports, LogLevel, LogOnly, MetricChange, MetricImports, MetricKind, MetricSpec, Nothing,
    ObjectCursor, ObjectReader, PatchKind, QueueImports, RandomSource, Refusal, RefusalReason, StatusCause,
    System, SystemImports, VersionMatch, WaitFuture,
};
pub use http::{
    HostClient, HostResponse, HttpClient, HttpClientOptions, HttpFailure, HttpObserver, HttpResult,
    ResolveFuture, Resolver, SystemResolver, download,
};
pub use instance::{CallStart, Event, Failure, Instance, Outcome, Request};
pub use reasons::ReasonSet;
