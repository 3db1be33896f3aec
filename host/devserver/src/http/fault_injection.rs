//! What faults do to a request before its answer, and to the answer; those of watches are [`super::faulty_watch`]'s.

use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt as _, Collected};

use super::Service;
use super::answer::{self, Body};
use super::control::{Control, Mode};
use crate::api::ApiError;
use crate::faults::{Fault, Hit};

/// What came of the faults that strike before an answer.
pub(super) enum FaultOutcome {
    No,
    Answer(ApiError),
    /// There will be no answer; the connection sees to it.
    Never,
}

impl Service {
    /// Does what a fault does before there is an answer.
    pub(super) async fn before_answer(&self, hits: &[Hit], control: &Control) -> FaultOutcome {
        for hit in hits {
            match &hit.fault {
                Fault::Delay { milliseconds } => {
                    tokio::time::sleep(Duration::from_millis(*milliseconds)).await;
                }
                Fault::Status { code, retry_after } => {
                    return FaultOutcome::Answer(fault_error(*code, *retry_after));
                }
                Fault::Gone { after: None } => {
                    return FaultOutcome::Answer(ApiError::expired("too old resource version (fault)"));
                }
                Fault::TooLargeVersion => {
                    let current = self.core.store.revision();
                    return FaultOutcome::Answer(ApiError::too_large_version(current + 1, current));
                }
                Fault::Reset => {
                    control.set(Mode::Reset);
                    return FaultOutcome::Never;
                }
                Fault::HalfOpen => {
                    control.set(Mode::Dead);
                    return FaultOutcome::Never;
                }
                _ => {}
            }
        }
        FaultOutcome::No
    }
}

/// The error that a real server sends with a code.
fn fault_error(code: u16, retry_after: Option<u64>) -> ApiError {
    let status = StatusCode::from_u16(code).ok().filter(|c| c.is_client_error() || c.is_server_error());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let (reason, message) = match status.as_u16() {
        401 => ("Unauthorized", "Unauthorized"),
        403 => ("Forbidden", "access to this is forbidden (fault)"),
        404 => ("NotFound", "the server could not find the requested resource"),
        409 => ("Conflict", "the object has been modified (fault)"),
        410 => ("Expired", "too old resource version (fault)"),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        500 => ("InternalError", "an error on the server has prevented the request from succeeding (fault)"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => ("Timeout", "the server was unable to return a response in the time allotted (fault)"),
        _ => ("", "this response is an injected fault"),
    };
    ApiError { retry_after, ..ApiError::new(status, reason, message) }.about(crate::api::About::default())
}

/// By how many revisions a fault makes a read stale.
pub(super) fn stale_by(hits: &[Hit]) -> u64 {
    hits.iter().find_map(|hit| if let Fault::Stale { by } = hit.fault { Some(by) } else { None }).unwrap_or(0)
}

/// Does what a fault does to an answer that is there.
pub(super) async fn after_answer(
    response: Response<Body>,
    is_watch: bool,
    hits: &[Hit],
    control: &Arc<Control>,
) -> Response<Body> {
    let mut response = response;
    for hit in hits {
        match &hit.fault {
            Fault::ContentType { value } => {
                let value = HeaderValue::from_str(value).unwrap_or(HeaderValue::from_static("text/html"));
                response.headers_mut().insert(CONTENT_TYPE, value);
            }
            Fault::Truncate | Fault::Tear { .. } if !is_watch => {
                let (parts, body) = response.into_parts();
                // A whole body is in memory.
                let bytes = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
                let half = bytes.slice(..bytes.len() / 2);
                let content_type =
                    parts.headers.get(CONTENT_TYPE).and_then(|t| t.to_str().ok()).unwrap_or_default();
                response = match hit.fault {
                    Fault::Truncate => answer::whole(parts.status, content_type, half),
                    _ => answer::torn(parts.status, content_type, half, control.clone()),
                };
            }
            _ => {}
        }
    }
    response
}
