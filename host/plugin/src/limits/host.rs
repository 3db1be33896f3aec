//! [`HostLimits`]: the limits file of the host (`pilothouse run --limits FILE`).

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::Ceilings;
use super::asked::AskedLimits;
use crate::manifest::{ManifestError, malformed, refused};
use crate::quantity::parse_memory;
use crate::yaml::read;

/// The limits that the operator sets for a host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostLimits {
    /// The ceilings of every plugin.
    pub ceilings: Ceilings,
    /// Connections to the API server; `None` for the client's default.
    pub max_connections: Option<usize>,
    /// Bytes of memory of all instances together; `None` for half of the memory of the machine or the cgroup.
    pub guest_memory: Option<u64>,
}

/// Fewest and most connections to the API server.
const CONNECTIONS: std::ops::RangeInclusive<usize> = 1..=1024;
/// Least memory of all instances together: one instance with the default memory.
const MIN_GUEST_MEMORY: u64 = 64 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Document {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    plugins: Option<AskedLimits>,
    host: Option<HostText>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct HostText {
    max_connections: Option<Spanned<usize>>,
    guest_memory: Option<Spanned<String>>,
}

impl HostLimits {
    /// Parses the content of a limits file; `file` is its path, which errors of manifests name.
    ///
    /// # Errors
    /// When a field is unknown, or a value is malformed or out of range. The error has no path.
    pub fn parse(text: &[u8], file: &str) -> Result<Self, ManifestError> {
        Self::read(text, file).map_err(|error| match error {
            // The text of this error names the document of manifests.
            ManifestError::Shape { at, field, reason } => ManifestError::Field {
                at,
                field: field.unwrap_or_else(|| "the limits file".to_owned()),
                reason,
                remedy: "docs/limits.md describes the fields".to_owned(),
            },
            other => other,
        })
    }

    fn read(text: &[u8], file: &str) -> Result<Self, ManifestError> {
        let document: Document = read(text, "Limits", "or name another file with --limits")?;
        let host = document.host.unwrap_or_default();
        if let Some(connections) = host.max_connections.as_ref().filter(|n| !CONNECTIONS.contains(&n.value)) {
            let reason = format!("{} is out of bounds", connections.value);
            let remedy = format!("write a number from {} to {}", CONNECTIONS.start(), CONNECTIONS.end());
            return Err(refused(connections, "host.maxConnections", reason, &remedy));
        }
        let guest_memory = host.guest_memory.map(|memory| {
            let field = "host.guestMemory";
            let bytes = parse_memory(&memory.value).map_err(|e| malformed(&memory, field, &e))?;
            if bytes < MIN_GUEST_MEMORY {
                let reason = format!("{:?} is out of bounds", memory.value);
                return Err(refused(&memory, field, reason, "write at least 64Mi, or leave it out"));
            }
            Ok(bytes)
        });
        Ok(Self {
            ceilings: Ceilings::new(&document.plugins.unwrap_or_default(), "plugins", file)?,
            max_connections: host.max_connections.map(|n| n.value),
            guest_memory: guest_memory.transpose()?,
        })
    }
}
