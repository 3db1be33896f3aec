//! [`Permission`]: a permission that a plugin asks for. Part of a [`Descriptor`](crate::Descriptor).

use super::strings;
use super::writer::Writer;
use crate::{Resource, Scope};

/// A verb of a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads many.
    List,
    /// Follows changes.
    Watch,
    /// Creates objects.
    Create,
    /// Replaces objects.
    Update,
    /// Patches objects.
    Patch,
    /// Deletes objects.
    Delete,
    /// Deletes many objects with one call.
    DeleteCollection,
}

impl Verb {
    /// The verbs of [`Context::apply`](crate::Context::apply) and
    /// [`Context::create_or_update`](crate::Context::create_or_update).
    pub const APPLY: [Self; 2] = [Self::Create, Self::Patch];

    /// The verb as in RBAC.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

impl From<Verb> for String {
    fn from(verb: Verb) -> Self {
        verb.as_str().to_owned()
    }
}

/// A request for verbs on resources, in the terms of Kubernetes RBAC. Only the plugin's manifest grants permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
    namespaces: Vec<String>,
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

    /// Asks to read objects of a type in all namespaces; [`verbs`](Permission::verbs) and
    /// [`namespaces`](Permission::namespaces) change that.
    pub fn of<K: Resource>() -> Self {
        Self::on::<K>("")
    }

    /// Asks to write a subresource of objects of a type, such as `status`: `update` and `patch` in all namespaces.
    pub fn subresource_of<K: Resource>(subresource: &str) -> Self {
        Self::on::<K>(&format!("/{subresource}")).verbs([Verb::Update, Verb::Patch])
    }

    fn on<K: Resource>(subresource: &str) -> Self {
        let resource = format!("{}{subresource}", K::resource_plural());
        let permission = Self::new(K::resource_kind().group(), [resource]);
        match K::resource_scope() {
            Scope::Namespaced => permission,
            Scope::Cluster => permission.namespaces([""; 0]),
        }
    }

    /// Adds another permission to this one, if they differ in their verbs only, or in their resources only.
    pub(super) fn absorb(&mut self, other: &Self) -> bool {
        let same_place =
            self.groups == other.groups && self.namespaces == other.namespaces && self.names == other.names;
        if !same_place {
            return false;
        }
        let add = |own: &mut Vec<String>, more: &[String]| {
            for text in more {
                if !own.contains(text) {
                    own.push(text.clone());
                }
            }
        };
        if self.resources == other.resources {
            add(&mut self.verbs, &other.verbs);
            true
        } else if self.verbs == other.verbs {
            add(&mut self.resources, &other.resources);
            true
        } else {
            false
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

    pub(crate) fn json(&self) -> String {
        let mut writer = Writer::new();
        writer.texts("groups", &self.groups);
        writer.texts("resources", &self.resources);
        writer.texts("verbs", &self.verbs);
        if !self.namespaces.is_empty() {
            writer.texts("namespaces", &self.namespaces);
        }
        if !self.names.is_empty() {
            writer.texts("names", &self.names);
        }
        writer.end()
    }
}
