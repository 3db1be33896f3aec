//! [`Visibility`]: the rules on one resource and verb as lookup tables, for checking many objects.
//!
//! Invariant: an object is visible iff one of the source rules covers it. Subscriptions and cached reads use it.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pilothouse_object::ObjectKey;

use super::Rule;

/// The objects of one resource that are visible to a plugin, computed once. A clone copies a reference count. Two that are
/// equal show the same objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visibility(Arc<Seen>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    cluster: Names,
    everywhere: Names,
    namespaces: HashMap<Box<str>, Names>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Names {
    #[default]
    None,
    Only(HashSet<Box<str>>),
    All,
}

impl Visibility {
    /// The visibility under these rules. The caller has selected the rules that cover the resource and the verb.
    pub(super) fn of<'a>(rules: impl Iterator<Item = &'a Rule>) -> Self {
        let mut seen = Seen::default();
        for rule in rules {
            if rule.everywhere() {
                seen.everywhere.add(&rule.names);
            } else if rule.namespaces.is_empty() {
                seen.cluster.add(&rule.names);
            } else {
                for namespace in &rule.namespaces {
                    seen.namespaces.entry_ref(namespace.as_str()).or_default().add(&rule.names);
                }
            }
        }
        Self(Arc::new(seen))
    }

    /// Whether an object is visible: one or two lookups.
    #[must_use]
    pub fn sees(&self, key: &ObjectKey) -> bool {
        let seen = &*self.0;
        if seen.everywhere.holds(key.name()) {
            return true;
        }
        match key.namespace() {
            None => seen.cluster.holds(key.name()),
            Some(namespace) => seen.namespaces.get(namespace).is_some_and(|names| names.holds(key.name())),
        }
    }

    /// Whether every object is visible, so that single checks are unnecessary.
    #[must_use]
    pub fn sees_all(&self) -> bool {
        matches!(self.0.everywhere, Names::All)
    }

    /// Scopes one of which covers each visible object: its namespace, empty for cluster-scoped objects, and its name; `None`
    /// stands for any. `None` in their place if every object is visible.
    #[must_use]
    pub fn scopes(&self) -> Option<impl Iterator<Item = (Option<&str>, Option<&str>)>> {
        let seen = &*self.0;
        let places = [(None, &seen.everywhere), (Some(""), &seen.cluster)];
        let namespaces = seen.namespaces.iter().map(|(namespace, names)| (Some(&**namespace), names));
        let scopes = places.into_iter().chain(namespaces);
        (!self.sees_all())
            .then(|| scopes.flat_map(|(place, names)| names.iter().map(move |name| (place, name))))
    }

    /// Whether no object is visible.
    #[must_use]
    pub fn sees_nothing(&self) -> bool {
        let seen = &*self.0;
        matches!((&seen.everywhere, &seen.cluster), (Names::None, Names::None)) && seen.namespaces.is_empty()
    }
}

impl Names {
    fn add(&mut self, names: &[String]) {
        match self {
            Self::All => {}
            _ if names.is_empty() => *self = Self::All,
            Self::Only(set) => set.extend(names.iter().map(|name| name.as_str().into())),
            Self::None => *self = Self::Only(names.iter().map(|name| name.as_str().into()).collect()),
        }
    }

    /// Each name, or `None` for all.
    fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        let (all, only) = match self {
            Self::None => (None, None),
            Self::Only(names) => (None, Some(names)),
            Self::All => (Some(None), None),
        };
        all.into_iter().chain(only.into_iter().flatten().map(|name| Some(&**name)))
    }

    fn holds(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::Only(set) => set.contains(name),
            Self::All => true,
        }
    }
}
