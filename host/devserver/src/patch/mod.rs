//! What a PATCH makes of an object: JSON patch, JSON merge patch and strategic merge patch.
//!
//! Pure functions over JSON. Where the server's libraries deviate from the RFCs, so does this: the object a client
//! gets back, and whether it gets an error, are what the real server gives. What becomes of the result (unknown
//! fields, nulls in fields that cannot hold one, defaults) is the business of the caller, as on the real server.
//!
//! Recursion is no deeper than the deeper of the two documents, and `serde_json` reads at most 128 levels; only a
//! JSON patch could build something deeper, and [`json`] refuses to. Called by the patch verb.

mod json;
mod merge;
mod order;
mod strategic;

use serde_json::Value;

use crate::schema::Type;

/// The kinds of patches, by their content types; server-side apply is not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// `application/json-patch+json`, RFC 6902.
    Json,
    /// `application/merge-patch+json`, RFC 7386.
    Merge,
    /// `application/strategic-merge-patch+json`.
    Strategic,
}

/// Why a patch was not applied; each variant is another status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// The patch itself is wrong, whatever the object: 400, BadRequest.
    #[error("error decoding patch: {0}")]
    Malformed(String),
    /// A JSON patch with too many operations: 413, RequestEntityTooLarge.
    #[error("a JSON patch may hold {allowed} operations, this one holds {got}", allowed = json::MAX_OPERATIONS)]
    TooManyOperations {
        /// How many came.
        got: usize,
    },
    /// The patch does not fit this object: 422, Invalid. The real server gives a general message and not this one.
    #[error("the patch does not apply: {0}")]
    DoesNotApply(String),
    /// A strategic patch names an element of a list without what identifies it: 500, without a reason.
    #[error("map: {element} does not contain declared merge key: {key}")]
    MissingMergeKey {
        /// The element, as Go shows it.
        element: String,
        /// The member that is missing.
        key: String,
    },
    /// A strategic patch that contradicts itself or the type of the object: 500, without a reason.
    #[error("{0}")]
    Conflicting(String),
    /// A strategic patch for a kind whose type is unknown, which is every custom resource: 415, UnsupportedMediaType.
    #[error("a strategic merge patch needs a built-in kind")]
    Unsupported,
}

/// The object as the patch leaves it.
pub(crate) fn apply(
    kind: PatchKind,
    patch: &Value,
    current: &Value,
    schema: Option<&Type>,
) -> Result<Value, PatchError> {
    match kind {
        PatchKind::Json => json::apply(patch, current),
        PatchKind::Merge => merge::apply(patch, current),
        PatchKind::Strategic => strategic::apply(patch, current, schema.ok_or(PatchError::Unsupported)?),
    }
}

#[cfg(test)]
mod tests;
