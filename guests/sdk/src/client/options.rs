//! Options of live calls, serialized as JSON objects with the fields that are set.

use serde::Serialize;

/// Options of `create`, `update` and the patches other than apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteOptions {
    /// Subresource to write to: `status`, `scale`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// Runs all checks without storing the object.
    #[serde(skip_serializing_if = "is_false")]
    pub dry_run: bool,
    /// Field manager that is recorded as owner of the fields; the default is the plugin's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_manager: Option<String>,
    /// Validation of unknown fields: `Ignore`, `Warn` or `Strict`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_validation: Option<String>,
}

/// Options of `apply`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplyOptions {
    /// Takes over fields that another manager owns, instead of failing with a conflict. Controllers should set it.
    #[serde(skip_serializing_if = "is_false")]
    pub force: bool,
    /// Field manager that is recorded as owner of the fields; the default is the plugin's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_manager: Option<String>,
    /// Subresource to write to: `status`, `scale`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// Runs all checks without storing the object.
    #[serde(skip_serializing_if = "is_false")]
    pub dry_run: bool,
    /// Validation of unknown fields: `Ignore`, `Warn` or `Strict`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_validation: Option<String>,
}

impl ApplyOptions {
    /// Takes over fields that another manager owns.
    pub fn force() -> Self {
        Self { force: true, ..Self::default() }
    }
}

/// Options of `delete`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOptions {
    /// Deletes the object only if it matches these preconditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// Treatment of the objects that the deleted object owns; the default depends on the kind.
    #[serde(skip_serializing_if = "Option::is_none", rename = "propagationPolicy")]
    pub propagation: Option<Propagation>,
    /// Grace period of the deletion in seconds; the default depends on the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<u32>,
    /// Runs all checks without deleting the object.
    #[serde(skip_serializing_if = "is_false")]
    pub dry_run: bool,
}

/// Conditions on the stored object; the call fails with a conflict if one is not met.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// The required `metadata.uid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The required `metadata.resourceVersion`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// Treatment of the objects that a deleted object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Propagation {
    /// The owned objects are kept.
    Orphan,
    /// The owned objects are deleted after the owner.
    Background,
    /// The owned objects are deleted before the owner.
    Foreground,
}

/// Options of `list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListOptions {
    /// Only this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Only objects with these labels, such as `app=web,tier!=test`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// Only objects with these fields, such as `spec.nodeName=a`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<String>,
    /// Objects per page; 500 is the maximum and the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Minimum resource version of the result; `0` accepts any version that the server has cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// Token of the next page; set by [`List`](super::List).
    #[serde(skip_serializing_if = "Option::is_none", rename = "continue")]
    pub continue_token: Option<String>,
}

/// The JSON text of options.
pub(super) fn text(options: &impl Serialize) -> String {
    // Serializing structs of strings, numbers and booleans cannot fail.
    serde_json::to_string(options).unwrap_or_default()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_set_is_written() {
        assert_eq!(text(&WriteOptions::default()), "{}");
        assert_eq!(text(&ApplyOptions::default()), "{}");
        assert_eq!(text(&DeleteOptions::default()), "{}");
        assert_eq!(text(&ListOptions::default()), "{}");
    }

    #[test]
    fn names_are_those_of_the_contract() {
        let write = WriteOptions {
            subresource: Some("status".into()),
            dry_run: true,
            field_manager: Some("m".into()),
            field_validation: Some("Strict".into()),
        };
        assert_eq!(
            text(&write),
            r#"{"subresource":"status","dryRun":true,"fieldManager":"m","fieldValidation":"Strict"}"#
        );
        assert_eq!(text(&ApplyOptions::force()), r#"{"force":true}"#);
        let delete = DeleteOptions {
            preconditions: Some(Preconditions { uid: Some("u".into()), resource_version: Some("7".into()) }),
            propagation: Some(Propagation::Background),
            grace_period_seconds: Some(0),
            dry_run: false,
        };
        assert_eq!(
            text(&delete),
            concat!(
                r#"{"preconditions":{"uid":"u","resourceVersion":"7"},"#,
                r#""propagationPolicy":"Background","gracePeriodSeconds":0}"#
            )
        );
        let list = ListOptions {
            namespace: Some("a".into()),
            field_selector: Some("f".into()),
            limit: Some(5),
            continue_token: Some("t".into()),
            resource_version: Some("0".into()),
            ..Default::default()
        };
        assert_eq!(
            text(&list),
            r#"{"namespace":"a","fieldSelector":"f","limit":5,"resourceVersion":"0","continue":"t"}"#
        );
    }
}
