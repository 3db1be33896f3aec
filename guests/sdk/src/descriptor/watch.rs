//! [`Watch`]: the objects that a plugin watches, with filters. Part of a [`Descriptor`](crate::Descriptor).

use super::writer::{Fields, Writer};
use super::{KindFields, Map, Permission, Predicate, strings};
use crate::{Kind, Resource};

/// The objects that the plugin watches, and can read from the [`cache`](crate::cache).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    kind: KindFields,
    namespaces: Vec<String>,
    fields: Fields,
    /// JSON texts.
    predicates: Vec<String>,
    maps: Vec<String>,
    /// The permission that the watch needs, if its type knows the plural.
    permission: Option<Permission>,
}

impl Watch {
    /// All objects of a kind, in all namespaces that are granted.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind: kind.into(),
            namespaces: Vec::new(),
            fields: Fields::default(),
            predicates: Vec::new(),
            maps: Vec::new(),
            permission: None,
        }
    }

    /// All objects of a type, in all namespaces that are granted. The descriptor then asks for the permission to read
    /// them by itself.
    pub fn of<K: Resource>() -> Self {
        Self { permission: Some(Permission::of::<K>()), ..Self::new(Kind::of::<K>()) }
    }

    /// The permission that the watch needs, if that is known.
    pub(super) fn permission(&self) -> Option<Permission> {
        let permission = self.permission.clone()?;
        if self.namespaces.is_empty() {
            Some(permission)
        } else {
            Some(permission.namespaces(&self.namespaces))
        }
    }

    pub(super) fn json(&self) -> String {
        let mut writer = Writer::new();
        self.kind.write(&mut writer);
        if !self.namespaces.is_empty() {
            writer.texts("namespaces", &self.namespaces);
        }
        self.fields.write(&mut writer);
        if !self.predicates.is_empty() {
            writer.list("predicates", &self.predicates);
        }
        match &self.maps[..] {
            [] => {}
            [map] => writer.raw("map", map),
            maps => writer.list("map", maps),
        }
        writer.end()
    }

    pub(super) fn kind(&self) -> &KindFields {
        &self.kind
    }

    /// The namespaces that the watch is limited to; none for all.
    pub(super) fn only_namespaces(&self) -> &[String] {
        &self.namespaces
    }

    /// Names the watch, for event handlers: [`Added::watch`](crate::Added::watch). Unique in the descriptor.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.fields.set_text("name", &name.into());
        self
    }

    /// Limits the watch to these namespaces. The cache shows objects in the namespaces of all watches of their kind.
    #[must_use]
    pub fn namespaces(mut self, namespaces: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.namespaces = strings(namespaces);
        self
    }

    /// Limits the events of the watch to objects with these labels, such as `app=web,tier!=test`. The cache shows the
    /// others as well: check what you read.
    #[must_use]
    pub fn label_selector(mut self, selector: impl Into<String>) -> Self {
        self.fields.set_text("labelSelector", &selector.into());
        self
    }

    /// Limits the events of the watch to objects with these fields, such as `metadata.name=a`; the API server supports few
    /// fields of each kind. The cache shows the others as well.
    #[must_use]
    pub fn field_selector(mut self, selector: impl Into<String>) -> Self {
        self.fields.set_text("fieldSelector", &selector.into());
        self
    }

    /// Adds a filter of events. An event must pass all predicates of the watch.
    #[must_use]
    pub fn predicate(mut self, predicate: Predicate) -> Self {
        self.predicates.push(predicate.json());
        self
    }

    /// Adds a mapping of a change to keys, at most 8. A change reconciles the keys of all maps, each once. Without a map
    /// it is [`Map::itself`], in the world `event-handler` [`Map::handler`], which cannot be one of several.
    #[must_use]
    pub fn map(mut self, map: Map) -> Self {
        self.maps.push(map.json());
        self
    }

    /// Sets whether changes may be merged.
    #[must_use]
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.fields.set_text("delivery", delivery.as_str());
        self
    }
}

/// Treatment of changes that arrive faster than they are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The changes are merged: the first old and the last new state are delivered. The default.
    Latest,
    /// Each change is delivered, up to a limit of the host (65,536 pending changes per watch); further ones are merged.
    Every,
}

impl Delivery {
    fn as_str(self) -> &'static str {
        match self {
            Self::Latest => "latest",
            Self::Every => "every",
        }
    }
}
