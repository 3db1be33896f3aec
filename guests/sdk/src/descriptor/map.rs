//! [`Map`]: a mapping of a changed object to the keys to reconcile. Part of a [`Watch`](crate::Watch). The host
//! evaluates the map, so a change of a key that is queued already does not call the plugin.

use super::KindFields;
use super::writer::Writer;
use crate::Kind;

/// Maps a changed object to the keys to reconcile. The maps of owners, labels, annotations and fields return the keys of
/// the old **and** the new state, so a former owner is reconciled too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map(String);

impl Map {
    /// The object's own key. The default in the worlds that have a reconcile.
    pub fn itself() -> Self {
        Self(of_type("self", |_| {}))
    }

    /// Every owner of this group and kind, in any version.
    pub fn owner(kind: &Kind) -> Self {
        Self::owned(kind, false)
    }

    /// The owner of this group and kind that is the managing controller.
    pub fn controller(kind: &Kind) -> Self {
        Self::owned(kind, true)
    }

    /// The value of a label, which is the key: `name`, or `namespace/name`.
    pub fn label(name: impl Into<String>) -> Self {
        Self::value("label", "name", &name.into(), false)
    }

    /// The value of a label, which is a name in the object's own namespace.
    pub fn label_in_namespace(name: impl Into<String>) -> Self {
        Self::value("label", "name", &name.into(), true)
    }

    /// The value of an annotation, which is the key: `name`, or `namespace/name`.
    pub fn annotation(name: impl Into<String>) -> Self {
        Self::value("annotation", "name", &name.into(), false)
    }

    /// The value of an annotation, which is a name in the object's own namespace.
    pub fn annotation_in_namespace(name: impl Into<String>) -> Self {
        Self::value("annotation", "name", &name.into(), true)
    }

    /// The string at a JSON pointer, which is the key: `name`, or `namespace/name`.
    pub fn field(path: impl Into<String>) -> Self {
        Self::value("field", "path", &path.into(), false)
    }

    /// The string at a JSON pointer, which is a name in the object's own namespace.
    pub fn field_in_namespace(path: impl Into<String>) -> Self {
        Self::value("field", "path", &path.into(), true)
    }

    /// The keys of all cached objects of another watched kind: a change reconciles every one of them. That kind needs a
    /// watch whose own map is [`Map::itself`].
    ///
    /// ```
    /// # use pilothouse_sdk::prelude::*;
    /// # #[derive(Resource, Serialize, Deserialize)]
    /// # #[resource(group = "example.com", version = "v1")]
    /// # struct Foo { metadata: Metadata }
    /// // A change of the defaults reconciles all Foos.
    /// let defaults = Watch::new(Kind::core("v1", "ConfigMap"))
    ///     .namespaces(["foo-system"])
    ///     .field_selector("metadata.name=defaults")
    ///     .map(Map::all_keys(&Kind::of::<Foo>()));
    /// let descriptor = Descriptor::new("foos").watch(Watch::of::<Foo>()).watch(defaults);
    /// ```
    pub fn all_keys(kind: &Kind) -> Self {
        Self(of_type("allKeys", |writer| KindFields::from(kind.clone()).write(writer)))
    }

    /// Calls the event handlers `on_add`, `on_update` and `on_delete` instead of queuing keys. For the worlds
    /// `event-handler`, where it is the default and the only map, and `controller`.
    pub fn handler() -> Self {
        Self(of_type("handler", |_| {}))
    }

    fn owned(kind: &Kind, controller_only: bool) -> Self {
        Self(of_type("owner", |writer| {
            writer.text("group", kind.group());
            writer.text("kind", kind.kind());
            writer.flag("controllerOnly", controller_only);
        }))
    }

    /// A map to the value of something.
    fn value(kind: &str, field: &str, value: &str, same_namespace: bool) -> Self {
        Self(of_type(kind, |writer| {
            writer.text(field, value);
            writer.flag("sameNamespace", same_namespace);
        }))
    }

    pub(super) fn json(self) -> String {
        self.0
    }
}

fn of_type(kind: &str, write: impl FnOnce(&mut Writer)) -> String {
    let mut writer = Writer::new();
    writer.text("type", kind);
    write(&mut writer);
    writer.end()
}
