//! [`Permission`]: a permission that a plugin asks for. Part of a [`Descriptor`](crate::Descriptor).

use serde::Serialize;

use super::strings;

/// A request for verbs on resources, in the terms of Kubernetes RBAC. Only the plugin's manifest grants permissions.
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
    /// Asks to read (`get`, `list` and `watch`) resources of one API group in all namespaces. Resources are plural
    /// names such as `pods` or `pods/status`.
    pub fn new(group: impl Into<String>, resources: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            groups: vec![group.into()],
            resources: strings(resources),
            verbs: strings(["get", "list", "watch"]),
            namespaces: strings(["*"]),
            names: Vec::new(),
        }
    }

    /// Replaces the verbs: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    #[must_use]
    pub fn verbs(mut self, verbs: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.verbs = strings(verbs);
        self
    }

    /// Limits the permission to these namespaces. An empty list means cluster-scoped objects only.
    #[must_use]
    pub fn namespaces(mut self, namespaces: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.namespaces = strings(namespaces);
        self
    }

    /// Limits the permission to objects with these names.
    #[must_use]
    pub fn names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.names = strings(names);
        self
    }
}
