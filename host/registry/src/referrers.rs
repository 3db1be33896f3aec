//! The list of the manifests that refer to an artifact: of the referrers API, or the index of the fallback tag where a registry has
//! no such API. Called by the search for signatures.

use http::{Method, StatusCode};
use serde::Deserialize;

use crate::RegistryError;
use crate::artifact::{Descriptor, INDEX, MAX_MANIFEST, check_entries};
use crate::registry::{Call, Registry, whole};

impl Registry {
    /// The manifests that refer to the one with this digest, without those of other digests than SHA-256.
    pub(crate) async fn referrers(&mut self, digest: &str) -> Result<Vec<Descriptor>, RegistryError> {
        #[derive(Deserialize)]
        struct Index {
            #[serde(default)]
            manifests: Vec<Descriptor>,
        }
        let call = Call::new(Method::GET, self.url(&format!("referrers/{digest}"))?).accept(INDEX);
        let response = self.send(&call).await?;
        let index = match response.status() {
            // Registries without this part of the API; they are the index of a tag then.
            StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST | StatusCode::NOT_ACCEPTABLE => {
                self.tagged(&tag_of(digest)).await?
            }
            _ => {
                let what = "the list of what refers to the artifact";
                Some(whole(self.succeeded(response, what)?, MAX_MANIFEST, what).await?)
            }
        };
        let index: Option<Index> =
            index.map(|index| serde_json::from_slice(&index)).transpose().map_err(|_| {
                RegistryError::Content("the list of what refers to the artifact cannot be read".to_owned())
            })?;
        let mut manifests = index.map(|index| index.manifests).unwrap_or_default();
        check_entries("manifests", &manifests)?;
        manifests.retain(Descriptor::has_digest);
        Ok(manifests)
    }
}

/// The fallback tag of a digest, for registries without the referrers API.
pub(crate) fn tag_of(digest: &str) -> String {
    digest.replace(':', "-")
}
