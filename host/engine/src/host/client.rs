//! [`ClientImports`]: the host side of the interface `client`.

use std::future::Future;
use std::pin::Pin;

use pilothouse_object::{Gvk, Object, ObjectKey};

use super::CallContext;

/// The error of a live call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status code; 0 when there was no response.
    pub code: u16,
    /// The reason in the API server's response, or one of the host's: `forbidden`, `invalid`, `unavailable`.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// Number of seconds to wait before a retry, if the server asked for it.
    pub retry_after_seconds: Option<u32>,
}

/// A live call to the API server.
#[derive(Debug)]
pub struct ClientCall {
    /// Kind of the object.
    pub kind: Gvk,
    /// The operation.
    pub verb: ClientVerb,
    /// Options as JSON; an empty text is equivalent to `{}`.
    pub options: String,
    /// Bytes that the bodies of the answer may have in all: what is left of `limits.handleBytes`.
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
        /// `json`, `merge`, `strategic` or `apply`.
        patch_type: String,
        /// The patch.
        body: Vec<u8>,
    },
    /// Deletes an object.
    Delete(ObjectKey),
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
    },
    /// Result of delete.
    Deleted,
}

/// A running live call.
pub type ClientFuture = Pin<Box<dyn Future<Output = Result<ClientAnswer, ApiError>> + Send>>;

/// Live calls to the API server.
pub trait ClientImports {
    /// Checks the plugin's permissions and makes a live call.
    fn client(&self, _call: ClientCall) -> ClientFuture {
        let message = "this host has no cluster".to_owned();
        let error =
            ApiError { code: 0, reason: "unavailable".to_owned(), message, retry_after_seconds: None };
        Box::pin(std::future::ready(Err(error)))
    }
}
