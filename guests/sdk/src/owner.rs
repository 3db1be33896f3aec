//! [`OwnerReference`]: an entry of `metadata.ownerReferences`.

use serde::{Deserialize, Serialize};

use crate::Kind;
use crate::bindings::imports::objects as raw;

/// An entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// `apiVersion` of the owner.
    #[serde(default)]
    pub api_version: String,
    /// Kind of the owner.
    #[serde(default)]
    pub kind: String,
    /// Name of the owner.
    #[serde(default)]
    pub name: String,
    /// UID of the owner.
    #[serde(default)]
    pub uid: String,
    /// Whether the owner is the managing controller, of which an object has at most one.
    #[serde(default)]
    pub controller: bool,
    /// Whether a foreground deletion of the owner waits for this object.
    #[serde(default)]
    pub block_owner_deletion: bool,
}

impl OwnerReference {
    /// Whether the reference is to the object with this UID.
    pub fn is_to(&self, uid: &str) -> bool {
        self.uid == uid
    }

    /// Whether the owner is of this group and kind, in any version.
    pub fn is_of_kind(&self, kind: &Kind) -> bool {
        let own = Kind::of_api_version(&self.api_version, &self.kind);
        own.group() == kind.group() && own.kind() == kind.kind()
    }
}

impl From<raw::OwnerReference> for OwnerReference {
    fn from(raw: raw::OwnerReference) -> Self {
        Self {
            api_version: raw.api_version,
            kind: raw.kind,
            name: raw.name,
            uid: raw.uid,
            controller: raw.controller,
            block_owner_deletion: raw.block_owner_deletion,
        }
    }
}
