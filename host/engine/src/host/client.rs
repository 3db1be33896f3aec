//! [`ClientImports`]: the host side of the interface `client`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_object::{Gvk, Object, ObjectKey};
use pilothouse_plugin::HOME_CLUSTER;

use super::{CallContext, Refusal};

/// An entry of `details.causes` in a Status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusCause {
    /// Machine-readable; may be empty.
    pub reason: String,
    /// Human-readable; may be empty.
    pub message: String,
    /// The field that it is about; may be empty.
    pub field: String,
}

/// An answer of the API server that is no success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiStatus {
    /// HTTP status code.
    pub code: u16,
    /// `reason` of the Status.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// `details.causes` of the Status.
    pub causes: Vec<StatusCause>,
    /// How long to wait before a retry, if the server asked for it.
    pub retry_after: Option<Duration>,
}

/// The error of a live call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientError {
    /// The host did not send it, or got no response: see [`Refusal`].
    Refused(Refusal),
    /// The API server answered an error.
    Api(ApiStatus),
}

impl ClientError {
    /// The message of the host or of the API server.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Refused(refusal) => &refusal.message,
            Self::Api(status) => &status.message,
        }
    }
}

impl From<Refusal> for ClientError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// How a patch is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Strategic merge patch.
    Strategic,
    /// Server-side apply.
    Apply,
}

/// How dependents of a deleted object are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependents {
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They are kept.
    Orphan,
}

/// Preconditions of a delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallPreconditions {
    /// The UID of the object.
    pub uid: Option<String>,
    /// The resource version of the object.
    pub resource_version: Option<String>,
}

/// How the resource version of a list is to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionMatch {
    /// The list is at exactly that version.
    Exact,
    /// The list is not older.
    NotOlderThan,
}

/// Options of all calls. Each verb refuses those that are not its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// `status`, `scale` or another subresource.
    pub subresource: Option<String>,
    /// Nothing is stored.
    pub dry_run: bool,
    /// Default: the plugin's name.
    pub field_manager: Option<String>,
    /// `Ignore`, `Warn` or `Strict`.
    pub field_validation: Option<String>,
    /// An apply takes fields from other managers.
    pub force: bool,
    /// The object to delete must match them.
    pub preconditions: Option<CallPreconditions>,
    /// How dependents of a deleted object are handled.
    pub propagation: Option<Dependents>,
    /// Seconds until a deleted object is removed.
    pub grace_period_seconds: Option<u32>,
    /// Namespace of a list; `None` is all namespaces.
    pub namespace: Option<String>,
    /// Label selector of a list; empty selects all objects.
    pub label_selector: String,
    /// Field selector of a list; empty selects all objects.
    pub field_selector: String,
    /// Objects of a page; 0 is the host's choice.
    pub limit: u32,
    /// The token of the page before.
    pub continue_token: Option<String>,
    /// The version that a get or a list is to have.
    pub resource_version: Option<String>,
    /// How the version of a list is to be understood.
    pub version_match: Option<VersionMatch>,
    /// The object whose subresource is created.
    pub target: Option<ObjectKey>,
    /// The container whose log is read.
    pub container: Option<String>,
    /// The last lines of a log only.
    pub tail_lines: Option<u32>,
    /// The log of the run before this one.
    pub previous: bool,
}

/// A live call to the API server.
#[derive(Debug)]
pub struct ClientCall {
    /// Number of the cluster in [`ClientImports::clusters`].
    pub cluster: u32,
    /// Kind of the object.
    pub kind: Gvk,
    /// The operation.
    pub verb: ClientVerb,
    /// Options of the operation.
    pub options: CallOptions,
    /// Bytes that the bodies of the answer may have in all: what is left of `limits.handleBytes`, or `limits.answerBytes` for a log.
    pub max_bytes: usize,
    /// The call of the guest that made this live call.
    pub context: CallContext,
}

/// The operation of a live call.
#[derive(Debug)]
pub enum ClientVerb {
    /// Reads one object.
    Get(ObjectKey),
    /// Lists one page.
    List,
    /// Creates an object from this body.
    Create(Vec<u8>),
    /// Replaces an object with this body.
    Update(Vec<u8>),
    /// Patches an object.
    Patch {
        /// The key of the object.
        key: ObjectKey,
        /// How the patch is to be read.
        kind: PatchKind,
        /// The patch.
        body: Vec<u8>,
    },
    /// Deletes an object.
    Delete(ObjectKey),
    /// Deletes the objects that the options select.
    DeleteCollection,
    /// Reads the log of a container of this pod.
    PodLog(ObjectKey),
    /// Asks whether the plugin may make a call.
    May {
        /// The verb of the API.
        verb: String,
        /// The subresource; may be empty.
        subresource: String,
        /// The namespace; empty for a cluster-scoped object or all namespaces.
        namespace: String,
        /// The name; empty for all names.
        name: String,
    },
}

/// The result of a live call.
#[derive(Debug)]
pub enum ClientAnswer {
    /// Result of get, create, update and patch.
    Object(Object),
    /// Result of list.
    Page {
        /// The objects.
        items: Vec<Object>,
        /// Token for the next page; `None` on the last page.
        continue_token: Option<String>,
        /// The resource version of the list.
        resource_version: String,
        /// How many objects follow, if the server says so.
        remaining_items: Option<u64>,
    },
    /// Result of delete, with the object if the server keeps it for now; and of a delete of a collection.
    Deleted(Option<Object>),
    /// A log.
    Log(Vec<u8>),
    /// Whether the plugin may make the call.
    May(bool),
}

/// A running live call.
pub type ClientFuture = Pin<Box<dyn Future<Output = Result<ClientAnswer, ClientError>> + Send>>;

/// Live calls to the API server.
pub trait ClientImports {
    /// Names of the clusters that the plugin accesses, by their numbers: first that of its run. They are the same for the life of
    /// the instance.
    fn clusters(&self) -> Arc<[String]> {
        Arc::from([HOME_CLUSTER.to_owned()])
    }

    /// Checks the plugin's permissions and makes a live call.
    fn client(&self, _call: ClientCall) -> ClientFuture {
        let refusal = Refusal::unavailable("this host has no cluster");
        Box::pin(std::future::ready(Err(refusal.into())))
    }
}
