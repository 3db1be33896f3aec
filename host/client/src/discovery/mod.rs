//! What a server serves: groups, versions, resources, and what they are called.
//!
//! ```text
//!   RestMapper            kind ↔ resource, short names, categories, refresh on a miss
//!       │
//!   CachedDiscovery       which documents to fetch when; `documents` caches them, in memory and in files
//!       │
//!   DiscoveryClient       asks the server: aggregated documents first; version
//! ```
//!
//! The clients of all identities share one cache in memory, filled under the host's own identity, which
//! [`Client::discover`] and its like look in through a [`RestMapper`]: one small document per group version that is asked for.

mod cached;
mod live;
mod mapper;
mod mapping_error;
mod partial;

use pilothouse_object::Gvk;

use crate::client::Client;
use crate::error::{Error, Result, Status, StatusDetails};
use crate::params::ApiResource;

pub use cached::CachedDiscovery;
pub use live::DiscoveryClient;
pub use mapper::RestMapper;
pub use mapping_error::MappingError;
pub use partial::PartialResource;

impl Client {
    /// Discovery of this client's server, under this client's identity; nothing is kept.
    #[must_use]
    pub fn discovery(&self) -> DiscoveryClient {
        DiscoveryClient::new(self.clone())
    }

    /// The discovery that the clients of all identities share, under the host's own identity. Its documents count for ten
    /// minutes, and on while the server cannot be asked.
    #[must_use]
    pub fn cached_discovery(&self) -> CachedDiscovery {
        CachedDiscovery::shared(self)
    }

    /// A mapper over [`Client::cached_discovery`].
    #[must_use]
    pub fn rest_mapper(&self) -> RestMapper {
        RestMapper::new(self.cached_discovery())
    }

    /// The resource of a kind, as `apps/v1` `Deployment`.
    ///
    /// # Errors
    /// A `NotFound` that names the kind when the server does not serve it, an [`Error::Request`] that names the
    /// candidates when several resources have it; otherwise why it could not be asked.
    pub async fn discover(&self, kind: &Gvk) -> Result<ApiResource> {
        let found = self.rest_mapper().mapping(&kind.group, &kind.kind, &[&kind.version]).await;
        found.map_err(|error| not_mapped(error, &kind.group, &kind.kind))
    }

    /// As [`Client::discover`], for a kind that somebody else chooses: a kind that is not cached waits for a turn of this
    /// client's rate limit, since it may make the client ask the server. A group version that the server does not have
    /// costs no request of its own. For that, the list of all groups is read when it is older than ten seconds.
    ///
    /// # Errors
    /// As [`Client::discover`].
    pub async fn discover_charged(&self, kind: &Gvk) -> Result<ApiResource> {
        let discovery = self.cached_discovery();
        let cached = discovery.cached_resources(&kind.group, &kind.version);
        let is_cached = |list: &[ApiResource]| list.iter().any(|resource| resource.gvk.kind == kind.kind);
        if !cached.as_deref().is_some_and(is_cached) {
            self.own_turn().await?;
            if cached.is_none() {
                discovery.refresh_groups().await?;
            }
        }
        self.discover(kind).await
    }
}

/// A mapper's error as one of the client.
fn not_mapped(error: MappingError, group: &str, name: &str) -> Error {
    match error {
        MappingError::Client(error) => error,
        MappingError::Unavailable { failed, .. } => failed.error,
        MappingError::NoMatch { .. } => {
            let remedy = if group.is_empty() {
                "check its spelling"
            } else {
                "is its CustomResourceDefinition installed?"
            };
            Error::Api(Box::new(Status {
                code: 404,
                reason: "NotFound".to_owned(),
                message: format!("{error}; {remedy}"),
                details: Some(StatusDetails {
                    group: group.to_owned(),
                    kind: name.to_owned(),
                    ..StatusDetails::default()
                }),
                ..Status::default()
            }))
        }
        MappingError::Ambiguous { .. } => Error::Request(error.to_string()),
    }
}
