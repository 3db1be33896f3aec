//! [`Registry::verify`]: finds the signatures of an artifact in its repository.
//!
//! ```text
//!  referrers of the manifest, or the tag sha256-DIGITS ─► manifests ─► layers that are bundles        (cosign 3)
//!  the tag sha256-DIGITS.sig ─► layers with a signature among their annotations                       (cosign 2)
//! ```
//!
//! A user who may push can put anything into the repository: an entry counts only with a signature, and the number of entries
//! that are read is bounded.

use http::Method;
use serde::Deserialize;

use crate::RegistryError;
use crate::artifact::{Artifact, Descriptor, INDEX, MAX_MANIFEST};
use crate::registry::{Call, Registry, whole};
use crate::signature::SignatureKeys;

/// Manifests that are looked at, and signatures.
const MOST: usize = 32;
/// Maximum size in bytes of a bundle: with its proofs it has some kilobytes.
const MAX_BUNDLE: u64 = 256 << 10;
/// Maximum size in bytes of a payload.
const MAX_PAYLOAD: u64 = 64 << 10;
/// Types of bundles, of each version.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
/// The annotation of a layer with its signature.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

impl Registry {
    /// Checks that one of these keys has signed the artifact whose manifest has this digest.
    ///
    /// # Errors
    /// [`RegistryError::Unsigned`], or why the signatures could not be fetched.
    pub async fn verify(&mut self, digest: &str, keys: &SignatureKeys) -> Result<(), RegistryError> {
        let mut search = Search { keys, digest, found: 0, failed: None };
        if self.bundle(&mut search).await? || self.payload(&mut search).await? {
            return Ok(());
        }
        match search {
            // It may have been the one.
            Search { failed: Some(error), .. } => Err(error),
            Search { found: 0, .. } => Err(RegistryError::Unsigned(
                "the artifact has no signature; sign it with `cosign sign --key cosign.key`".to_owned(),
            )),
            Search { found, .. } => Err(RegistryError::Unsigned(format!(
                "none of the {found} signatures of the artifact is one of its digest by a key of --signature-key"
            ))),
        }
    }

    /// Whether a bundle refers to the artifact and is accepted.
    async fn bundle(&mut self, search: &mut Search<'_>) -> Result<bool, RegistryError> {
        let referrers = self.referrers(search.digest).await?;
        for referrer in referrers.iter().take(MOST) {
            let Some(artifact) = search.attempt(self.artifact(&referrer.digest).await) else { continue };
            for layer in
                artifact.layers().iter().filter(|layer| layer.media_type.starts_with(BUNDLE)).take(MOST)
            {
                let Some(bundle) = search.attempt(self.small_layer(layer, MAX_BUNDLE).await) else {
                    continue;
                };
                search.found += 1;
                if search.keys.accept_bundle(&bundle, search.digest) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether a payload lies beside the artifact and is accepted.
    async fn payload(&mut self, search: &mut Search<'_>) -> Result<bool, RegistryError> {
        let Some(manifest) = self.tagged(&format!("{}.sig", tag_of(search.digest))).await? else {
            return Ok(false);
        };
        for layer in Artifact::parse(&manifest)?.layers().iter().take(MOST) {
            let Some(signature) = layer.annotations.as_ref().and_then(|texts| texts.get(SIGNATURE)) else {
                continue;
            };
            let Some(payload) = search.attempt(self.small_layer(layer, MAX_PAYLOAD).await) else { continue };
            search.found += 1;
            if search.keys.accept_payload(&payload, signature, search.digest) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The manifests that refer to the one with this digest.
    async fn referrers(&mut self, digest: &str) -> Result<Vec<Descriptor>, RegistryError> {
        #[derive(Deserialize)]
        struct Index {
            #[serde(default)]
            manifests: Vec<Descriptor>,
        }
        let call = Call::new(Method::GET, self.url(&format!("referrers/{digest}"))?).accept(INDEX);
        let response = self.send(&call).await?;
        let index = match response.status().is_success() {
            true => Some(whole(response, MAX_MANIFEST, "the referrers").await?),
            // A registry without this part of the API; they are the index of a tag then.
            false => self.tagged(&tag_of(digest)).await?,
        };
        let index: Option<Index> =
            index.map(|index| serde_json::from_slice(&index)).transpose().map_err(|_| {
                RegistryError::Content("the list of what refers to the artifact cannot be read".to_owned())
            })?;
        Ok(index.map(|index| index.manifests).unwrap_or_default())
    }
}

/// The state of a search.
struct Search<'a> {
    keys: &'a SignatureKeys,
    digest: &'a str,
    /// Signatures that were looked at.
    found: usize,
    /// Why one of them could not be.
    failed: Option<RegistryError>,
}

impl Search<'_> {
    /// The value; an error is remembered, since another signature may do.
    fn attempt<T>(&mut self, result: Result<T, RegistryError>) -> Option<T> {
        result.map_err(|error| self.failed = Some(error)).ok()
    }
}

/// The fallback tag of a digest, for registries without the referrers API.
pub(crate) fn tag_of(digest: &str) -> String {
    digest.replace(':', "-")
}
