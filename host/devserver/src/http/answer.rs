//! Answers as HTTP responses.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use serde_json::Value;

use super::control::{Control, Mode};
use super::faulty_watch::{FaultyWatch, WatchOutput};
use crate::api::{ApiError, Warnings};

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// How long the first half of something torn has to arrive before the connection is reset: a reset overtakes what is under
/// way.
const BEFORE_RESET: Duration = Duration::from_millis(100);

pub(super) fn whole(code: StatusCode, content_type: &str, body: Bytes) -> Response<Body> {
    with_body(code, content_type, full(body))
}

fn full(body: Bytes) -> Body {
    Full::new(body).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// An answer that has its headers already.
pub(super) fn bytes(answer: Response<Bytes>) -> Response<Body> {
    answer.map(full)
}

pub(super) fn json(code: StatusCode, value: &Value) -> Response<Body> {
    whole(code, "application/json", value.to_string().into())
}

pub(super) fn error(error: &ApiError) -> Response<Body> {
    if error.is_text() {
        return whole(error.code, "text/plain; charset=utf-8", error.message.clone().into());
    }
    let mut response = json(error.code, &error.status());
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The response with a header for each warning; failures carry them too.
pub(super) fn with_warnings(mut response: Response<Body>, warnings: &Warnings) -> Response<Body> {
    for value in warnings.headers() {
        response.headers_mut().append(WARNING, value);
    }
    response
}

pub(super) fn watch(watch: FaultyWatch, content_type: &str, control: Arc<Control>) -> Response<Body> {
    let lines = stream::unfold((watch, control), |(mut watch, control)| async {
        let line = match watch.next().await? {
            WatchOutput::Line(line) => line,
            WatchOutput::Torn(half) => {
                tokio::spawn(tear_behind(control.clone()));
                half
            }
            WatchOutput::Hang => std::future::pending().await,
        };
        Some((Ok(Frame::data(line)), (watch, control)))
    });
    with_body(StatusCode::OK, content_type, StreamBody::new(lines).boxed_unsync())
}

/// The first half of a body, and then a reset.
pub(super) fn torn(
    code: StatusCode,
    content_type: &str,
    half: Bytes,
    control: Arc<Control>,
) -> Response<Body> {
    let frames = stream::unfold((Some(half), control), |(half, control)| async {
        let Some(half) = half else { return std::future::pending().await };
        tokio::spawn(tear_behind(control.clone()));
        Some((Ok(Frame::data(half)), (None, control)))
    });
    with_body(code, content_type, StreamBody::new(frames).boxed_unsync())
}

async fn tear_behind(control: Arc<Control>) {
    tokio::time::sleep(BEFORE_RESET).await;
    control.set(Mode::Reset);
}

fn with_body(code: StatusCode, content_type: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    // A fault may name any type, also one that no header can carry.
    let value = HeaderValue::from_str(content_type).unwrap_or(HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CONTENT_TYPE, value);
    response
}
