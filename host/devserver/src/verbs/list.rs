//! `list`: at which version, page by page, on one snapshot.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::render::ListMeta;
use super::selection::Selection;
use super::{Answer, Core, Outcome, Rendering, ResourceRequest};
use crate::api::{ApiError, Cause, VersionMatch, list_options_invalid};
use crate::store::{NoState, Query, Snapshot};

/// What a `continue` token says; opaque to clients.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    /// The revision of the list; -1 goes on at the current one.
    rv: i64,
    /// The last key of the page before.
    after: String,
}

impl Token {
    fn encode(&self) -> String {
        // A token is numbers and text.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn decode(text: &str) -> Result<Self, ApiError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        bytes
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .filter(|token: &Self| token.rv == -1 || token.rv > 0)
            .ok_or_else(|| {
                ApiError::bad_request("continue key is not valid: it did not come from this server")
            })
    }
}

/// At which revision a list is made.
enum At {
    Now,
    /// Not before this one.
    Since(u64),
    Exactly(u64),
}

impl Core {
    pub(super) fn list(&self, call: &ResourceRequest) -> Outcome {
        let rendering = Rendering::of(call)?;
        let selection = Selection::of(call)?;
        let token = call.params.filled("continue").map(Token::decode).transpose()?;
        let (at, limit) = options(call, token.as_ref())?;
        let revision = match at {
            At::Now if call.twist.stale_by > 0 => Some(self.past(call.twist)),
            At::Now => None,
            At::Since(wanted) => {
                let current = self.store.revision();
                if wanted > current {
                    return Err(ApiError::too_large_version(wanted, current));
                }
                None
            }
            At::Exactly(revision) => Some(revision),
        };
        let after = token.as_ref().map(|t| t.after.as_str());
        let snapshot = self.select(call, &selection, after, revision, limit).map_err(|no| match no {
            NoState::Future(current) => ApiError::too_large_version(revision.unwrap_or(0), current),
            NoState::Forgotten => too_old(token.as_ref()),
        })?;
        let (objects, metadata) = page(snapshot, limit, selection.is_all());
        Ok(Answer::Whole { code: StatusCode::OK, body: rendering.list(&metadata, &objects)? })
    }

    /// The selected objects; with a limit at least one more than it, if there is one.
    pub(super) fn select(
        &self,
        call: &ResourceRequest,
        selection: &Selection,
        after: Option<&str>,
        revision: Option<u64>,
        limit: usize,
    ) -> Result<Snapshot, NoState> {
        self.store.list(&Query {
            table: &call.resource.storage,
            prefix: &selection.prefix,
            after,
            revision,
            // How many there are beyond a page is told only where nothing selects.
            limit: if limit == 0 || selection.is_all() { 0 } else { limit.saturating_add(1) },
            wanted: &|stored| selection.has_key(stored.object.key().as_str()) && selection.matches(stored),
        })
    }
}

fn page(
    snapshot: Snapshot,
    limit: usize,
    all: bool,
) -> (Vec<std::sync::Arc<crate::store::Stored>>, ListMeta) {
    let Snapshot { revision, mut objects } = snapshot;
    let mut metadata = ListMeta { resource_version: revision.to_string(), ..ListMeta::default() };
    if limit > 0 && objects.len() > limit {
        let remaining = objects.len() - limit;
        objects.truncate(limit);
        let after = objects.last().map(|s| s.object.key().to_string()).unwrap_or_default();
        metadata.next = Some(Token { rv: revision as i64, after }.encode());
        metadata.remaining = all.then_some(remaining);
    }
    (objects, metadata)
}

fn too_old(token: Option<&Token>) -> ApiError {
    let Some(token) = token else {
        return ApiError::expired("The resourceVersion for the provided list is too old.");
    };
    let mut error = ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. Start a new list without it, or go \
         on with the token of this answer for an inconsistent one.",
    );
    error.next = Some(Token { rv: -1, after: token.after.clone() }.encode().into());
    error
}

fn options(call: &ResourceRequest, token: Option<&Token>) -> Result<(At, usize), ApiError> {
    let params = &call.params;
    let limit = params.limit()?;
    let version = params.resource_version()?;
    let matching = params.version_match()?;
    let mut causes = Vec::new();
    if params.get("sendInitialEvents").is_some() {
        causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    if matching.is_some() {
        if version.is_none() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            causes.push(Cause::forbidden("resourceVersionMatch", why));
        }
        if token.is_some() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            causes.push(Cause::forbidden("resourceVersionMatch", why));
        }
        if matching == Some(VersionMatch::Exact) && version == Some(0) {
            let why = "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"";
            causes.push(Cause::forbidden("resourceVersionMatch", why));
        }
    }
    if !causes.is_empty() {
        return Err(list_options_invalid(causes));
    }
    if let Some(token) = token {
        if version.is_some_and(|v| v > 0) {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let at = if token.rv < 0 { At::Now } else { At::Exactly(token.rv.unsigned_abs()) };
        return Ok((at, limit));
    }
    Ok(match (version, matching) {
        (None, _) => (At::Now, limit),
        // From a cache, which a real server does not page.
        (Some(0), _) => (At::Now, 0),
        (Some(version), Some(VersionMatch::Exact)) => (At::Exactly(version), limit),
        (Some(version), None) if limit > 0 => (At::Exactly(version), limit),
        (Some(version), _) => (At::Since(version), limit),
    })
}
