//! [`ClientImports`]: the interface `client`.

use std::future::Future;
use std::pin::Pin;

use pilothouse_object::{Gvk, Object, ObjectKey};

use super::CallContext;

/// A live call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status code; 0 when there was no answer.
    pub code: u16,
    /// The API's reason, or the host's own: `forbidden`, `invalid`, `unavailable`.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Seconds that the server asks to wait.
    pub retry_after_seconds: Option<u32>,
}

/// A live call.
#[derive(Debug)]
pub struct ClientCall {
    /// Kind of the object.
    pub kind: Gvk,
    /// What to do.
    pub verb: ClientVerb,
    /// Options as JSON; empty stands for `{}`.
    pub options: String,
    /// The call during which this one is made.
    pub context: CallContext,
}

/// What a live call does.
#[derive(Debug)]
pub enum ClientVerb {
    /// Reads one object.
    Get(ObjectKey),
    /// Lists one page.
    List,
    /// Creates the object of this body.
    Create(Vec<u8>),
    /// Replaces the object of this body.
    Update(Vec<u8>),
    /// Patches an object.
    Patch {
        /// The object.
        key: ObjectKey,
        /// `json`, `merge`, `strategic` or `apply`.
        patch_type: String,
        /// The patch.
        body: Vec<u8>,
    },
    /// Deletes an object.
    Delete(ObjectKey),
}

/// Answer of a live call.
#[derive(Debug)]
pub enum ClientAnswer {
    /// Of get, create, update and patch.
    Object(Object),
    /// Of list.
    Page {
        /// The objects.
        items: Vec<Object>,
        /// Token for the next page.
        continue_token: Option<String>,
        /// The version shown.
        resource_version: String,
    },
    /// Of delete.
    Deleted,
}

/// A live call under way.
pub type ClientFuture = Pin<Box<dyn Future<Output = Result<ClientAnswer, ApiError>> + Send>>;

/// Calls of the API server.
pub trait ClientImports {
    /// Makes a live call, after checking the plugin's permissions.
    fn client(&self, _call: ClientCall) -> ClientFuture {
        let message = "this host has no cluster".to_owned();
        let error =
            ApiError { code: 0, reason: "unavailable".to_owned(), message, retry_after_seconds: None };
        Box::pin(std::future::ready(Err(error)))
    }
}
