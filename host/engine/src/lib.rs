//! The WebAssembly side of the host: everything that knows wasmtime.
//!
//! ```text
//!  bytes ──► Compiler (a process of its own) ──► CompileCache (.cwasm by digest) ──► Code (linked, unloadable)
//!                                                                                      │ instantiate
//!                      GuestHost (the manager) ◄── imports ── Instance (one store) ◄───┘
//!                                                               │ describe · reconcile(_many) · handle
//!                                                               ▼
//!                                                        answer or Fault
//! ```
//!
//! Invariants: a guest runs only inside [`Instance`], under a CPU budget, a wall-clock deadline and a memory cap; a fault is
//! a value with a reason and makes its instance unusable, never the host. wasmtime's types do not leave this crate.

mod bindings;
mod budget;
mod cache;
mod code;
mod compile;
mod cwasm;
mod engine;
mod error;
mod host;
mod http;
mod imports;
mod instance;
mod limits;
mod state;
mod wasi;

pub use code::Code;
pub use compile::{Compiler, compile_worker};
pub use engine::{Engine, EngineOptions};
pub use error::{EngineError, Fault, FaultKind, LoadError};
pub use host::{
    ApiError, CallContext, ClientAnswer, ClientCall, ClientFuture, ClientVerb, EventTarget, GuestEvent,
    GuestHost, LogLevel, ObjectCursor, Refusal, WaitFuture,
};
pub use http::{
    HttpClient, HttpClientOptions, HttpObserver, HttpResult, ResolveFuture, Resolver, SystemResolver,
};
pub use instance::{Event, Failure, Instance, Outcome, Request};
