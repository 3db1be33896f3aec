//! [`ConfigFrom`]: one entry of `spec.configFrom`, and its validation. The content of the entries is read by
//! [`crate::config_sources`].

use std::fmt;
use std::path::PathBuf;

use pilothouse_object::is_dns_subdomain;
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{ManifestError, is_dns_label, refused};

/// Maximum number of entries. Each entry costs a file that is polled, or a watch.
const MOST_ENTRIES: usize = 32;

/// An additional source of configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigFrom {
    /// A JSON or YAML file on the host, as an absolute path.
    File(PathBuf),
    /// A Secret of the cluster.
    Secret(ObjectReference),
    /// A ConfigMap of the cluster.
    ConfigMap(ObjectReference),
}

/// A Secret or ConfigMap with configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectReference {
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// Whether the plugin starts without the object; otherwise it waits until the object exists.
    #[serde(default)]
    pub optional: bool,
}

/// The form of the field in YAML.
impl fmt::Display for ConfigFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File(_) => "file",
            Self::Secret(_) => "secretRef",
            Self::ConfigMap(_) => "configMapRef",
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ConfigFromText {
    secret_ref: Option<ObjectReference>,
    config_map_ref: Option<ObjectReference>,
    file: Option<PathBuf>,
}

/// Validates all entries.
pub(super) fn check(entries: Vec<Spanned<ConfigFromText>>) -> Result<Vec<ConfigFrom>, ManifestError> {
    if let Some(beyond) = entries.get(MOST_ENTRIES) {
        let reason = format!("there are {} entries", entries.len());
        let remedy = format!("write at most {MOST_ENTRIES}, and join small objects or files");
        return Err(refused(beyond, "spec.configFrom", reason, &remedy));
    }
    let checked = entries.iter().enumerate().map(|(index, entry)| {
        one(&entry.value).map_err(|Fault { part, reason, remedy }| {
            refused(entry, &format!("spec.configFrom[{index}]{part}"), reason, remedy)
        })
    });
    checked.collect()
}

struct Fault {
    /// Path below the entry, such as `.secretRef.name`.
    part: String,
    reason: String,
    remedy: &'static str,
}

fn one(entry: &ConfigFromText) -> Result<ConfigFrom, Fault> {
    let fault = |reason: String, remedy| Err(Fault { part: String::new(), reason, remedy });
    let from = match entry {
        ConfigFromText { file: Some(file), secret_ref: None, config_map_ref: None } => {
            if !file.is_absolute() {
                let reason = format!("{:?} is not an absolute path", file.display().to_string());
                return fault(reason, "write the whole path, beginning with /");
            }
            ConfigFrom::File(file.clone())
        }
        ConfigFromText { secret_ref: Some(secret), config_map_ref: None, file: None } => {
            ConfigFrom::Secret(secret.clone())
        }
        ConfigFromText { config_map_ref: Some(map), secret_ref: None, file: None } => {
            ConfigFrom::ConfigMap(map.clone())
        }
        _ => {
            let reason = "an entry has exactly one of file, secretRef and configMapRef";
            return fault(reason.to_owned(), "write one entry for each source");
        }
    };
    if let ConfigFrom::Secret(object) | ConfigFrom::ConfigMap(object) = &from {
        // Both become part of a URL, and the name part of a field selector.
        let parts =
            [("namespace", is_dns_label(&object.namespace)), ("name", is_dns_subdomain(&object.name))];
        if let Some((part, _)) = parts.iter().find(|(_, good)| !good) {
            return Err(Fault {
                part: format!(".{from}.{part}"),
                reason: "it is not a name of Kubernetes".to_owned(),
                remedy: "name an object of the cluster by its namespace and name",
            });
        }
    }
    Ok(from)
}
