//! [`Source`]: where the component of a plugin is. In the plugin directory it is a file; a Plugin of the cluster names a
//! URL or an artifact in a registry, and the digest of what is in there.

use pilothouse_object::is_dns_subdomain;
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{ManifestError, refused};
use crate::component_hosts::ComponentUrl;
use crate::oci_reference::OciReference;
use crate::yaml::known;

/// The component of a plugin, and its required digest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// File name in the manifest's directory; the default is the manifest's own stem with `.wasm`.
    pub file: Option<String>,
    /// `sha256:` and 64 lower-case hexadecimal digits; absent for any content.
    pub digest: Option<String>,
    /// From where the host fetches the component of a Plugin of the cluster.
    pub remote: Option<RemoteComponent>,
}

/// A component that is no file of the plugin directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteComponent {
    /// What a server sends.
    Url(ComponentUrl),
    /// A layer of an artifact in an OCI registry.
    Oci(OciComponent),
}

/// A component in an OCI registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciComponent {
    /// The artifact.
    pub reference: OciReference,
    /// Name of a Secret of the plugin's namespace with a login of the registry (`kubernetes.io/dockerconfigjson`).
    pub pull_secret: Option<String>,
}

impl RemoteComponent {
    /// What messages call it.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Self::Url(url) => url.to_string(),
            Self::Oci(oci) => oci.reference.to_string(),
        }
    }
}

/// Which fields a manifest may have in `spec.source`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    /// A file of the plugin directory.
    Directory,
    /// An object of the cluster.
    Cluster,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct SourceText {
    file: Option<Spanned<String>>,
    digest: Option<Spanned<String>>,
    url: Option<Spanned<String>>,
    oci: Option<Spanned<String>>,
    pull_secret: Option<Spanned<String>>,
}

const LOCAL: &str = "copy the component into the plugin directory and name it in spec.source.file";

const REMOTE: &str = "write one of url and oci, and the digest";

impl SourceText {
    pub(super) fn check(self, home: Home) -> Result<Source, ManifestError> {
        let Self { file, digest, url, oci, pull_secret } = self;
        let remote = match home {
            Home::Directory => {
                let named = [
                    ("url", url.as_ref().map(|url| url.referenced)),
                    ("oci", oci.as_ref().map(|oci| oci.referenced)),
                    ("pullSecret", pull_secret.as_ref().map(|name| name.referenced)),
                ];
                if let Some((field, at)) = named.into_iter().find_map(|(field, at)| Some((field, at?))) {
                    return Err(ManifestError::Field {
                        at: known(at),
                        field: format!("spec.source.{field}"),
                        reason: "only a Plugin of the cluster has it".to_owned(),
                        remedy: LOCAL.to_owned(),
                    });
                }
                None
            }
            Home::Cluster => {
                if let Some(file) = &file {
                    let reason = "a Plugin of the cluster names no file of the host".to_owned();
                    return Err(refused(file, "spec.source.file", reason, REMOTE));
                }
                Some(remote(url, oci, pull_secret)?)
            }
        };
        file.as_ref().map(check_file).transpose()?;
        digest.as_ref().map(check_digest).transpose()?;
        Ok(Source {
            file: file.map(|file| file.value),
            digest: digest.map(|digest| digest.value.to_ascii_lowercase()),
            remote,
        })
    }
}

fn remote(
    url: Option<Spanned<String>>,
    oci: Option<Spanned<String>>,
    pull_secret: Option<Spanned<String>>,
) -> Result<RemoteComponent, ManifestError> {
    if let Some(name) = pull_secret.as_ref().filter(|_| oci.is_none()) {
        let reason = "it is for a registry, and spec.source has no oci".to_owned();
        return Err(refused(name, "spec.source.pullSecret", reason, "remove it"));
    }
    match (url, oci) {
        (None, Some(oci)) => check_oci(&oci, pull_secret).map(RemoteComponent::Oci),
        (Some(url), None) => ComponentUrl::parse(&url.value).map(RemoteComponent::Url).map_err(|reason| {
            let remedy = "write it as https://files.example.com/exporter.wasm";
            refused(&url, "spec.source.url", format!("{:?}: {reason}", url.value), remedy)
        }),
        (url, _) => {
            let reason = if url.is_none() { "it names no component" } else { "it names several components" };
            Err(ManifestError::Field {
                at: None,
                field: "spec.source".to_owned(),
                reason: reason.to_owned(),
                remedy: REMOTE.to_owned(),
            })
        }
    }
}

fn check_oci(
    oci: &Spanned<String>,
    pull_secret: Option<Spanned<String>>,
) -> Result<OciComponent, ManifestError> {
    let reference = OciReference::parse(&oci.value).map_err(|reason| {
        let remedy =
            "write it as oci://registry.example.com/team/exporter@sha256:…, with the digest that the push has printed";
        refused(oci, "spec.source.oci", format!("{:?}: {reason}", oci.value), remedy)
    })?;
    if let Some(name) = pull_secret.as_ref().filter(|name| !is_dns_subdomain(&name.value)) {
        let reason = "it is not a name of Kubernetes".to_owned();
        return Err(refused(
            name,
            "spec.source.pullSecret",
            reason,
            "name a Secret of the plugin's namespace",
        ));
    }
    Ok(OciComponent { reference, pull_secret: pull_secret.map(|name| name.value) })
}

fn check_file(file: &Spanned<String>) -> Result<(), ManifestError> {
    let name = &file.value;
    let remedy = "name a .wasm file of the manifest's own directory, without a path, as exporter.wasm";
    let reason = if name.contains(['/', '\\']) || name == ".." {
        "is a path"
    } else if name.starts_with('.') {
        "is a hidden file"
    } else if !name.ends_with(".wasm") {
        "does not end in .wasm"
    } else {
        return Ok(());
    };
    Err(refused(file, "spec.source.file", format!("{name:?} {reason}"), remedy))
}

fn check_digest(digest: &Spanned<String>) -> Result<(), ManifestError> {
    let hex = digest.value.strip_prefix("sha256:").unwrap_or_default();
    if hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(());
    }
    let reason = format!("{:?} is not a SHA-256 digest", digest.value);
    let remedy = "write \"sha256:\" and the 64 hexadecimal digits that `sha256sum FILE` prints";
    Err(refused(digest, "spec.source.digest", reason, remedy))
}
