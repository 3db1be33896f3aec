//! HTTP requests to the hosts that the manifest grants (`spec.outgoingHosts`). Requests to other hosts are denied
//! before a name is resolved or a byte is sent.
//!
//! ```
//! use pilothouse_sdk::prelude::*;
//!
//! # fn send(ctx: &Context, ndjson: Vec<u8>) -> Result<(), Failure> {
//! let response = http::Request::post("http://search.monitoring.svc:9200/_bulk")
//!     .header("Content-Type", "application/x-ndjson")
//!     .body(ndjson)
//!     .timeout(Duration::from_secs(8))
//!     .send(ctx)?;
//! if !response.is_success() {
//!     return Err(format!("HTTP {}: {}", response.status, response.text()).into());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - A request blocks the instance until the whole response has arrived. Waiting is not charged to the CPU budget, but
//!   counts against the deadline of the call (`limits.callTimeout`), at which the host drops the instance. Set a
//!   shorter [`Request::timeout`]: exceeding it is an error that the plugin can handle.
//! - An HTTP status is not an error: 404 and 503 are responses like 200.
//! - The protocol is HTTP/1.1, with or without TLS. Redirects, decompression, cookies and proxies are not supported.
//! - Bodies are kept in memory, at most 16 MiB in each direction.
//! - The host keeps connections alive, so several requests share one handshake.

mod error;
#[cfg(target_family = "wasm")]
mod exchange;
#[cfg(not(target_family = "wasm"))]
#[path = "http/native.rs"]
mod exchange;
mod request;
mod response;
mod url;

pub use error::{Error, ErrorKind};
pub use request::Request;
pub use response::{Headers, Response};
