//! `wasi:http/outgoing-handler`: requests of guests to the hosts that their plugin's manifest names, and to no others.
//!
//! ```text
//!  guest ──► hooks (wasmtime's side) ──► HttpClient (one a generation) ──► destination ─ granted? ─► resolve ─ each address granted? ─┐
//!                                              ▲                                                                                   ▼
//!                                              └── body: bounded, timed ◄── pool: kept alive, at most 16 ◄── connection to that very address
//! ```
//!
//! Invariants: nothing is looked up or connected for a host that is not granted; a connection goes to an address that was checked, never
//! to one that was looked up a second time; a refusal is an error that the guest can read, and is logged with its remedy; what an
//! instance has under way ends with it, and no request outlives the deadline of the call that made it. Redirects are the guest's
//! business, so that each hop is checked.

mod body;
mod client;
mod connection;
mod destination;
mod error_code;
mod hooks;
mod pool;
mod resolve;
#[cfg(test)]
mod tests;

use std::time::Duration;

use wasmtime::component::Linker;
use wasmtime_wasi_http::p2::bindings;
use wasmtime_wasi_http::{WasiHttp, WasiHttpView as _};

use crate::state::State;

pub use client::{HttpClient, HttpClientOptions, HttpObserver, HttpResult};
pub(crate) use hooks::Http;
pub use resolve::{ResolveFuture, Resolver, SystemResolver};

/// Bytes of one request body, and of one response body: several times what a search server takes in one bulk request by default
/// advice (5 to 15 MB), and a quarter of a guest's usual memory.
pub(crate) const MAX_BODY: u64 = 16 << 20;

/// Connections of one generation of a plugin, idle ones included; as many requests may be under way.
pub(crate) const MAX_CONNECTIONS: usize = 16;

/// Time to get a connection: waiting for a free one, resolving, connecting and the TLS handshake together.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection is kept: less than what servers usually do (60 s and more), so that they seldom close first.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of a response's status line and headers, and how many headers.
pub(crate) const MAX_HEAD: usize = 64 << 10;
pub(crate) const MAX_HEADERS: usize = 128;

/// Bytes of the headers of one request, as kept in memory.
pub(crate) const MAX_FIELDS: usize = 64 << 10;

/// Bytes that a guest may write of a body before the host has passed them on; two such pieces may wait.
pub(crate) const BODY_CHUNK: usize = 64 << 10;

/// Streams, requests, bodies and so on that one instance may hold at a time; with the bounds above, what a guest that lets go of nothing
/// can take of the host's memory.
pub(crate) const MAX_HANDLES: usize = 512;

/// Links the two interfaces that a client needs; there is no incoming handler.
pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    bindings::http::outgoing_handler::add_to_linker::<State, WasiHttp>(linker, State::http)?;
    let options = bindings::LinkOptions::default();
    bindings::http::types::add_to_linker::<State, WasiHttp>(linker, &(&options).into(), State::http)?;
    error_code::add_to_linker(linker)
}
