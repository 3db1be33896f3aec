//! [`Selection`]: which objects of a resource a list, a watch or a deletion of many is about.

use pilothouse_object::LabelSelector;

use super::ResourceRequest;
use crate::api::ApiError;
use crate::kinds::{self, FieldFilter};
use crate::store::Stored;

/// A namespace, a label selector and a field selector.
pub(crate) struct Selection {
    /// What keys begin with.
    pub(crate) prefix: String,
    /// The one key, where only one object is meant.
    key: Option<String>,
    labels: LabelSelector,
    fields: FieldFilter,
}

impl std::fmt::Debug for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Selection")
            .field("prefix", &self.prefix)
            .field("labels", &self.labels)
            .finish_non_exhaustive()
    }
}

impl Selection {
    /// # Errors
    /// 400 for a selector that is malformed or names an unknown field.
    pub(crate) fn of(call: &ResourceRequest) -> Result<Self, ApiError> {
        let labels = call.params.get("labelSelector").unwrap_or_default();
        let labels = labels.parse().map_err(|e| ApiError::bad_request(format!("{e}")))?;
        let fields = kinds::fields(&call.resource, call.params.get("fieldSelector").unwrap_or_default())?;
        let prefix = match call.namespace() {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        let key = call.target.name.as_ref().map(|_| call.key());
        Ok(Self { prefix, key, labels, fields })
    }

    /// Whether every object of the namespace is meant.
    pub(crate) fn is_all(&self) -> bool {
        self.key.is_none() && self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether a key is in question at all.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.key.as_ref().map_or_else(|| key.starts_with(&self.prefix), |own| own == key)
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        self.labels.matches(&stored.object) && self.fields.matches(&stored.object)
    }
}
