//! [`CacheError`]: what callers of the cache can do wrong. Faults of the server are no errors here: the reflector
//! deals with them and shows them in its status.

/// What a call on the cache can be refused for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// An index of that name exists.
    #[error("index {0:?} exists already: choose another name, or remove the present one first")]
    IndexExists(String),
    /// No index of that name exists.
    #[error("no index {name:?}; there are {}", list(have))]
    UnknownIndex {
        /// The name asked for.
        name: String,
        /// The names that exist.
        have: Vec<String>,
    },
    /// The index is still being filled by the call that adds it.
    #[error("index {0:?} is being built: ask again when `add_indexer` has returned")]
    IndexBuilding(String),
    /// The informer has ended, or its factory was shut down.
    #[error("the informer of {0} has stopped: lease a new one from the factory")]
    Stopped(String),
    /// A listener called back into the informer that was calling it.
    #[error("listeners of {0} cannot be added from inside a listener's call: do it from another task")]
    Reentrant(String),
    /// The queue was closed.
    #[error("the queue is closed")]
    Closed,
    /// There is no object of that key.
    #[error("{0} not found")]
    NotFound(String),
    /// An object is not of the Rust type that was asked for.
    #[error("{kind} {key} does not decode: {message}")]
    Decode {
        /// Its kind.
        kind: String,
        /// Its key.
        key: String,
        /// What the decoder says.
        message: String,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
