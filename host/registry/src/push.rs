//! Pushes a component as the artifact that the CNCF describes for WebAssembly, and attaches documents to it.

use bytes::Bytes;
use http::Method;
use http::header::LOCATION;
use pilothouse_engine::HostClient;
use serde::Serialize;
use serde_json::{Value, json};

use crate::RegistryError;
use crate::artifact::{COMPONENT, Descriptor, INDEX, MANIFEST};
use crate::referrers::tag_of;
use crate::registry::{Call, Registry};

/// Type of the configuration of such an artifact.
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// Type of a configuration that says nothing, and its content.
const EMPTY: (&str, &[u8]) = ("application/vnd.oci.empty.v1+json", b"{}");
/// The answer of a registry that lists what is attached by itself.
const SUBJECT: &str = "oci-subject";

/// What a component imports and exports, for the configuration of its artifact.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ComponentWorld {
    /// Names of exports.
    pub exports: Vec<String>,
    /// Names of imports.
    pub imports: Vec<String>,
}

impl Registry {
    /// Pushes a component. Its manifest, which is returned, depends on nothing but the component.
    ///
    /// # Errors
    /// When it is too large, or the registry refuses a part.
    pub async fn push(
        &mut self,
        component: Bytes,
        world: &ComponentWorld,
        tag: Option<&str>,
    ) -> Result<Descriptor, RegistryError> {
        let layer = self.upload(COMPONENT, component).await?;
        let config = json!({
            // Required; a time would give the same component another digest each time.
            "created": "1970-01-01T00:00:00Z",
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [layer.digest],
            "component": world,
        });
        let config = self.upload(CONFIG, config.to_string().into()).await?;
        let manifest =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
        Ok(self.put_manifest(MANIFEST, &manifest, tag).await?.0)
    }

    /// Attaches a document of a type to an artifact, as a manifest that refers to it.
    ///
    /// # Errors
    /// When the registry refuses a part.
    pub async fn attach(
        &mut self,
        artifact: &Descriptor,
        document_type: &str,
        document: Bytes,
    ) -> Result<Descriptor, RegistryError> {
        let layer = self.upload(document_type, document).await?;
        let config = self.upload(EMPTY.0, Bytes::from_static(EMPTY.1)).await?;
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": document_type,
            "config": config, "layers": [layer], "subject": artifact,
        });
        let (mut attached, is_listed) = self.put_manifest(MANIFEST, &manifest, None).await?;
        attached.artifact_type = Some(document_type.to_owned());
        if !is_listed {
            self.list(artifact, &attached).await?;
        }
        Ok(attached)
    }

    /// Adds a manifest to the index under the artifact's fallback tag, for a registry without the referrers API.
    async fn list(&mut self, artifact: &Descriptor, attached: &Descriptor) -> Result<(), RegistryError> {
        let tag = tag_of(&artifact.digest);
        let refused = || RegistryError::Content(format!("the tag {tag} is not an index"));
        // Entries of others stay as they are.
        let mut index: Value = match self.tagged(&tag).await? {
            Some(index) => serde_json::from_slice(&index).map_err(|_| refused())?,
            None => json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}),
        };
        let manifests = index.get_mut("manifests").and_then(Value::as_array_mut).ok_or_else(refused)?;
        if manifests.iter().all(|manifest| manifest["digest"] != attached.digest) {
            manifests.push(json!(attached));
            self.put_manifest(INDEX, &index, Some(&tag)).await?;
        }
        Ok(())
    }

    /// Uploads content, unless it is there.
    async fn upload(&mut self, media_type: &str, content: Bytes) -> Result<Descriptor, RegistryError> {
        let descriptor = Descriptor::of(media_type, &content);
        let Descriptor { digest, size, .. } = &descriptor;
        let most = HostClient::MAX_BODY;
        if *size > most {
            return Err(RegistryError::Content(format!(
                "it has {size} bytes; what is pushed may have {most}"
            )));
        }
        let there = self.send(&Call::new(Method::HEAD, self.url(&format!("blobs/{digest}"))?)).await?;
        if there.status().is_success() {
            return Ok(descriptor);
        }
        let begin = Call::new(Method::POST, self.url("blobs/uploads/")?);
        let begun = self.send(&begin).await?;
        let begun = self.succeeded(begun, "the upload of a layer")?;
        let location = begun.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let location = location.ok_or_else(|| {
            RegistryError::Content("the registry does not say where a layer is uploaded to".to_owned())
        })?;
        let separator = if location.contains('?') { '&' } else { '?' };
        let url = self.resolve(&self.url("")?, &format!("{location}{separator}digest={digest}"))?;
        let uploaded =
            self.send(&Call::new(Method::PUT, url).body("application/octet-stream", content)).await?;
        self.succeeded(uploaded, "the upload of a layer")?;
        Ok(descriptor)
    }

    /// Puts a manifest under a tag, or its digest alone; and whether the registry lists it at the manifest that it refers to.
    async fn put_manifest(
        &mut self,
        media_type: &'static str,
        manifest: &Value,
        tag: Option<&str>,
    ) -> Result<(Descriptor, bool), RegistryError> {
        let text = Bytes::from(manifest.to_string());
        let descriptor = Descriptor::of(media_type, &text);
        let url = self.url(&format!("manifests/{}", tag.unwrap_or(&descriptor.digest)))?;
        let put = self.send(&Call::new(Method::PUT, url).body(media_type, text)).await?;
        let put = self.succeeded(put, "the manifest")?;
        Ok((descriptor, put.headers().contains_key(SUBJECT)))
    }
}
