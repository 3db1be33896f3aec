//! OCI registries: components are pulled from there and pushed there, with their signatures and what else is attached to them.
//!
//! ```text
//!  artifact (manifest by its digest) ─► layer ─► component          SignatureKeys ◄─ bundle ◄─ manifest ◄─ referrers
//!        │                                │                                                    │
//!        └────────── Registry: URL, login, token, redirects ─► HostClient of the engine ◄──────┘
//! ```
//!
//! Invariants:
//! - each host that is asked is one of the [`ComponentHosts`](pilothouse_plugin::ComponentHosts), the address of each connection is
//!   checked, and a registry with HTTPS does not lead to plain HTTP;
//! - a login goes to the registry, and to the server of tokens that it names; a token goes to the registry alone;
//! - content by a digest has that digest, or is an error; what a tag names is believed only after its signature;
//! - no error has a login, a token, or the query of a URL.
//!
//! Of the distribution API this is what is needed for artifacts by digest, in requests with a body in one piece. Users: the
//! manager (Plugins of the cluster) and the binary (`push`, `pull`), both with the feature `oci`.

mod artifact;
mod challenge;
mod error;
mod link;
mod login;
mod push;
mod reference;
mod referrers;
mod registry;
mod signature;
mod signatures;
#[cfg(test)]
mod tests;

pub use artifact::{Artifact, Descriptor};
pub use error::RegistryError;
pub use login::{DOCKER_CONFIG_KEY, Login};
pub use push::{ComponentWorld, Document};
pub use registry::{Registry, RegistryOptions};
pub use signature::SignatureKeys;
