//! An embedded, in-memory Kubernetes API server for development, tests and fault injection: not a Kubernetes distribution.
//!
//! ```text
//!   http        connections, requests, answers; faults strike here; the log of what was served
//!     ▼
//!   verbs       get, list, watch, create, update, patch, delete on objects and their parts
//!     ▼               │ uses: api (conventions), kinds (particular kinds), patch, printing (tables)
//!   store       objects in their current state, the last changes, one revision for all
//!
//!   resources   which resources there are: tables of the built-in ones, and definitions
//!   schema      the types of their objects: pruning, defaults, validation
//!   typed       objects of built-in kinds in Go's form; defaults: the values of their absent fields
//!   discovery   what the server says of itself
//!   openapi     what it says of its resources: paths and schemas
//! ```
//!
//! It keeps what clients observe: resource versions, conflicts, watches with bookmarks, 410, selectors, paging on one
//! snapshot, finalizers and grace, status and generation. It prunes, defaults and validates custom resources by their
//! schemas, types and defaults built-in kinds, applies on the server's side, collects garbage, and knows no rules of access.
//!
//! Invariant: nothing that a client sends makes it panic or grow without bound.

mod api;
mod apply;
mod controllers;
mod defaults;
mod discovery;
mod documents;
mod error;
mod faults;
mod http;
mod kinds;
mod openapi;
mod options;
mod patch;
mod printing;
mod protobuf;
mod quantity;
mod resources;
mod schema;
mod seed;
mod server;
mod store;
mod typed;
mod validation;
mod verbs;

#[cfg(feature = "testing")]
pub use apply::replay_applies;
pub use controllers::{ControllerSet, UnknownController};
pub use documents::{Document, parts as document_parts};
pub use error::StartError;
pub use faults::{Fault, FaultRule, FaultState, Faults, When};
pub use http::Served;
pub use options::DevServerOptions;
#[cfg(feature = "testing")]
pub use resources::read_builtin;
pub use server::{DevServer, Seeded};
