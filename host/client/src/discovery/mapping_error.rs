//! [`MappingError`]: why a kind or a resource could not be found, told apart as far as a remedy differs.

use pilothouse_object::Gvr;

use crate::documents::FailedGroup;
use crate::error::Error;

/// Why a [`RestMapper`](super::RestMapper) found nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum MappingError {
    /// The server has nothing of that name, as far as it could be asked.
    #[error("the server does not serve {wanted}{}", could_be_in(failed))]
    NoMatch {
        /// What was looked for.
        wanted: String,
        /// Groups that could not be asked and might have it.
        failed: Vec<FailedGroup>,
    },
    /// The group that should have it cannot be asked.
    #[error("{wanted} cannot be looked up: {failed}")]
    Unavailable {
        /// What was looked for.
        wanted: String,
        /// The group, and why.
        failed: Box<FailedGroup>,
    },
    /// Several in the same group version have that name.
    #[error("{wanted} could be {}; name one of them", list(candidates))]
    Ambiguous {
        /// What was looked for.
        wanted: String,
        /// What it could be.
        candidates: Vec<Gvr>,
    },
    /// The server could not be asked at all.
    #[error("{0}")]
    Client(#[from] Error),
}

impl MappingError {
    /// Whether the server was asked and has nothing of that name.
    #[must_use]
    pub fn is_no_match(&self) -> bool {
        matches!(self, Self::NoMatch { .. })
    }
}

fn could_be_in(failed: &[FailedGroup]) -> String {
    if failed.is_empty() {
        return String::new();
    }
    let failed: Vec<String> = failed.iter().map(ToString::to_string).collect();
    format!(", but these groups could not be asked: {}", failed.join("; "))
}

fn list(candidates: &[Gvr]) -> String {
    let name = |c: &Gvr| format!("{}.{}.{}", c.resource, c.version, c.group);
    candidates.iter().map(name).collect::<Vec<_>>().join(" or ")
}
