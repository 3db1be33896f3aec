//! [`Registry::verify`]: finds the signatures of an artifact in its repository.
//!
//! ```text
//!  referrers of the manifest, or the tag sha256-DIGITS ─► manifests ─► layers that are bundles
//! ```
//!
//! A user who may push can put anything into the repository: an entry counts only with a signature, and the number of entries
//! that are read is bounded.
//! An error does not end the search. It is the result if no signature is accepted, since what could not be
//! fetched may have been one.

use crate::RegistryError;
use crate::artifact::Descriptor;
use crate::referrers::{Referrer, ReferrerPages, Referrers};
use crate::registry::Registry;
use crate::signature::SignatureKeys;

/// Attached manifests that are looked at, and signatures.
pub(crate) const MOST: usize = 32;
/// Maximum size in bytes of a bundle: with its proofs it has some kilobytes.
const MAX_BUNDLE: u64 = 256 << 10;
/// Types of bundles, of each version.
pub(crate) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";

impl Registry {
    /// Checks that one of these keys has signed the artifact whose manifest has this digest. Fetch the artifact before: without it
    /// a repository that does not exist is one without signatures.
    ///
    /// # Errors
    /// [`RegistryError::Unsigned`], or why the signatures could not be fetched.
    pub async fn verify(&mut self, digest: &str, keys: &SignatureKeys) -> Result<(), RegistryError> {
        let mut search = Search { keys, digest, found: 0, is_cut: false, failed: None };
        if self.bundle(&mut search).await {
            return Ok(());
        }
        let Search { found, is_cut, failed, .. } = search;
        if let Some(error) = failed {
            // It may have been the one.
            return Err(error);
        }
        let mut reason = match found {
            0 => "the artifact has no signature; sign it with `cosign sign --key cosign.key`".to_owned(),
            _ => format!(
                "none of {found} signatures of the artifact is one of its digest by a key of --signature-key"
            ),
        };
        if is_cut {
            reason.push_str(
                "; more is attached to it than is looked at: remove what is not needed from the registry",
            );
        }
        Err(RegistryError::Unsigned(reason))
    }

    /// Whether a bundle refers to the artifact and is accepted.
    async fn bundle(&mut self, search: &mut Search<'_>) -> bool {
        for Referrer { digest, size, .. } in self.attached(search).await {
            let Some(artifact) = search.attempt(self.attached_artifact(&digest, size).await) else {
                continue;
            };
            for layer in artifact.layers().iter().filter(|layer| layer.media_type.starts_with(BUNDLE)) {
                if !search.count() {
                    return false;
                }
                let Some(bundle) = search.attempt(self.bundle_content(layer).await) else {
                    continue;
                };
                if search.is_accepted(bundle).await {
                    return true;
                }
            }
        }
        false
    }

    /// The attached manifests that are looked at: [`MOST`] of all pages of the list.
    async fn attached(&mut self, search: &mut Search<'_>) -> Vec<Referrer> {
        let mut pages = ReferrerPages::of(self, search.digest);
        let mut attached = Referrers::default();
        while let Some(page) = pages.next(self).await {
            attached.extend(search.attempt(page).unwrap_or_default());
        }
        search.is_cut |= attached.is_cut;
        attached.kept
    }

    async fn bundle_content(&mut self, layer: &Descriptor) -> Result<Vec<u8>, RegistryError> {
        layer.check(MAX_BUNDLE)?;
        self.layer_content(layer).await
    }
}

/// The state of a search.
struct Search<'a> {
    keys: &'a SignatureKeys,
    digest: &'a str,
    /// Signatures that were looked at; [`MOST`] at most.
    found: usize,
    /// There is more than what was looked at.
    is_cut: bool,
    /// The first error: what could not be looked at may have been a signature.
    failed: Option<RegistryError>,
}

impl Search<'_> {
    /// Counts one more signature; `false` if it is one too many.
    fn count(&mut self) -> bool {
        let may_be = self.found < MOST;
        self.found += usize::from(may_be);
        self.is_cut |= !may_be;
        may_be
    }

    /// Whether a signature is accepted. The check needs CPU time, and runs on a thread for blocking work.
    async fn is_accepted(&mut self, bundle: Vec<u8>) -> bool {
        let (keys, digest) = (self.keys.clone(), self.digest.to_owned());
        let checked = tokio::task::spawn_blocking(move || keys.accept_bundle(&bundle, &digest)).await;
        let checked = checked
            .map_err(|error| RegistryError::Content(format!("a signature could not be checked: {error}")));
        self.attempt(checked).unwrap_or(false)
    }

    /// The value; the first error is remembered, since another signature may do.
    fn attempt<T>(&mut self, result: Result<T, RegistryError>) -> Option<T> {
        result.map_err(|error| self.failed = self.failed.take().or(Some(error))).ok()
    }
}
