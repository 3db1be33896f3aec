//! [`RequestInfo`]: what a request asks for and on whose behalf, read from its head; and its body.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;

use super::Served;
use super::impersonation::impersonated;
use crate::api::{ApiError, Params, Path, Target, Timestamp};
use crate::faults::RequestAttributes;
use crate::verbs::{User, verb};

/// The largest body that is taken, as by a real API server.
const BODY_LIMIT: usize = 3 << 20;

/// How long a body may take, as long as a whole request on a real API server.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// A request without its body.
pub(super) struct RequestInfo {
    pub(super) params: Params,
    pub(super) target: RequestTarget,
    pub(super) user: User,
}

/// What a request's path and method mean.
pub(super) enum RequestTarget {
    Objects { verb: &'static str, target: Target },
    Path(Path),
    Nothing(ApiError),
}

impl RequestInfo {
    /// Reads the head of a request; and its entry in the log, without an answer.
    pub(super) fn read(parts: &Parts) -> (Self, Served) {
        let params = Params::parse(parts.uri.query().unwrap_or_default());
        let target = request_target(parts, &params);
        let mut entry = log_entry(parts, &target);
        let user = impersonated(&parts.headers, &mut entry);
        (Self { params, target, user }, entry)
    }

    /// Whether it is about the server's own state: faults, the log, compaction.
    pub(super) fn is_own(&self) -> bool {
        matches!(&self.target, RequestTarget::Path(Path::Other(segments)) if segments[0].starts_with('_'))
    }
}

/// What rules of faults are compared with.
pub(super) fn attributes<'a>(parts: &'a Parts, entry: &'a Served) -> RequestAttributes<'a> {
    RequestAttributes {
        verb: &entry.verb,
        path: parts.uri.path(),
        group: &entry.group,
        resource: &entry.resource,
        subresource: &entry.subresource,
        namespace: &entry.namespace,
        name: &entry.name,
        user: entry.impersonated.as_deref().unwrap_or(&entry.user),
    }
}

fn request_target(parts: &Parts, params: &Params) -> RequestTarget {
    match Path::parse(parts.uri.path()) {
        None => RequestTarget::Nothing(ApiError::no_path()),
        Some(Path::Target(target)) => match verb(&parts.method, &target, params) {
            Some(verb) => RequestTarget::Objects { verb, target },
            None => RequestTarget::Nothing(ApiError::method_not_allowed()),
        },
        Some(path) => RequestTarget::Path(path),
    }
}

fn log_entry(parts: &Parts, target: &RequestTarget) -> Served {
    let header =
        |name| parts.headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok()).unwrap_or_default();
    let mut entry = Served {
        time: Timestamp::now().0.to_string(),
        verb: parts.method.as_str().to_ascii_lowercase(),
        uri: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        user_agent: header(USER_AGENT).to_owned(),
        ..Served::default()
    };
    if let RequestTarget::Objects { verb, target } = target {
        let target = target.clone();
        entry.verb = (*verb).to_owned();
        entry.group = target.group;
        entry.resource = target.resource;
        entry.subresource = target.subresource.unwrap_or_default();
        entry.namespace = target.namespace.unwrap_or_default();
        entry.name = target.name.unwrap_or_default();
    }
    entry
}

/// The whole body.
pub(super) async fn read_body(body: Incoming) -> Result<Bytes, ApiError> {
    match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, BODY_LIMIT).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {BODY_LIMIT}"),
        )),
        Ok(Err(error)) => Err(ApiError::bad_request(format!("the body could not be read: {error}"))),
        Err(_) => Err(ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "Timeout",
            format!("the body of the request did not come within {BODY_TIMEOUT:?}"),
        )),
    }
}

/// `Content-Type` without parameters.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}
