//! OCI registries: components are pulled from there, and their signatures are checked.
//!
//! ```text
//!  artifact (manifest by its digest) ─► layer ─► component       SignatureKeys ◄─ bundle ◄─ manifest ◄─ referrers
//!        │                                │                                        │                       │
//!        └────────── Registry: URL, login, token, redirects ─► HostClient of the engine ◄──────────────────┘
//! ```
//!
//! Invariants:
//! - each host that is asked is one of the [`ComponentHosts`](pilothouse_plugin::ComponentHosts), the address of each connection is
//!   checked, and a registry with HTTPS does not lead to plain HTTP;
//! - a login goes to the registry, and to the server of tokens that it names; a token goes to the registry alone;
//! - content by a digest has that digest, or is an error; what a tag names is believed only after its signature;
//! - no error has a login, a token, or the query of a URL.
//!
//! Of the distribution API this is what is needed to read artifacts by digest: all requests are a GET. Users: the manager (Plugins
//! of the cluster) and the binary (`pull`), both with the feature `oci`.

mod artifact;
mod challenge;
mod login;
mod referrers;
mod registry;
mod signature;
pub use artifact::{Artifact, Descriptor};
pub use login::{DOCKER_CONFIG_KEY, Login};
pub use registry::Registry;
pub use signature::SignatureKeys;

/// Why something could not be pulled. No text has a login or a token.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The registry could not be asked, or has refused the request.
    #[error("{0}")]
    Request(String),
    /// What the registry or a login has cannot be used, or no key has signed it.
    #[error("{0}")]
    Content(String),
}

#[cfg(test)]
mod tests;
