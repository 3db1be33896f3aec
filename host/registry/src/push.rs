//! Pushes a component as the artifact that the CNCF describes for WebAssembly, and attaches a document to it.
//!
//! Invariants: the bounds of everything are checked before anything is uploaded; the size of a manifest depends neither on the
//! component nor on the document; an index of a fallback tag is written only where the registry lists nothing by itself.

use bytes::Bytes;
use http::Method;
use http::header::LOCATION;
use pilothouse_engine::HostClient;
use pilothouse_plugin::directory::digest_of;
use serde::Serialize;
use serde_json::{Value, json};

use crate::RegistryError;
use crate::artifact::{COMPONENT, Descriptor, EMPTY, INDEX, MANIFEST, MAX_ENTRIES, MAX_MANIFEST};
use crate::referrers::tag_of;
use crate::registry::{Call, Registry};

/// Type of the configuration of such an artifact.
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// The content of a configuration that says nothing.
const EMPTY_CONTENT: &[u8] = b"{}";
/// The answer of a registry that lists what is attached by itself.
const SUBJECT: &str = "oci-subject";
/// How often an index is written which others write at the same time.
const WRITES: usize = 3;

/// What a component imports and exports, for the configuration of its artifact.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ComponentWorld {
    /// Names of exports.
    pub exports: Vec<String>,
    /// Names of imports.
    pub imports: Vec<String>,
}

/// A document to attach to an artifact.
#[derive(Debug, Clone)]
pub struct Document {
    /// Its media type: a constant, since it is a part of manifests, whose size is bounded.
    pub media_type: &'static str,
    /// Its content.
    pub content: Bytes,
}

/// Content that is to be uploaded.
struct Blob {
    /// What errors call it.
    name: &'static str,
    descriptor: Descriptor,
    content: Bytes,
}

impl Blob {
    fn new(name: &'static str, media_type: &str, content: Bytes) -> Result<Self, RegistryError> {
        let (size, most) = (content.len() as u64, HostClient::MAX_BODY);
        if size > most {
            return Err(RegistryError::Content(format!(
                "{name} has {size} bytes; what is pushed may have {most}: push a smaller one"
            )));
        }
        Ok(Self { name, descriptor: Descriptor::of(media_type, &content), content })
    }
}

/// A manifest and the blobs that it names, of which nothing has been sent.
struct Prepared {
    blobs: [Blob; 2],
    manifest: Bytes,
    descriptor: Descriptor,
}

impl Prepared {
    fn new(blobs: [Blob; 2], manifest: &Value) -> Self {
        let manifest = Bytes::from(manifest.to_string());
        let descriptor = Descriptor::of(MANIFEST, &manifest);
        Self { blobs, manifest, descriptor }
    }

    /// The artifact of a component.
    fn component(component: Bytes, world: &ComponentWorld) -> Result<Self, RegistryError> {
        let layer = Blob::new("the component", COMPONENT, component)?;
        let config = json!({
            // Required; a time would give the same component another digest each time.
            "created": "1970-01-01T00:00:00Z",
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [layer.descriptor.digest],
            "component": world,
        });
        let config = Blob::new("the list of imports and exports", CONFIG, config.to_string().into())?;
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": config.descriptor, "layers": [layer.descriptor],
        });
        Ok(Self::new([layer, config], &manifest))
    }

    /// The manifest of a document, which refers to an artifact.
    fn document(document: Document, artifact: &Descriptor) -> Result<Self, RegistryError> {
        let Document { media_type, content } = document;
        let layer = Blob::new("the document to attach", media_type, content)?;
        let config = Blob::new("its configuration", EMPTY, Bytes::from_static(EMPTY_CONTENT))?;
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": media_type,
            "config": config.descriptor, "layers": [layer.descriptor], "subject": artifact,
        });
        let mut prepared = Self::new([layer, config], &manifest);
        prepared.descriptor.artifact_type = Some(media_type.to_owned());
        Ok(prepared)
    }
}

impl Registry {
    /// Pushes a component, and attaches a document to it. The descriptor of the component's manifest, which depends on nothing but
    /// the component.
    ///
    /// # Errors
    /// When a part is too large, or the registry refuses it.
    pub async fn push(
        &mut self,
        component: Bytes,
        world: &ComponentWorld,
        tag: Option<&str>,
        document: Option<Document>,
    ) -> Result<Descriptor, RegistryError> {
        let artifact = Prepared::component(component, world)?;
        let attached = document.map(|document| Prepared::document(document, &artifact.descriptor));
        let attached = attached.transpose()?;
        if let Some(attached) = &attached {
            match self.index_with(&artifact.descriptor, &attached.descriptor).await {
                // Some registries answer so for a repository that the push makes. The index is read again after it.
                Err(RegistryError::Refused { .. } | RegistryError::Status { .. }) => {}
                checked => drop(checked?),
            }
        }
        self.put(&artifact, tag).await?;
        if let Some(attached) = &attached
            && !self.put(attached, None).await?
        {
            self.put_into_index(&artifact.descriptor, &attached.descriptor).await?;
        }
        Ok(artifact.descriptor)
    }

    /// Adds a manifest to the index under the artifact's fallback tag, if the registry lists nothing by itself. Registries have no
    /// condition for a write: the index is read again, and written again if another client has overwritten it in between.
    async fn put_into_index(
        &mut self,
        artifact: &Descriptor,
        attached: &Descriptor,
    ) -> Result<(), RegistryError> {
        let tag = tag_of(&artifact.digest);
        for _ in 0..WRITES {
            let Some(index) = self.index_with(artifact, attached).await? else { return Ok(()) };
            self.put_manifest(INDEX, index, &tag).await?;
        }
        match self.index_with(artifact, attached).await? {
            None => Ok(()),
            Some(_) => Err(RegistryError::Content(format!(
                "the document is not in the index {tag} after {WRITES} writes: others write it at the same time; push it again"
            ))),
        }
    }

    /// The index under the artifact's fallback tag with one more manifest; none if it has that manifest, or if the registry lists
    /// by itself what is attached.
    async fn index_with(
        &mut self,
        artifact: &Descriptor,
        attached: &Descriptor,
    ) -> Result<Option<Bytes>, RegistryError> {
        if self.lists_referrers(&artifact.digest).await? {
            return Ok(None);
        }
        let tag = tag_of(&artifact.digest);
        let refused = || {
            RegistryError::Content(format!(
                "the tag {tag} is not an index of what is attached; remove the tag"
            ))
        };
        // Some registries, as GitLab's, take the tag for the digest, and send the artifact itself.
        let tagged = self.tagged(&tag).await?.filter(|manifest| digest_of(manifest) != artifact.digest);
        // Entries of others stay as they are.
        let mut index: Value = match tagged {
            Some(index) => serde_json::from_slice(&index).map_err(|_| refused())?,
            None => json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}),
        };
        let manifests = index.get_mut("manifests").ok_or_else(refused)?;
        if manifests.is_null() {
            // An empty list of a program in Go.
            *manifests = json!([]);
        }
        let manifests = manifests.as_array_mut().ok_or_else(refused)?;
        if manifests.iter().any(|manifest| manifest["digest"] == attached.digest) {
            return Ok(None);
        }
        manifests.push(json!(attached));
        let entries = manifests.len();
        let text = Bytes::from(index.to_string());
        let bytes = text.len();
        if entries > MAX_ENTRIES || bytes > MAX_MANIFEST {
            return Err(RegistryError::Content(format!(
                "with this document the index {tag} would have {entries} entries and {bytes} bytes; hosts read {MAX_ENTRIES} and \
                 {MAX_MANIFEST}: remove what is not needed from the index"
            )));
        }
        Ok(Some(text))
    }

    /// Uploads what a manifest names, and puts it under a tag, or its digest alone; whether the registry lists it at the manifest
    /// that it refers to.
    async fn put(&mut self, prepared: &Prepared, tag: Option<&str>) -> Result<bool, RegistryError> {
        let Prepared { blobs, manifest, descriptor } = prepared;
        for blob in blobs {
            self.upload(blob).await?;
        }
        self.put_manifest(MANIFEST, manifest.clone(), tag.unwrap_or(&descriptor.digest)).await
    }

    /// Uploads content, unless it is there.
    async fn upload(&mut self, blob: &Blob) -> Result<(), RegistryError> {
        let Blob { name, descriptor: Descriptor { digest, .. }, content } = blob;
        let there = self.send(&Call::new(Method::HEAD, self.url(&format!("blobs/{digest}"))?)).await?;
        if there.status().is_success() {
            return Ok(());
        }
        let what = format!("the upload of {name}");
        let uploads = self.url("blobs/uploads/")?;
        let begun = self.send(&Call::new(Method::POST, uploads.clone())).await?;
        let begun = self.succeeded(begun, &what)?;
        let location = begun.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let location = location.ok_or_else(|| {
            RegistryError::Content(format!("{what}: the registry does not say where it goes to"))
        })?;
        let separator = if location.contains('?') { '&' } else { '?' };
        let url = self.resolve(&uploads, &format!("{location}{separator}digest={digest}"))?;
        let call = Call::new(Method::PUT, url).body("application/octet-stream", content.clone());
        let uploaded = self.send(&call).await?;
        self.succeeded(uploaded, &what)?;
        Ok(())
    }

    /// Puts a manifest under a tag or its digest; whether the registry lists it at the manifest that it refers to.
    async fn put_manifest(
        &mut self,
        media_type: &'static str,
        manifest: Bytes,
        reference: &str,
    ) -> Result<bool, RegistryError> {
        let url = self.url(&format!("manifests/{reference}"))?;
        let put = self.send(&Call::new(Method::PUT, url).body(media_type, manifest)).await?;
        let put = self.succeeded(put, "the manifest")?;
        Ok(put.headers().contains_key(SUBJECT))
    }
}
