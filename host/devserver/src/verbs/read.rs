//! `get`.

use http::StatusCode;

use super::watch::unreadable;
use super::{Answer, Core, Outcome, Rendering, ResourceRequest};
use crate::api::ApiError;
use crate::store::{Query, Stored};

/// What a fault does to reads: they answer from the past.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ListTwist {
    /// How many revisions ago.
    pub(crate) stale_by: u64,
}

impl Core {
    pub(super) fn get(&self, call: &ResourceRequest) -> Outcome {
        let wanted = call.params.resource_version().map_err(unreadable)?.unwrap_or(0);
        let current = self.store.revision();
        if wanted > current {
            return Err(ApiError::too_large_version(wanted, current));
        }
        let stored = if call.twist.stale_by > 0 {
            self.get_stale(call)?
        } else {
            self.store
                .get(&call.resource.storage, &call.key())
                .ok_or_else(|| ApiError::not_found(call.about()))?
        };
        let body = Rendering::of(call)?.object(&stored);
        Ok(Answer::Whole { code: StatusCode::OK, body })
    }

    /// The size of the object that a request names; 0 if it is not there.
    pub(crate) fn size_of(&self, call: &ResourceRequest) -> usize {
        self.store.get(&call.resource.storage, &call.key()).map_or(0, |stored| stored.size())
    }

    fn get_stale(&self, call: &ResourceRequest) -> Result<std::sync::Arc<Stored>, ApiError> {
        let key = call.key();
        let query = Query {
            table: &call.resource.storage,
            prefix: &key,
            after: None,
            revision: Some(self.past(call.twist)),
            limit: 1,
            wanted: &|stored| stored.object.key().as_str() == key,
        };
        let found = self.store.list(&query).map_err(|_| ApiError::expired("the past is forgotten"))?;
        found.objects.into_iter().next().ok_or_else(|| ApiError::not_found(call.about()))
    }

    /// The revision from which a stale read answers.
    pub(super) fn past(&self, twist: ListTwist) -> u64 {
        self.store.revision().saturating_sub(twist.stale_by).max(1)
    }
}
