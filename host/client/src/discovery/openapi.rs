//! OpenAPI documents of a server: version 2 as one document, version 3 as an index of one per group version.
//!
//! Invariant: documents are handed on as they came, since who reads them needs different parts.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Method;
use serde::Deserialize;

use super::live::DiscoveryClient;
use crate::client::Call;
use crate::documents::GroupVersion;
use crate::error::Result;
use crate::url::Target;

/// Largest OpenAPI document that is read. The built-in kinds make 2 MiB of version 2; each CustomResourceDefinition adds up
/// to about as much as it is large itself, which etcd limits to 1.5 MiB.
const DOCUMENT_LIMIT: usize = 256 << 20;

/// Which OpenAPI version 3 documents a server has: `/openapi/v3`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenApiIndex {
    /// Documents by path, as `api/v1`, `apis/apps/v1`, `version`.
    pub documents: BTreeMap<String, OpenApiEntry>,
}

/// One document of an [`OpenApiIndex`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenApiEntry {
    /// Path and query on this server.
    pub server_relative_url: String,
    /// Changes with the document; empty when the server gives none.
    pub hash: String,
}

impl OpenApiIndex {
    /// The document of a group version.
    #[must_use]
    pub fn of(&self, place: &GroupVersion) -> Option<&OpenApiEntry> {
        let prefix = if place.group.is_empty() { "api" } else { "apis" };
        self.documents.get(&format!("{prefix}/{place}"))
    }
}

#[derive(Deserialize)]
struct Index {
    paths: BTreeMap<String, Path>,
}

#[derive(Deserialize)]
struct Path {
    #[serde(rename = "serverRelativeURL")]
    server_relative_url: String,
}

impl DiscoveryClient {
    /// The OpenAPI version 2 document, JSON.
    ///
    /// # Errors
    /// When no good answer came, or it is larger than 256 MiB.
    pub async fn openapi_v2(&self) -> Result<Bytes> {
        let call = Call::new(Method::GET, Target::raw("/openapi/v2")?);
        self.client.fetch_ok(&call, DOCUMENT_LIMIT).await
    }

    /// The index of OpenAPI version 3 documents.
    ///
    /// # Errors
    /// When no good answer came; a `NotFound` from servers that have none.
    pub async fn openapi_v3(&self) -> Result<OpenApiIndex> {
        let index: Index = self.document(&Call::new(Method::GET, Target::raw("/openapi/v3")?)).await?;
        let entry = |path: Path| {
            let (_, query) = path.server_relative_url.split_once('?').unwrap_or_default();
            let hash = query.split('&').find_map(|pair| pair.strip_prefix("hash="));
            OpenApiEntry {
                hash: hash.unwrap_or_default().to_owned(),
                server_relative_url: path.server_relative_url,
            }
        };
        let documents = index.paths.into_iter().map(|(path, at)| (path, entry(at))).collect();
        Ok(OpenApiIndex { documents })
    }

    /// A document of the index, JSON.
    ///
    /// # Errors
    /// When no good answer came, or it is larger than 256 MiB.
    pub async fn openapi_v3_document(&self, entry: &OpenApiEntry) -> Result<Bytes> {
        let call = Call::new(Method::GET, Target::raw(&entry.server_relative_url)?);
        self.client.fetch_ok(&call, DOCUMENT_LIMIT).await
    }
}
