//! [`GuestHost`]: what a guest's imports reach. The manager implements it, one value for each generation of a plugin, and
//! decides there what the plugin may see and do; this crate only carries calls across the boundary.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_object::{Gvk, Object, ObjectKey};

use crate::http::HttpClient;

/// The call during which an import was used, for logs.
#[derive(Debug, Clone, Default)]
pub struct CallContext {
    /// Key of the running reconcile or event.
    pub key: Option<ObjectKey>,
    /// Number of the call, unique in this process; 0 outside of calls.
    pub call_id: u64,
}

/// How important a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For following single steps.
    Trace,
    /// For developers.
    Debug,
    /// What happened.
    Info,
    /// Something is odd.
    Warn,
    /// Something failed.
    Error,
}

/// A cached read or an event that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A word for programs: `forbidden`, `invalid`; of reads also `not-watched` and `unknown-index`, of events `over-quota` and
    /// `unavailable`.
    pub reason: &'static str,
    /// What is missing and how to get it.
    pub message: String,
}

/// A Kubernetes Event that a guest records, as it came.
#[derive(Debug)]
pub struct GuestEvent {
    /// What it is about.
    pub regarding: EventTarget,
    /// Another object that has to do with it.
    pub related: Option<EventTarget>,
    /// `Normal` or `Warning`.
    pub event_type: String,
    /// Why, for programs.
    pub reason: String,
    /// What was done; may be empty.
    pub action: String,
    /// For people.
    pub note: String,
    /// Options as JSON; empty stands for `{}`.
    pub options: String,
}

/// What an event is about.
#[derive(Debug)]
pub enum EventTarget {
    /// An object of the host.
    Object(Object),
    /// What the guest knows of an object.
    Reference {
        /// Its kind.
        kind: Gvk,
        /// Its key.
        key: ObjectKey,
        /// Its UID; empty when it is not known.
        uid: String,
        /// Its version; empty when it is not known.
        resource_version: String,
    },
}

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

/// Objects of one moment, in no order, taken in portions as the guest asks for them.
pub trait ObjectCursor: Iterator<Item = Object> + Send {
    /// How many follow, exactly. May look at what follows, but must not read bodies.
    fn remaining(&self) -> usize;
}

impl ObjectCursor for std::vec::IntoIter<Object> {
    fn remaining(&self) -> usize {
        self.len()
    }
}

/// A wait under way; whether what was waited for came about.
pub type WaitFuture = Pin<Box<dyn Future<Output = bool> + Send>>;

/// What a guest's imports reach. Calls must not block; those that wait answer with a future.
pub trait GuestHost: Send + Sync + 'static {
    /// The configuration as JSON.
    fn config(&self) -> Arc<[u8]>;

    /// Whether lines of this level are kept.
    fn log_enabled(&self, level: LogLevel) -> bool;
    /// Writes a line.
    fn log(&self, context: &CallContext, level: LogLevel, message: &str, fields: &[(String, String)]);

    /// One object from the cache.
    ///
    /// # Errors
    /// When the plugin may not read it.
    fn cache_get(&self, kind: &Gvk, key: &ObjectKey) -> Result<Option<Object>, Refusal>;
    /// Objects from the cache, all of the same moment; `query` is JSON.
    ///
    /// # Errors
    /// When the plugin may not read them or the query is malformed.
    fn cache_list(&self, kind: &Gvk, query: &str) -> Result<Box<dyn ObjectCursor>, Refusal>;
    /// Objects with a value in an index, all of the same moment.
    ///
    /// # Errors
    /// When the plugin may not read them or has no such index.
    fn cache_by_index(&self, kind: &Gvk, index: &str, value: &str) -> Result<Box<dyn ObjectCursor>, Refusal>;
    /// Values of an index.
    ///
    /// # Errors
    /// When the plugin may not read them or has no such index.
    fn cache_index_values(&self, kind: &Gvk, index: &str) -> Result<Vec<String>, Refusal>;
    /// Waits until the caches show what the plugin has written, for `limit` at most.
    fn cache_wait_for_writes(&self, limit: Duration) -> WaitFuture;

    /// Makes a live call, after checking the plugin's permissions.
    fn client(&self, call: ClientCall) -> ClientFuture;

    /// Records an event as the plugin; a host without events refuses it.
    ///
    /// # Errors
    /// When the plugin may not record it, it is malformed, or there are too many.
    fn record_event(&self, _context: &CallContext, _event: GuestEvent) -> Result<(), Refusal> {
        Err(Refusal { reason: "unavailable", message: "this host records no events".to_owned() })
    }

    /// What the plugin sends HTTP requests with, and what it may reach; without it every request is denied.
    fn http(&self) -> Option<HttpClient> {
        None
    }

    /// Is told that the guest was denied something here, which it has no grant for.
    fn denied(&self, _what: &str) {}

    /// Whether the plugin may put the key into its queue.
    ///
    /// # Errors
    /// Why not, for people, when the queue holds as many others as it may.
    fn queue_room(&self, key: &ObjectKey) -> Result<(), String>;
    /// Adds a key to the plugin's queue.
    fn queue_add(&self, key: ObjectKey);
    /// Adds a key after a delay.
    fn queue_add_after(&self, key: ObjectKey, delay: Duration);
    /// Adds a key after the rate limiter's delay.
    fn queue_add_rate_limited(&self, key: ObjectKey);
    /// Forgets a key's failures.
    fn queue_forget(&self, key: &ObjectKey);
    /// Failures of a key.
    fn queue_num_requeues(&self, key: &ObjectKey) -> u32;
    /// Keys that wait.
    fn queue_len(&self) -> usize;
}
