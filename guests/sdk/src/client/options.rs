//! Options of live calls, as structs with the fields that each call takes.

use crate::sys::CallOptions;

/// Options of `create`, `update` and the patches other than apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Subresource to write to: `status`, `scale`, … Not taken by `create`; see
    /// [`create_subresource`](super::Client::create_subresource).
    pub subresource: Option<String>,
    /// Runs all checks without storing the object.
    pub dry_run: bool,
    /// Field manager that is recorded as owner of the fields; the default is the plugin's name.
    pub field_manager: Option<String>,
    /// Validation of unknown and duplicate fields; the default is the API server's.
    pub field_validation: Option<FieldValidation>,
}

impl WriteOptions {
    /// Options for the subresource `status`.
    pub fn status() -> Self {
        Self { subresource: Some("status".to_owned()), ..Self::default() }
    }

    pub(super) fn raw(&self) -> CallOptions<'_> {
        CallOptions {
            subresource: self.subresource.as_deref(),
            dry_run: self.dry_run,
            field_manager: self.field_manager.as_deref(),
            field_validation: self.field_validation,
            ..CallOptions::default()
        }
    }
}

/// Options of `apply`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplyOptions {
    /// Takes over fields that another manager owns, instead of failing with a conflict. Controllers should set it.
    pub force: bool,
    /// Field manager that is recorded as owner of the fields; the default is the plugin's name.
    pub field_manager: Option<String>,
    /// Subresource to write to: `status`, `scale`, …
    pub subresource: Option<String>,
    /// Runs all checks without storing the object.
    pub dry_run: bool,
    /// Validation of unknown and duplicate fields; the default is the API server's.
    pub field_validation: Option<FieldValidation>,
}

impl ApplyOptions {
    /// Takes over fields that another manager owns.
    pub fn force() -> Self {
        Self { force: true, ..Self::default() }
    }

    pub(super) fn raw(&self) -> CallOptions<'_> {
        CallOptions {
            force: self.force,
            subresource: self.subresource.as_deref(),
            dry_run: self.dry_run,
            field_manager: self.field_manager.as_deref(),
            field_validation: self.field_validation,
            ..CallOptions::default()
        }
    }
}

/// What becomes of unknown and duplicate fields of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped, and the host logs a warning.
    Warn,
    /// The call fails.
    Strict,
}

/// Options of `delete` and `delete_collection`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Deletes the object only if it matches these preconditions. Not taken by `delete_collection`.
    pub preconditions: Option<Preconditions>,
    /// Treatment of the objects that the deleted object owns; the default depends on the kind.
    pub propagation: Option<Propagation>,
    /// Grace period of the deletion in seconds; the default depends on the kind.
    pub grace_period_seconds: Option<u32>,
    /// Runs all checks without deleting the object.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Deletes only the object with this UID, and not one of the same name that came after it.
    pub fn uid(uid: impl Into<String>) -> Self {
        let preconditions = Preconditions { uid: Some(uid.into()), resource_version: None };
        Self { preconditions: Some(preconditions), ..Self::default() }
    }

    pub(super) fn raw(&self) -> CallOptions<'_> {
        let preconditions = self.preconditions.as_ref();
        CallOptions {
            precondition_uid: preconditions.and_then(|only| only.uid.as_deref()),
            precondition_resource_version: preconditions.and_then(|only| only.resource_version.as_deref()),
            propagation: self.propagation,
            grace_period_seconds: self.grace_period_seconds,
            dry_run: self.dry_run,
            ..CallOptions::default()
        }
    }
}

/// Conditions on the stored object; the call fails with a conflict if one is not met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The required `metadata.uid`.
    pub uid: Option<String>,
    /// The required `metadata.resourceVersion`.
    pub resource_version: Option<String>,
}

/// Treatment of the objects that a deleted object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// The owned objects are kept.
    Orphan,
    /// The owned objects are deleted after the owner.
    Background,
    /// The owned objects are deleted before the owner.
    Foreground,
}

/// Options of `list`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only objects with these labels, such as `app=web,tier!=test`.
    pub label_selector: Option<String>,
    /// Only objects with these fields, such as `spec.nodeName=a`.
    pub field_selector: Option<String>,
    /// Objects per page; 500 is the maximum and the default.
    pub limit: Option<u32>,
    /// Resource version of the result, as `version_match` says; without that, the minimum, and `0` accepts any version
    /// that the server has cached.
    pub resource_version: Option<String>,
    /// How `resource_version` is to be understood.
    pub version_match: Option<VersionMatch>,
    /// Token of the next page; set by [`List`](super::List).
    pub continue_token: Option<String>,
}

/// How the resource version of a list is to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionMatch {
    /// The list is at exactly that version.
    Exact,
    /// The list is not older.
    NotOlderThan,
}

impl ListOptions {
    /// Only this namespace.
    pub fn in_namespace(namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..Self::default() }
    }

    pub(super) fn raw(&self) -> CallOptions<'_> {
        CallOptions {
            namespace: self.namespace.as_deref(),
            label_selector: self.label_selector.as_deref(),
            field_selector: self.field_selector.as_deref(),
            limit: self.limit,
            continue_token: self.continue_token.as_deref(),
            resource_version: self.resource_version.as_deref().map(|version| (version, self.version_match)),
            ..CallOptions::default()
        }
    }
}

/// Options of `pod_log`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// The container; needed for pods with several.
    pub container: Option<String>,
    /// Only the last lines.
    pub tail_lines: Option<u32>,
    /// The run of the container before this one.
    pub previous: bool,
}

impl LogOptions {
    pub(super) fn raw(&self) -> CallOptions<'_> {
        CallOptions {
            container: self.container.as_deref(),
            tail_lines: self.tail_lines,
            previous: self.previous,
            ..CallOptions::default()
        }
    }
}
