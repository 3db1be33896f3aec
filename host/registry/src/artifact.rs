//! [`Artifact`]: the manifest of an artifact, and its layers, of which one is the component.

use http::{Method, StatusCode};
use pilothouse_engine::HostClient;
use pilothouse_plugin::directory::{digest_of, digest_of_hashed};
use pilothouse_plugin::is_digest;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};

use crate::RegistryError;
use crate::registry::{Call, Registry, parsed, whole};

/// Type of a manifest with layers.
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Type of a list of manifests.
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Type of a configuration that says nothing.
pub(crate) const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// Type of a layer that is a component or a module.
pub(crate) const COMPONENT: &str = "application/wasm";
/// What the registry may send for a manifest.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, \
                         application/vnd.docker.distribution.manifest.v2+json, \
                         application/vnd.oci.image.index.v1+json";
/// Maximum size in bytes of a manifest or an index. Registries take 4 MiB, of which several could be parsed at the same time, each
/// to a multiple of its size; a manifest of a hundred layers has some 20 KiB.
pub(crate) const MAX_MANIFEST: usize = 256 << 10;
/// Maximum number of layers of a manifest, and of manifests of an index.
pub(crate) const MAX_ENTRIES: usize = 512;

/// A piece of content in a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it is.
    pub media_type: String,
    /// `sha256:` and the digits; checked in the lists of manifests and indexes.
    pub digest: String,
    /// In bytes.
    pub size: u64,
    /// What a manifest is that this describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// Whether the content is said to be elsewhere than in the registry.
    #[serde(default, rename = "urls", skip_serializing, deserialize_with = "has_entries")]
    has_urls: bool,
}

impl Descriptor {
    /// The descriptor of some content.
    pub(crate) fn of(media_type: &str, content: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: digest_of(content),
            size: content.len() as u64,
            artifact_type: None,
            has_urls: false,
        }
    }

    /// Whether it has a digest that can be checked.
    pub(crate) fn has_digest(&self) -> bool {
        is_digest(&self.digest)
    }

    /// Checks that it is a layer of this number of bytes at most, as it says, in the registry.
    pub(crate) fn check(&self, most: u64) -> Result<(), RegistryError> {
        let Self { digest, size, has_urls, .. } = self;
        if *size > most {
            let reason = format!("the layer {digest} has {size} bytes; it may have {most}");
            return Err(RegistryError::Content(reason));
        }
        if *has_urls {
            return Err(RegistryError::Content(format!(
                "the layer {digest} has `urls`, and layers are fetched from the registry alone; push it with its content"
            )));
        }
        Ok(())
    }
}

/// Checks the length of a list of a manifest or an index, which is named by its field.
pub(crate) fn check_entries(field: &str, entries: usize) -> Result<(), RegistryError> {
    if entries > MAX_ENTRIES {
        let reason = format!("`{field}` has {entries} entries; it may have {MAX_ENTRIES}");
        return Err(RegistryError::Content(reason));
    }
    Ok(())
}

/// The error of a JSON text that has another form. It quotes nothing of the text.
pub(crate) fn unreadable(what: &str, error: &serde_json::Error) -> RegistryError {
    RegistryError::Content(format!(
        "{what} cannot be read, at line {} and column {}: it is no JSON of OCI, or a field is missing there or has another type, as a \
         negative size",
        error.line(),
        error.column()
    ))
}

/// Whether a list has entries; programs in Go may write an empty one as null.
fn has_entries<'de, D: Deserializer<'de>>(list: D) -> Result<bool, D::Error> {
    let list = Option::<Vec<IgnoredAny>>::deserialize(list)?;
    Ok(list.is_some_and(|list| !list.is_empty()))
}

/// A list that may be null.
fn list_or_null<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<Descriptor>, D::Error> {
    let list = Option::<Vec<Descriptor>>::deserialize(list)?;
    Ok(list.unwrap_or_default())
}

/// An artifact: a manifest with layers.
#[derive(Debug, Deserialize)]
pub struct Artifact {
    #[serde(default, deserialize_with = "list_or_null")]
    layers: Vec<Descriptor>,
}

impl Artifact {
    pub(crate) fn parse(manifest: &[u8]) -> Result<Self, RegistryError> {
        let parsed: Self =
            serde_json::from_slice(manifest).map_err(|error| unreadable("the manifest", &error))?;
        check_entries("layers", parsed.layers.len())?;
        // Errors quote them.
        if !parsed.layers.iter().all(Descriptor::has_digest) {
            let reason = "the manifest has a layer whose digest is not sha256: and 64 hexadecimal digits";
            return Err(RegistryError::Content(reason.to_owned()));
        }
        Ok(parsed)
    }

    pub(crate) fn layers(&self) -> &[Descriptor] {
        &self.layers
    }

    /// The layer with this digest, which is a component.
    ///
    /// # Errors
    /// When there is none, or it is something else.
    pub fn layer(&self, digest: &str) -> Result<&Descriptor, RegistryError> {
        let found = self.layers.iter().find(|layer| layer.digest == digest);
        let found = found.ok_or_else(|| {
            let layers: Vec<&str> = self.layers.iter().map(|layer| layer.digest.as_str()).collect();
            RegistryError::Content(match layers.as_slice() {
                [] => "the artifact has no layers; name an artifact as `pilothouse push` makes it".to_owned(),
                // A long list is that of a container image.
                [first, .., last] if layers.len() > 4 => {
                    format!(
                        "none of the {} layers of the artifact, {first:?} to {last:?}, is {digest}",
                        layers.len()
                    )
                }
                layers => format!("the artifact has {layers:?} and not {digest}"),
            })
        })?;
        if found.media_type != COMPONENT {
            return Err(RegistryError::Content(format!(
                "the layer {digest} does not have the type {COMPONENT}; name an artifact as `pilothouse push` makes it"
            )));
        }
        Ok(found)
    }

    /// The one layer that is a component.
    ///
    /// # Errors
    /// When there is none, or several.
    pub fn component(&self) -> Result<&Descriptor, RegistryError> {
        let mut components = self.layers.iter().filter(|layer| layer.media_type == COMPONENT);
        match (components.next(), components.next()) {
            (Some(component), None) => Ok(component),
            (one, _) => {
                let count = if one.is_none() { "no layer" } else { "several layers" };
                let reason = format!(
                    "the artifact has {count} of the type {COMPONENT}; name one as `pilothouse push` makes it"
                );
                Err(RegistryError::Content(reason))
            }
        }
    }
}

impl Registry {
    /// The artifact whose manifest has this digest.
    ///
    /// # Errors
    /// When the manifest cannot be fetched, or has another digest.
    pub async fn artifact(&mut self, digest: &str) -> Result<Artifact, RegistryError> {
        parsed(self.manifest(digest).await?, Artifact::parse).await
    }

    /// The artifact of an entry of a list, which says its size.
    pub(crate) async fn attached_artifact(
        &mut self,
        digest: &str,
        size: u64,
    ) -> Result<Artifact, RegistryError> {
        if size > MAX_MANIFEST as u64 {
            return Err(RegistryError::Content(format!(
                "the attached manifest {digest} has {size} bytes; it may have {MAX_MANIFEST}"
            )));
        }
        let manifest = self.manifest(digest).await?;
        if manifest.len() as u64 != size {
            return Err(RegistryError::Content(format!(
                "the attached manifest {digest} has {} bytes, and {size} as the list says; have the list corrected",
                manifest.len()
            )));
        }
        parsed(manifest, Artifact::parse).await
    }

    /// The manifest with this digest.
    async fn manifest(&mut self, digest: &str) -> Result<Vec<u8>, RegistryError> {
        if !is_digest(digest) {
            return Err(RegistryError::Content(format!("{digest:?} is not the digest of a manifest")));
        }
        let call = Call::new(Method::GET, self.url(&format!("manifests/{digest}"))?).accept(MANIFESTS);
        let response = self.send(&call).await?;
        let manifest = whole(self.succeeded(response, "the manifest")?, MAX_MANIFEST, "the manifest").await?;
        let found = digest_of(&manifest);
        if found != digest {
            return Err(RegistryError::Content(format!(
                "the registry sent the manifest {found} for {digest}"
            )));
        }
        Ok(manifest)
    }

    /// The manifest of a tag, which may be any; none if there is no such tag.
    pub(crate) async fn tagged(&mut self, tag: &str) -> Result<Option<Vec<u8>>, RegistryError> {
        let call = Call::new(Method::GET, self.url(&format!("manifests/{tag}"))?).accept(MANIFESTS);
        let response = self.send(&call).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let what = format!("the tag {tag}");
        whole(self.succeeded(response, &what)?, MAX_MANIFEST, &what).await.map(Some)
    }

    /// Hands the content of a layer to `take` piece by piece. It may have 16 MiB.
    ///
    /// # Errors
    /// When it cannot be fetched, has another size or digest, or `take` refuses it. Drop what `take` got until then.
    pub async fn layer(
        &mut self,
        layer: &Descriptor,
        mut take: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), RegistryError> {
        layer.check(HostClient::MAX_BODY)?;
        let Descriptor { digest, size, .. } = layer;
        let what = format!("the layer {digest}");
        let call = Call::new(Method::GET, self.url(&format!("blobs/{digest}"))?);
        let response = self.send(&call).await?;
        let (mut hasher, mut read) = (Sha256::new(), 0);
        let taken = self.succeeded(response, &what)?.read(|bytes| {
            read += bytes.len() as u64;
            if read > *size {
                return Err(format!("it has more than the {size} bytes that the manifest says"));
            }
            hasher.update(bytes);
            take(bytes)
        });
        taken.await.map_err(|reason| RegistryError::Body { what: what.clone(), reason })?;
        if read != *size {
            let reason = format!("it has {read} bytes, and {size} as the manifest says");
            return Err(RegistryError::Body { what, reason });
        }
        let found = digest_of_hashed(hasher);
        if found != *digest {
            return Err(RegistryError::Content(format!("the registry sent {found} for {what}")));
        }
        Ok(())
    }

    /// The whole content of a layer, in memory. It may have 16 MiB.
    ///
    /// # Errors
    /// When it cannot be fetched, or has another size or digest.
    pub async fn layer_content(&mut self, layer: &Descriptor) -> Result<Vec<u8>, RegistryError> {
        let mut content = Vec::new();
        let take = |bytes: &[u8]| {
            content.extend_from_slice(bytes);
            Ok(())
        };
        self.layer(layer, take).await?;
        Ok(content)
    }
}
