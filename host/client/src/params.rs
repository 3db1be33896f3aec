//! What calls take and give: resources, list and watch parameters, write options, patches, watch events.

use std::time::Duration;

use pilothouse_object::{Gvk, Gvr, Object};

/// A resource as discovery describes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ApiResource {
    /// Kind of its objects.
    pub gvk: Gvk,
    /// Plural name, as `pods`.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Verbs that the server serves.
    pub verbs: Vec<String>,
    /// Subresources that the server serves, as `status`.
    pub subresources: Vec<String>,
    /// Singular name, as `pod`.
    pub singular: String,
    /// Short names, as `po`.
    pub short_names: Vec<String>,
    /// Categories that it belongs to, as `all`.
    pub categories: Vec<String>,
    /// Changes when the version that its objects are stored in does; empty when the server does not tell, as in the
    /// aggregated form of discovery.
    pub storage_version_hash: String,
}

impl ApiResource {
    /// A resource of which no more is known than how to reach it.
    #[must_use]
    pub fn new(gvk: Gvk, plural: &str, namespaced: bool) -> Self {
        Self {
            singular: gvk.kind.to_lowercase(),
            gvk,
            plural: plural.to_owned(),
            namespaced,
            verbs: Vec::new(),
            subresources: Vec::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
            storage_version_hash: String::new(),
        }
    }

    /// Group, version and plural name.
    #[must_use]
    pub fn gvr(&self) -> Gvr {
        self.gvk.with_resource(&self.plural)
    }
}

/// How a list's `resource_version` is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    /// Data at least as new.
    NotOlderThan,
    /// Data at exactly that version.
    Exact,
}

/// Parameters of one list request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListParams {
    /// Label selector in the API's text form; empty selects all.
    pub label_selector: String,
    /// Field selector in the API's text form; empty selects all.
    pub field_selector: String,
    /// `None`: the newest state (quorum read); `"0"`: whatever the watch cache has.
    pub resource_version: Option<String>,
    /// Meaning of `resource_version`; `None` leaves it to the server.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// Items in a page; 0 asks for no limit.
    pub limit: u32,
    /// Token of the page before.
    pub continue_token: Option<String>,
    /// Ask for the metadata of the objects only: they come as `PartialObjectMetadata`, or whole from servers that
    /// cannot do it.
    pub metadata_only: bool,
}

/// Parameters of one watch request. Bookmarks are always asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchParams {
    /// Label selector in the API's text form; empty selects all.
    pub label_selector: String,
    /// Field selector in the API's text form; empty selects all.
    pub field_selector: String,
    /// Version to go on from.
    pub resource_version: Option<String>,
    /// After how many seconds the server ends the watch.
    pub timeout_seconds: Option<u32>,
    /// Streaming list: begin with the present objects, then a bookmark.
    pub send_initial_events: bool,
    /// As [`ListParams::metadata_only`].
    pub metadata_only: bool,
    /// How long a watch may be without a byte once a bookmark has come, which servers send about every minute; then it ends with
    /// [`Error::Transport`](crate::Error::Transport). It is not sent to the server. `None`: without limit.
    pub bookmark_age: Option<Duration>,
}

impl WatchParams {
    /// [`bookmark_age`](Self::bookmark_age) unless another is named: five bookmarks that did not come.
    pub const BOOKMARK_AGE: Duration = Duration::from_secs(300);
}

impl Default for WatchParams {
    fn default() -> Self {
        Self {
            label_selector: String::new(),
            field_selector: String::new(),
            resource_version: None,
            timeout_seconds: None,
            send_initial_events: false,
            metadata_only: false,
            bookmark_age: Some(Self::BOOKMARK_AGE),
        }
    }
}

/// One event of a watch. `ERROR` frames arrive as the stream's error.
#[derive(Debug, Clone)]
pub enum WatchEvent<T = Object> {
    /// The object came into view.
    Added(T),
    /// The object changed.
    Modified(T),
    /// The object is gone or left the selector; its last state.
    Deleted(T),
    /// Everything up to this version has been sent.
    Bookmark {
        /// The version.
        resource_version: String,
        /// Whether this ends the initial events of a streaming list.
        initial_events_end: bool,
    },
}

/// Options of create, update and patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteParams {
    /// Subresource, as `status`.
    pub subresource: Option<String>,
    /// Field manager; `None` takes the client's own.
    pub field_manager: Option<String>,
    /// Check and answer, but keep nothing.
    pub dry_run: bool,
    /// `Strict`, `Warn` or `Ignore`; `None` leaves it to the server.
    pub field_validation: Option<String>,
}

/// A patch and its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patch<'a> {
    /// RFC 6902.
    Json(&'a [u8]),
    /// RFC 7386.
    Merge(&'a [u8]),
    /// The API's own merge, for built-in kinds.
    Strategic(&'a [u8]),
    /// Server-side apply.
    Apply {
        /// The configuration, JSON (or YAML).
        body: &'a [u8],
        /// Take fields over from other managers.
        force: bool,
    },
}

/// What the body of a patch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// The API's own merge, for built-in kinds.
    Strategic,
    /// Server-side apply; needs a field manager.
    Apply,
}

impl PatchKind {
    /// Its media type.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// Conditions of a delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The object's UID.
    pub uid: Option<String>,
    /// The object's resource version.
    pub resource_version: Option<String>,
}

/// How the dependents of an object are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They stay.
    Orphan,
    /// They go later.
    Background,
    /// They go first.
    Foreground,
}

/// Options of delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteParams {
    /// Preconditions; a mismatch is a conflict.
    pub preconditions: Preconditions,
    /// Dependents; `None` leaves it to the server.
    pub propagation: Option<Propagation>,
    /// Seconds of grace; `None` leaves it to the kind.
    pub grace_period_seconds: Option<u32>,
    /// Check and answer, but delete nothing.
    pub dry_run: bool,
}
