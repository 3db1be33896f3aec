//! [`Artifact`]: the manifest of an artifact, and its layers, of which one is the component.

use http::StatusCode;
use pilothouse_engine::HostClient;
use pilothouse_plugin::directory::{digest_of, digest_of_hashed};
use pilothouse_plugin::is_digest;
use serde::{Deserialize, Deserializer};
use sha2::{Digest as _, Sha256};

use crate::RegistryError;
use crate::registry::{Registry, whole};

/// Type of a layer that is a component.
const COMPONENT: &str = "application/wasm";
/// Maximum size in bytes of a manifest or an index. Registries take 4 MiB, of which several could be parsed at the same time, each
/// to a multiple of its size; a manifest of a hundred layers has some 20 KiB.
const MAX_MANIFEST: usize = 256 << 10;

/// A layer of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it is.
    pub media_type: String,
    /// `sha256:` and the digits.
    pub digest: String,
    /// In bytes.
    pub size: u64,
}

/// An artifact: a manifest with layers.
#[derive(Debug, Deserialize)]
pub struct Artifact {
    #[serde(default, deserialize_with = "list_or_null")]
    pub(crate) layers: Vec<Descriptor>,
}

/// A list; programs in Go may write an empty one as null.
pub(crate) fn list_or_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    list: D,
) -> Result<Vec<T>, D::Error> {
    Option::<Vec<T>>::deserialize(list).map(Option::unwrap_or_default)
}

/// Parses a JSON text of the registry. The error quotes nothing of it.
pub(crate) fn parsed<'a, T: Deserialize<'a>>(what: &str, text: &'a [u8]) -> Result<T, RegistryError> {
    serde_json::from_slice(text).map_err(|error| {
        RegistryError::Content(format!(
            "{what} cannot be read, at line {} and column {}: it is no JSON of OCI, or a field is missing there or has another type, \
             as a negative size",
            error.line(),
            error.column()
        ))
    })
}

impl Artifact {
    /// The layer that is a component: the one with this digest, or without a digest the only one.
    ///
    /// # Errors
    /// When there is none, or several.
    pub fn component(&self, digest: Option<&str>) -> Result<&Descriptor, RegistryError> {
        let components = || self.layers.iter().filter(|layer| layer.media_type == COMPONENT);
        let mut fitting = components().filter(|layer| digest.is_none_or(|digest| layer.digest == digest));
        match (fitting.next(), fitting.next()) {
            (Some(found), None) => Ok(found),
            _ => Err(RegistryError::Content(format!(
                "the artifact has to have one layer of the type {COMPONENT}{}, and has {:?}",
                digest.map(|digest| format!(" with the digest {digest}")).unwrap_or_default(),
                components().take(4).map(|layer| &layer.digest).collect::<Vec<_>>()
            ))),
        }
    }
}

impl Registry {
    /// The artifact whose manifest has this digest.
    ///
    /// # Errors
    /// When the manifest cannot be fetched, or has another digest.
    pub async fn artifact(&mut self, digest: &str) -> Result<Artifact, RegistryError> {
        let response = self.get(&format!("manifests/{digest}")).await?;
        let manifest = whole(self.succeeded(response, "the manifest")?, MAX_MANIFEST, "the manifest").await?;
        let found = digest_of(&manifest);
        if found != digest {
            return Err(RegistryError::Content(format!(
                "the registry sent the manifest {found} for {digest}"
            )));
        }
        let mut artifact: Artifact = parsed("the manifest", &manifest)?;
        // What has no digest that can be checked is not fetched, and no error quotes it.
        artifact.layers.retain(|layer| is_digest(&layer.digest));
        Ok(artifact)
    }

    /// The manifest of a tag, which may be any; none if there is no such tag.
    pub(crate) async fn tagged(&mut self, tag: &str) -> Result<Option<Vec<u8>>, RegistryError> {
        let response = self.get(&format!("manifests/{tag}")).await?;
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
        let Descriptor { digest, size, .. } = layer;
        let what = format!("the layer {digest}");
        let refused = |reason| RegistryError::Content(format!("{what}: {reason}"));
        if *size > HostClient::MAX_BODY {
            return Err(refused(format!("it has {size} bytes; it may have {}", HostClient::MAX_BODY)));
        }
        let response = self.get(&format!("blobs/{digest}")).await?;
        let (mut hasher, mut read) = (Sha256::new(), 0);
        let taken = self.succeeded(response, &what)?.read(|bytes| {
            read += bytes.len() as u64;
            if read > *size {
                return Err(format!("it has more than the {size} bytes that the manifest says"));
            }
            hasher.update(bytes);
            take(bytes)
        });
        taken.await.map_err(|reason| RegistryError::Request(format!("{what}: {reason}")))?;
        let found = digest_of_hashed(hasher);
        match read == *size && found == *digest {
            true => Ok(()),
            false => Err(refused(format!("the registry sent {read} bytes with the digest {found}"))),
        }
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
