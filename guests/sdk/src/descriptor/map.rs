//! [`Map`]: from a changed object to the keys that are reconciled for it. Part of a [`Watch`](crate::Watch). The host
//! does the mapping, so a change that leads to a key that waits already costs the guest nothing.

use serde::Serialize;

use crate::Kind;

/// Which keys a change of a watched object concerns. Owner, label and field give the keys of the old **and** of the
/// new object, so that whoever lost the object hears of it too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Map(Rule);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Rule {
    #[serde(rename = "self")]
    Itself,
    Owner {
        group: String,
        kind: String,
        #[serde(skip_serializing_if = "is_false")]
        controller_only: bool,
    },
    Label {
        name: String,
        #[serde(skip_serializing_if = "is_false")]
        same_namespace: bool,
    },
    Field {
        path: String,
        #[serde(skip_serializing_if = "is_false")]
        same_namespace: bool,
    },
    Handler,
}

impl Map {
    /// The object's own key. The default where there is a reconciler.
    pub fn itself() -> Self {
        Self(Rule::Itself)
    }

    /// Every owner of this kind, whatever its version.
    pub fn owner(kind: &Kind) -> Self {
        Self::owned(kind, false)
    }

    /// The owner of this kind that is marked as the managing controller.
    pub fn controller(kind: &Kind) -> Self {
        Self::owned(kind, true)
    }

    /// The value of a label, as the key itself: `name`, or `namespace/name`.
    pub fn label(name: impl Into<String>) -> Self {
        Self(Rule::Label { name: name.into(), same_namespace: false })
    }

    /// The value of a label, as a name in the object's own namespace.
    pub fn label_in_namespace(name: impl Into<String>) -> Self {
        Self(Rule::Label { name: name.into(), same_namespace: true })
    }

    /// The string at a JSON pointer, as the key itself: `name`, or `namespace/name`.
    pub fn field(path: impl Into<String>) -> Self {
        Self(Rule::Field { path: path.into(), same_namespace: false })
    }

    /// The string at a JSON pointer, as a name in the object's own namespace.
    pub fn field_in_namespace(path: impl Into<String>) -> Self {
        Self(Rule::Field { path: path.into(), same_namespace: true })
    }

    /// The guest's own `on_add`, `on_update` and `on_delete` are called, and decide. Worlds `event-handler` (where
    /// it is the default and the only one) and `controller`.
    pub fn handler() -> Self {
        Self(Rule::Handler)
    }

    fn owned(kind: &Kind, controller_only: bool) -> Self {
        Self(Rule::Owner { group: kind.group().to_owned(), kind: kind.kind().to_owned(), controller_only })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_false(value: &bool) -> bool {
    !value
}
