//! [`Permission`]: a permission that a plugin asks for. Part of a [`Descriptor`](crate::Descriptor).

use super::strings;
use super::writer::Writer;
use crate::{Kind, Resource, Scope};

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
    /// The lists with the names of [`LISTS`]: in loops they are less code than fields.
    lists: [Vec<String>; 5],
}

/// The names of the lists in the descriptor.
const LISTS: [&str; 5] = ["groups", "resources", "verbs", "namespaces", "names"];
const RESOURCES: usize = 1;
const VERBS: usize = 2;
const NAMESPACES: usize = 3;
const NAMES: usize = 4;

impl Permission {
    /// Asks to read (`get`, `list` and `watch`) resources of one API group in all namespaces. Resources are plural
    /// names such as `pods` or `pods/status`.
    pub fn new(group: impl Into<String>, resources: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let verbs = strings(["get", "list", "watch"]);
        Self { lists: [vec![group.into()], strings(resources), verbs, strings(["*"]), Vec::new()] }
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
        Self::on_kind(&K::resource_kind(), &K::resource_plural(), K::resource_scope(), subresource)
    }

    /// The part of [`on`](Self::on) that is the same for all types.
    #[inline(never)]
    fn on_kind(kind: &Kind, plural: &str, scope: Scope, subresource: &str) -> Self {
        let permission = Self::new(kind.group(), [format!("{plural}{subresource}")]);
        match scope {
            Scope::Namespaced => permission,
            Scope::Cluster => permission.namespaces([""; 0]),
        }
    }

    /// Adds another permission to this one, if they differ in their verbs only, or in their resources only.
    pub(super) fn absorb(&mut self, other: &Self) -> bool {
        let mut different = (0..LISTS.len()).filter(|list| self.lists[*list] != other.lists[*list]);
        let (Some(list), None) = (different.next(), different.next()) else {
            // Equal, or different in more than one list.
            return self == other;
        };
        if list != VERBS && list != RESOURCES {
            return false;
        }
        for text in &other.lists[list] {
            if !self.lists[list].contains(text) {
                self.lists[list].push(text.clone());
            }
        }
        true
    }

    /// Replaces the verbs: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    #[must_use]
    pub fn verbs(mut self, verbs: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.lists[VERBS] = strings(verbs);
        self
    }

    /// Limits the permission to these namespaces. An empty list means cluster-scoped objects only.
    #[must_use]
    pub fn namespaces(mut self, namespaces: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.lists[NAMESPACES] = strings(namespaces);
        self
    }

    /// Limits the permission to objects with these names.
    #[must_use]
    pub fn names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.lists[NAMES] = strings(names);
        self
    }

    pub(crate) fn json(&self) -> String {
        let mut writer = Writer::new();
        for (list, (name, texts)) in LISTS.iter().zip(&self.lists).enumerate() {
            // The last two may be absent.
            if list < NAMESPACES || !texts.is_empty() {
                writer.texts(name, texts);
            }
        }
        writer.end()
    }
}
