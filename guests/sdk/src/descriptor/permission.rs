//! [`Permission`]: what a plugin asks to be allowed. Part of a [`Descriptor`](crate::Descriptor).

use serde::Serialize;

use super::strings;

/// Verbs on resources, in the words of Kubernetes RBAC. Asking grants nothing: the manifest beside the plugin does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Permission {
    groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
}

impl Permission {
    /// Reading (`get`, `list` and `watch`) of resources of one API group, in their plural form: `pods`,
    /// `pods/status`.
    pub fn new(group: impl Into<String>, resources: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            groups: vec![group.into()],
            resources: strings(resources),
            verbs: strings(["get", "list", "watch"]),
            namespaces: strings(["*"]),
            names: Vec::new(),
        }
    }

    /// These verbs instead: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    #[must_use]
    pub fn verbs(mut self, verbs: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.verbs = strings(verbs);
        self
    }

    /// Only in these namespaces. None at all: only objects that are in no namespace.
    #[must_use]
    pub fn namespaces(mut self, namespaces: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.namespaces = strings(namespaces);
        self
    }

    /// Only objects of these names.
    #[must_use]
    pub fn names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.names = strings(names);
        self
    }
}
