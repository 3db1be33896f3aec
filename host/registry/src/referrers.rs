//! [`ReferrerPages`]: the list of the manifests that refer to an artifact. It is that of the referrers API, page by page, or the
//! index of the fallback tag where a registry has no such API. Called by the search for signatures.
//!
//! Invariants: each page is asked of the registry, and is bounded as an index is; the number of pages is bounded, also of those
//! that name one another.

use http::{Method, StatusCode};
use pilothouse_plugin::ComponentUrl;
use serde::Deserialize;

use crate::RegistryError;
use crate::artifact::{Descriptor, INDEX, MAX_MANIFEST, check_entries};
use crate::link::next_of;
use crate::registry::{Call, Registry, whole};

/// Maximum number of pages. Registries list some hundred manifests on each.
const MOST_PAGES: usize = 32;
/// What errors call the list.
const LIST: &str = "the list of what refers to the artifact";

/// The pages that are not read yet.
pub(crate) struct ReferrerPages<'a> {
    digest: &'a str,
    /// How many were read.
    read: usize,
    /// The next page, or why it cannot be read; none after the last one.
    next: Option<Result<ComponentUrl, RegistryError>>,
}

impl<'a> ReferrerPages<'a> {
    /// The pages about the manifest with this digest.
    pub(crate) fn of(registry: &Registry, digest: &'a str) -> Self {
        Self { digest, read: 0, next: Some(registry.url(&format!("referrers/{digest}"))) }
    }

    /// The manifests of the next page, without those of other digests than SHA-256; none after the last page. Another page may
    /// follow an error.
    pub(crate) async fn next(
        &mut self,
        registry: &mut Registry,
    ) -> Option<Result<Vec<Descriptor>, RegistryError>> {
        let url = self.next.take()?;
        Some(self.page(registry, url).await)
    }

    async fn page(
        &mut self,
        registry: &mut Registry,
        url: Result<ComponentUrl, RegistryError>,
    ) -> Result<Vec<Descriptor>, RegistryError> {
        #[derive(Deserialize)]
        struct Index {
            #[serde(default)]
            manifests: Vec<Descriptor>,
        }
        let url = url?;
        if self.read == MOST_PAGES {
            return Err(RegistryError::Content(format!(
                "{LIST} has more than {MOST_PAGES} pages, each of which names the next one; remove what is not needed from the \
                 registry"
            )));
        }
        self.read += 1;
        let response = registry.send(&Call::new(Method::GET, url.clone()).accept(INDEX)).await?;
        let index = match response.status() {
            // Registries without this part of the API; they are the index of a tag then.
            StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST | StatusCode::NOT_ACCEPTABLE
                if self.read == 1 =>
            {
                registry.tagged(&tag_of(self.digest)).await?
            }
            _ => {
                let response = registry.succeeded(response, LIST)?;
                self.next = next_of(response.headers()).map(|target| next_page(registry, &url, &target));
                Some(whole(response, MAX_MANIFEST, LIST).await?)
            }
        };
        let index: Option<Index> = index
            .map(|index| serde_json::from_slice(&index))
            .transpose()
            .map_err(|_| RegistryError::Content(format!("{LIST} cannot be read")))?;
        let mut manifests = index.map(|index| index.manifests).unwrap_or_default();
        check_entries("manifests", &manifests)?;
        manifests.retain(Descriptor::has_digest);
        Ok(manifests)
    }
}

/// The page that a link of another page leads to.
fn next_page(registry: &Registry, page: &ComponentUrl, target: &str) -> Result<ComponentUrl, RegistryError> {
    let next = registry.resolve(page, target)?;
    if !next.has_origin_of(page) {
        return Err(RegistryError::Content(format!(
            "{LIST} has its next page on {}, which is another server than the registry; name the registry as its links \
             name it, or have its links corrected",
            next.authority()
        )));
    }
    Ok(next)
}

/// The fallback tag of a digest, for registries without the referrers API.
pub(crate) fn tag_of(digest: &str) -> String {
    digest.replace(':', "-")
}
