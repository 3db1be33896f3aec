//! [`Map`]: a mapping of a changed object to the keys to reconcile. Part of a [`Watch`](crate::Watch). The host
//! evaluates the map, so a change of a key that is queued already does not call the plugin.

use super::KindFields;
use super::writer::Writer;
use crate::Kind;

/// Maps a changed object to the keys to reconcile. The maps of owners, labels, annotations and fields return the keys of
/// the old **and** the new state, so a former owner is reconciled too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map(Rule);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Itself,
    Owner { group: String, kind: String, controller_only: bool },
    Label { name: String, same_namespace: bool },
    Annotation { name: String, same_namespace: bool },
    Field { path: String, same_namespace: bool },
    AllKeys(KindFields),
    Handler,
}

impl Map {
    /// The object's own key. The default in the worlds that have a reconcile.
    pub fn itself() -> Self {
        Self(Rule::Itself)
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
        Self(Rule::Label { name: name.into(), same_namespace: false })
    }

    /// The value of a label, which is a name in the object's own namespace.
    pub fn label_in_namespace(name: impl Into<String>) -> Self {
        Self(Rule::Label { name: name.into(), same_namespace: true })
    }

    /// The value of an annotation, which is the key: `name`, or `namespace/name`.
    pub fn annotation(name: impl Into<String>) -> Self {
        Self(Rule::Annotation { name: name.into(), same_namespace: false })
    }

    /// The value of an annotation, which is a name in the object's own namespace.
    pub fn annotation_in_namespace(name: impl Into<String>) -> Self {
        Self(Rule::Annotation { name: name.into(), same_namespace: true })
    }

    /// The string at a JSON pointer, which is the key: `name`, or `namespace/name`.
    pub fn field(path: impl Into<String>) -> Self {
        Self(Rule::Field { path: path.into(), same_namespace: false })
    }

    /// The string at a JSON pointer, which is a name in the object's own namespace.
    pub fn field_in_namespace(path: impl Into<String>) -> Self {
        Self(Rule::Field { path: path.into(), same_namespace: true })
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
        Self(Rule::AllKeys(kind.clone().into()))
    }

    /// Calls the event handlers `on_add`, `on_update` and `on_delete` instead of queuing keys. For the worlds
    /// `event-handler`, where it is the default and the only map, and `controller`.
    pub fn handler() -> Self {
        Self(Rule::Handler)
    }

    fn owned(kind: &Kind, controller_only: bool) -> Self {
        Self(Rule::Owner { group: kind.group().to_owned(), kind: kind.kind().to_owned(), controller_only })
    }

    pub(super) fn json(&self) -> String {
        let mut writer = match &self.0 {
            Rule::AllKeys(kind) => kind.writer(),
            _ => Writer::new(),
        };
        let kind = match &self.0 {
            Rule::Itself => "self",
            Rule::Owner { .. } => "owner",
            Rule::Label { .. } => "label",
            Rule::Annotation { .. } => "annotation",
            Rule::Field { .. } => "field",
            Rule::AllKeys(_) => "allKeys",
            Rule::Handler => "handler",
        };
        writer.text("type", kind);
        match &self.0 {
            Rule::Owner { group, kind, controller_only } => {
                writer.text("group", group);
                writer.text("kind", kind);
                writer.flag("controllerOnly", *controller_only);
            }
            Rule::Label { name, same_namespace } | Rule::Annotation { name, same_namespace } => {
                writer.text("name", name);
                writer.flag("sameNamespace", *same_namespace);
            }
            Rule::Field { path, same_namespace } => {
                writer.text("path", path);
                writer.flag("sameNamespace", *same_namespace);
            }
            Rule::Itself | Rule::AllKeys(_) | Rule::Handler => {}
        }
        writer.end()
    }
}
