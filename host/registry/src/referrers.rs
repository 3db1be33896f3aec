//! [`Registry::verify`]: finds the signatures of an artifact in its repository. They are manifests of the list of the referrers API,
//! which has pages, or of the index of the tag `sha256-DIGITS` where a registry has no such API.
//!
//! Invariants: pages are bounded in size and number, and so is the number of manifests that are looked at. Whoever may push can put anything into the repository: an entry counts only with a signature. An error does not
//! end the search; it is the result if no signature is accepted, since what could not be fetched may have been one.

use http::header::{CONTENT_TYPE, HeaderMap, LINK};
use pilothouse_engine::HostResponse;
use pilothouse_plugin::is_digest;
use serde::Deserialize;

use crate::artifact::{list_or_null, parsed};
use crate::registry::{Registry, whole};
use crate::{RegistryError, SignatureKeys};

/// Attached manifests that are looked at.
const MOST: usize = 32;
/// Maximum number of pages. Registries list some hundred manifests on each.
const MOST_PAGES: usize = 32;
/// Maximum size in bytes of a page. Some registries list all on one.
const MAX_PAGE: usize = 1 << 20;
/// Maximum size in bytes of a bundle: with its proofs it has some kilobytes.
const MAX_BUNDLE: u64 = 256 << 10;
/// Types of bundles, of each version.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
/// Type of a configuration that says nothing, which some clients write as that of the artifact.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// What errors call the list.
const LIST: &str = "the list of what refers to the artifact";

/// Digests of manifests that may have a bundle; those whose entry does not say what they are (`true`) come last.
type Referrers = Vec<(bool, String)>;

/// Adds the manifests of a page, and keeps [`MOST`] and one more.
fn add(referrers: &mut Referrers, page: &[u8]) -> Result<(), RegistryError> {
    #[derive(Deserialize)]
    struct Index {
        #[serde(default, deserialize_with = "list_or_null")]
        manifests: Vec<Entry>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Entry {
        digest: String,
        artifact_type: Option<String>,
    }
    for Entry { digest, artifact_type } in parsed::<Index>(LIST, page)?.manifests {
        let is_untyped = matches!(artifact_type.as_deref(), None | Some("" | EMPTY));
        // Nothing is fetched by a digest that cannot be checked.
        if is_digest(&digest) && (is_untyped || artifact_type.is_some_and(|kind| kind.starts_with(BUNDLE))) {
            referrers.push((is_untyped, digest));
        }
    }
    referrers.sort_by_key(|(is_untyped, _)| *is_untyped);
    referrers.truncate(MOST + 1);
    Ok(())
}

impl Registry {
    /// Checks that one of these keys has signed the artifact whose manifest has this digest. Fetch the artifact before: without it
    /// a repository that does not exist is one without signatures.
    ///
    /// # Errors
    /// When none has, or the signatures could not be fetched.
    pub async fn verify(&mut self, digest: &str, keys: &SignatureKeys) -> Result<(), RegistryError> {
        let mut referrers = Referrers::new();
        let mut failed = self.list(digest, &mut referrers).await.err();
        let mut found = 0;
        for (_, manifest) in referrers.iter().take(MOST) {
            match self.bundle(manifest).await {
                Ok(Some(bundle)) if keys.accept_bundle(&bundle, digest) => return Ok(()),
                Ok(bundle) => found += usize::from(bundle.is_some()),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let reason = match found {
            0 => "the artifact has no signature; sign it with `cosign sign --key cosign.key`".to_owned(),
            _ => format!(
                "none of {found} signatures of the artifact is one of its digest by a key of --signature-key"
            ),
        };
        let more = "; more is attached to it than is looked at: remove what is not needed from the registry";
        let more = if referrers.len() > MOST { more } else { "" };
        Err(failed.unwrap_or_else(|| RegistryError::Content(reason + more)))
    }

    /// The bundle of an attached manifest, where it has one: cosign writes one into each.
    async fn bundle(&mut self, manifest: &str) -> Result<Option<Vec<u8>>, RegistryError> {
        let artifact = self.artifact(manifest).await?;
        let layer = artifact.layers.iter().find(|layer| layer.media_type.starts_with(BUNDLE));
        let Some(layer) = layer else { return Ok(None) };
        if layer.size > MAX_BUNDLE {
            let reason = format!("a bundle has {} bytes; it may have {MAX_BUNDLE}", layer.size);
            return Err(RegistryError::Content(reason));
        }
        self.layer_content(layer).await.map(Some)
    }

    /// Reads the list of what refers to a manifest, until its end or an error.
    async fn list(&mut self, digest: &str, referrers: &mut Referrers) -> Result<(), RegistryError> {
        let mut url = self.url(&format!("referrers/{digest}"))?;
        for page in 0..MOST_PAGES {
            let response = self.ask(&url).await?;
            if page == 0 && lacks_list(&response) {
                let index = self.tagged(&digest.replace(':', "-")).await?;
                return index.map_or(Ok(()), |index| add(referrers, &index));
            }
            let response = self.succeeded(response, LIST)?;
            let next = next_of(response.headers());
            add(referrers, &whole(response, MAX_PAGE, LIST).await?)?;
            let Some(next) = next? else { return Ok(()) };
            url = self.resolve(&url, &next)?;
        }
        Err(RegistryError::Content(format!(
            "{LIST} has more than {MOST_PAGES} pages, each of which names the next one; remove what is not needed from the registry"
        )))
    }
}

/// Whether the answer is that of a registry without the referrers API. Some lead to a page for people, as `ghcr.io` does, or send
/// one.
fn lacks_list(response: &HostResponse) -> bool {
    let (status, kind) = (response.status(), response.headers().get(CONTENT_TYPE));
    let is_for_people = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    matches!(status.as_u16(), 400 | 404 | 405 | 406 | 501)
        || status.is_redirection()
        || (status.is_success() && is_for_people)
}

/// The target of the header `Link` (RFC 8288), which names the next page. What is written in another way than registries do is an
/// error: as the end of the list it would hide a signature.
pub(crate) fn next_of(headers: &HeaderMap) -> Result<Option<String>, RegistryError> {
    let Some(link) = headers.get(LINK) else { return Ok(None) };
    let next = || {
        let (target, relation) = link.to_str().ok()?.strip_prefix('<')?.split_once('>')?;
        let relation = relation.trim_start_matches([';', ' ']).strip_prefix("rel=")?.trim_matches('"');
        relation.eq_ignore_ascii_case("next").then(|| target.to_owned())
    };
    next().map(Some).ok_or_else(|| {
        RegistryError::Content(format!(
            "{LIST} may have a next page, and the header Link that would name it cannot be read; have the registry corrected"
        ))
    })
}
