//! Errors as servers and connections make them.

use pilothouse_client::{Error, Status, StatusCause, StatusDetails};

/// A `Status` answer.
#[must_use]
pub fn status(code: u16, reason: &str, message: &str) -> Error {
    Error::Api(Box::new(Status {
        code,
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..Status::default()
    }))
}

/// 410: the version or the continue token is too old.
#[must_use]
pub fn expired() -> Error {
    status(410, "Expired", "too old resource version")
}

/// 403.
#[must_use]
pub fn forbidden() -> Error {
    status(403, "Forbidden", "configmaps is forbidden: cannot list")
}

/// 404: the kind is not served.
#[must_use]
pub fn not_found() -> Error {
    status(404, "NotFound", "the server could not find the requested resource")
}

/// 500.
#[must_use]
pub fn internal() -> Error {
    status(500, "InternalError", "etcdserver: request timed out")
}

/// 429, with the seconds to wait where the server names them.
#[must_use]
pub fn too_many_requests(retry_after_seconds: Option<u64>) -> Error {
    Error::Api(Box::new(Status {
        code: 429,
        reason: "TooManyRequests".to_owned(),
        message: "the server has received too many requests".to_owned(),
        details: Some(StatusDetails { retry_after_seconds, ..StatusDetails::default() }),
        ..Status::default()
    }))
}

/// The three ways in which servers say that a version lies in their future.
#[must_use]
pub fn too_large_dialects() -> [Error; 3] {
    const TEXT: &str = "Too large resource version";
    let timeout = |message: &str, cause: Option<StatusCause>| {
        let details = StatusDetails { causes: cause.into_iter().collect(), ..StatusDetails::default() };
        Error::Api(Box::new(Status {
            code: 504,
            reason: "Timeout".to_owned(),
            message: message.to_owned(),
            details: Some(details),
            ..Status::default()
        }))
    };
    let cause = |reason: &str, message: &str| StatusCause {
        reason: reason.to_owned(),
        message: message.to_owned(),
        field: String::new(),
    };
    [
        timeout("Too large resource version: 9, current: 1", Some(cause("ResourceVersionTooLarge", TEXT))),
        timeout("timeout", Some(cause("", TEXT))),
        timeout(TEXT, None),
    ]
}

/// Nobody listens.
#[must_use]
pub fn connection_refused() -> Error {
    transport("connection refused", true)
}

/// The connection broke.
#[must_use]
pub fn connection_reset() -> Error {
    transport("connection reset by peer", false)
}

fn transport(message: &str, connection_refused: bool) -> Error {
    Error::Transport {
        doing: "GET https://fake/api/v1/configmaps".to_owned(),
        message: message.to_owned(),
        connection_refused,
        timeout: false,
        unsent: connection_refused,
    }
}
