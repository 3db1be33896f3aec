//! `wasi:http/outgoing-handler`: HTTP requests of guests, only to the hosts that their plugin's manifest grants.
//!
//! ```text
//!  guest ──► hooks (wasmtime's side) ──► HttpClient (one a generation) ──► destination ─ granted? ─► resolve ─ each address granted? ─┐
//!                                              ▲                                                                                   ▼
//!                                              └── body: bounded, timed ◄── pool: kept alive, at most 16 ◄── connection to that very address
//! ```
//!
//! Invariants:
//! - the client neither resolves nor connects to a host that is not granted;
//! - it connects to an address that it has checked, and never resolves the name a second time in between;
//! - a denied request returns an error to the guest and is logged with its remedy;
//! - running requests of an instance end when the instance is dropped, and no request outlives the deadline of its
//!   call.
//!
//! The client does not follow redirects. The guest does, so each hop is checked.

mod body;
mod client;
mod connection;
mod destination;
mod download;
mod error_code;
mod failure;
mod hooks;
mod host_client;
mod metered;
mod pace;
mod pool;
mod resolve;
#[cfg(test)]
mod tests;
mod watched;

use std::time::Duration;

use wasmtime::component::Linker;
use wasmtime_wasi_http::p2::bindings;
use wasmtime_wasi_http::{WasiHttp, WasiHttpView as _};

use crate::state::StoreState;

pub use client::{HttpClient, HttpClientOptions, HttpObserver, HttpResult};
pub use download::download;
pub use failure::HttpFailure;
pub(crate) use hooks::Http;
pub use host_client::{HostClient, HostResponse};
pub use resolve::{ResolveFuture, Resolver, SystemResolver};

/// Maximum size in bytes of a request body and of a response body: more than the recommended size of a bulk request to
/// a search server (5 to 15 MB), and a quarter of a guest's default memory.
pub(crate) const MAX_BODY: u64 = 16 << 20;

/// Maximum number of connections of one generation of a plugin, including idle ones, and of its concurrent requests.
pub(crate) const MAX_CONNECTIONS: usize = 16;

/// Maximum time to get a connection: waiting for a free one, resolving, connecting and the TLS handshake together.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Lifetime of an idle connection: shorter than that of most servers (60 s and more), so that a server seldom closes
/// first.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size in bytes of a response's status line and headers.
pub(crate) const MAX_HEAD: usize = 64 << 10;
/// Maximum number of headers of a response.
pub(crate) const MAX_HEADERS: usize = 128;

/// Maximum size in bytes of the headers of one request in memory.
pub(crate) const MAX_FIELDS: usize = 64 << 10;

/// Maximum size in bytes of one write to a request body. Two such writes may be buffered before the host has sent them.
pub(crate) const BODY_CHUNK: usize = 64 << 10;

/// Maximum number of WASI resources (streams, requests, bodies, …) of one instance. Together with the limits above it
/// bounds the host's memory for a guest that never drops a resource.
pub(crate) const MAX_HANDLES: usize = 512;

/// Links the interfaces `outgoing-handler` and `types`. The host has no incoming handler.
pub(crate) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    bindings::http::outgoing_handler::add_to_linker::<StoreState, WasiHttp>(linker, StoreState::http)?;
    let options = bindings::LinkOptions::default();
    bindings::http::types::add_to_linker::<StoreState, WasiHttp>(
        linker,
        &(&options).into(),
        StoreState::http,
    )?;
    error_code::add_to_linker(linker)
}
