//! [`ApiError`]: an answer that is no success, as the `Status` object that clients of Kubernetes read.
//!
//! The reasons, codes and the form of the messages are those of the API: clients decide by `reason`, and people know the
//! sentences.

use std::collections::HashSet;

use http::StatusCode;
use serde_json::{Map, Value, json};

/// All that a server says of a path that it does not know.
const NO_PAGE: &str = "404 page not found\n";

/// What a failure is about, for the `details` of its Status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) group: String,
    /// The resource (`pods`), or for validation the kind (`Pod`): so does the API.
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl About {
    pub(crate) fn new(group: &str, kind: &str, name: &str) -> Self {
        Self { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
    }

    /// `pods`, `deployments.apps`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }
}

/// One of the causes of an invalid object or of a conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    /// `FieldValueInvalid`, `FieldValueRequired` …
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) field: String,
}

impl Cause {
    pub(crate) fn invalid(field: &str, value: &str, detail: &str) -> Self {
        let message = format!("Invalid value: {}: {detail}", Value::from(value));
        Self { reason: "FieldValueInvalid", message, field: field.to_owned() }
    }

    pub(crate) fn required(field: &str, detail: &str) -> Self {
        let colon = if detail.is_empty() { "" } else { ": " };
        let message = format!("Required value{colon}{detail}");
        Self { reason: "FieldValueRequired", message, field: field.to_owned() }
    }

    pub(crate) fn forbidden(field: &str, detail: &str) -> Self {
        Self {
            reason: "FieldValueForbidden",
            message: format!("Forbidden: {detail}"),
            field: field.to_owned(),
        }
    }

    pub(crate) fn not_supported(field: &str, value: &str, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|s| Value::from(*s).to_string()).collect();
        let message =
            format!("Unsupported value: {}: supported values: {}", Value::from(value), supported.join(", "));
        Self { reason: "FieldValueNotSupported", message, field: field.to_owned() }
    }
}

/// The reason of an error about an object that is there already.
pub(crate) const ALREADY_EXISTS: &str = "AlreadyExists";

/// A failure, as it goes to the client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) code: StatusCode,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Boxed, as [`ApiError::next`] is short: errors are returned everywhere and should be small.
    pub(crate) about: Option<Box<About>>,
    pub(crate) causes: Vec<Cause>,
    /// Seconds after which to try again, in the details and as a header.
    pub(crate) retry_after: Option<u64>,
    /// With what a list can go on that cannot go on at its version.
    pub(crate) next: Option<Box<str>>,
}

impl ApiError {
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            about: None,
            causes: Vec::new(),
            retry_after: None,
            next: None,
        }
    }

    pub(crate) fn about(mut self, about: About) -> Self {
        self.about = Some(Box::new(about));
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(crate) fn not_found(about: About) -> Self {
        let message = format!("{} {:?} not found", about.qualified(), about.name);
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(about)
    }

    /// No such path.
    pub(crate) fn no_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
            .about(About::default())
    }

    /// No such page: neither an object nor discovery, or a group that nobody serves. It is no Status, so client-go names the
    /// request in its own message.
    pub(crate) fn no_page() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", NO_PAGE)
    }

    /// Whether it is a line of text and no Status.
    pub(crate) fn is_text(&self) -> bool {
        self.message == NO_PAGE
    }

    pub(crate) fn already_exists(about: About) -> Self {
        let message = format!("{} {:?} already exists", about.qualified(), about.name);
        Self::new(StatusCode::CONFLICT, ALREADY_EXISTS, message).about(about)
    }

    pub(crate) fn conflict(about: About, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {:?}: {why}", about.qualified(), about.name);
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(about)
    }

    /// An update with a resource version that is not the current one.
    pub(crate) fn stale(about: About) -> Self {
        Self::conflict(
            about,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn forbidden(about: About, why: &str) -> Self {
        let message = format!("{} {:?} is forbidden: {why}", about.qualified(), about.name);
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(about)
    }

    /// An object that breaks the rules; `about` names the kind here, not the resource.
    pub(crate) fn invalid(about: About, causes: Vec<Cause>) -> Self {
        let mut texts: Vec<String> =
            causes
                .iter()
                .map(|c| {
                    if c.field.is_empty() { c.message.clone() } else { format!("{}: {}", c.field, c.message) }
                })
                .collect();
        // The message says once what there is several times.
        let mut said = HashSet::new();
        texts.retain(|text| said.insert(text.clone()));
        let list = if let [one] = &texts[..] { one.clone() } else { format!("[{}]", texts.join(", ")) };
        let message = format!("{} {:?} is invalid: {list}", about.qualified(), about.name);
        Self { causes, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).about(about) }
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .about(About::default())
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    pub(crate) fn not_acceptable(offered: &str) -> Self {
        let message = format!("only the following media types are accepted: {offered}");
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// The resource version is no longer known.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// The resource version is not reached yet.
    pub(crate) fn too_large_version(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let cause = Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        Self {
            causes: vec![cause],
            retry_after: Some(1),
            ..Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message).about(About::default())
        }
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// The `Status` object.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code.as_u16(),
        });
        if let Some(next) = &self.next {
            status["metadata"]["continue"] = (&**next).into();
        }
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(about) = &self.about {
            let mut details = Map::new();
            for (field, text) in [("name", &about.name), ("group", &about.group), ("kind", &about.kind)] {
                if !text.is_empty() {
                    details.insert(field.to_owned(), text.as_str().into());
                }
            }
            if !self.causes.is_empty() {
                details.insert("causes".to_owned(), self.causes.iter().map(cause_json).collect());
            }
            if let Some(seconds) = self.retry_after {
                details.insert("retryAfterSeconds".to_owned(), seconds.into());
            }
            status["details"] = details.into();
        }
        status
    }
}

fn cause_json(cause: &Cause) -> Value {
    let mut json = json!({"reason": cause.reason, "message": cause.message});
    if !cause.field.is_empty() {
        json["field"] = cause.field.as_str().into();
    }
    json
}
