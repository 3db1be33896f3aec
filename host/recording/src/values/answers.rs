//! Answers of the host as JSON, and back.

use std::time::Duration;

use bytes::Bytes;
use pilothouse_engine::{
    ApiStatus, ClientAnswer, ClientError, HttpFailure, HttpResponse, HttpResponseHead, Listed, Refusal,
    RefusalReason, StatusCause,
};
use pilothouse_object::{Object, ObjectKey};
use serde_json::{Value, json};

use super::args::{Back, bytes, headers, key, object};

/// The names of the reasons.
const REASONS: [(RefusalReason, &str); 7] = [
    (RefusalReason::Forbidden, "forbidden"),
    (RefusalReason::Invalid, "invalid"),
    (RefusalReason::NotWatched, "not-watched"),
    (RefusalReason::UnknownIndex, "unknown-index"),
    (RefusalReason::OverLimit, "over-limit"),
    (RefusalReason::Unavailable, "unavailable"),
    (RefusalReason::Unsupported, "unsupported"),
];

/// A refusal.
pub(crate) fn refused(refusal: &Refusal) -> Value {
    let name = REASONS.iter().find(|(reason, _)| *reason == refusal.reason).map_or("", |(_, name)| name);
    json!({"refused": name, "message": refusal.message})
}

impl Back for Refusal {
    fn back(value: &Value) -> Option<Self> {
        let named = value.get("refused")?.as_str()?;
        let (reason, _) = *REASONS.iter().find(|(_, name)| *name == named)?;
        Some(Self { reason, message: value.get("message")?.as_str()?.to_owned() })
    }
}

/// A refusal, or else what `then` makes of the answer.
pub(crate) fn refused_or<T>(
    value: &Value,
    then: impl FnOnce(&Value) -> Option<T>,
) -> Option<Result<T, Refusal>> {
    match Refusal::back(value) {
        Some(refusal) => Some(Err(refusal)),
        None => then(value).map(Ok),
    }
}

/// The answer of an import that answers nothing but a refusal.
pub(crate) fn unit(answer: &Result<(), Refusal>) -> Value {
    match answer {
        Ok(()) => json!({}),
        Err(refusal) => refused(refusal),
    }
}

/// One object, or none.
pub(crate) fn result_object(answer: &Result<Option<Object>, Refusal>) -> Value {
    match answer {
        Ok(found) => json!({"object": found.as_ref().map(object)}),
        Err(refusal) => refused(refusal),
    }
}

/// One object, or none, from an answer.
pub(crate) fn answer_of(value: &Value) -> Option<Option<Object>> {
    match value.get("object")? {
        Value::Null => Some(None),
        found => Object::back(found).map(Some),
    }
}

/// An object of a list, as far as the guest reads it.
pub(crate) fn listed(listed: Listed<'_>) -> Value {
    match listed {
        Listed::Object(read) => object(read),
        Listed::Key(read) => key(read),
    }
}

/// An object of a list that was recorded.
pub(crate) enum OwnListed {
    Object(Object),
    Key(ObjectKey),
}

impl OwnListed {
    pub(crate) fn key(&self) -> &ObjectKey {
        match self {
            Self::Object(object) => object.key(),
            Self::Key(key) => key,
        }
    }
}

impl Back for OwnListed {
    fn back(value: &Value) -> Option<Self> {
        match value.get("key") {
            Some(key) => Some(Self::Key(key.as_str()?.parse().ok()?)),
            None => Object::back(value).map(Self::Object),
        }
    }
}

/// The result of a live call.
pub(crate) fn client_answer(answer: &Result<ClientAnswer, ClientError>) -> Value {
    match answer {
        Ok(ClientAnswer::Object(found)) => json!({"object": object(found)}),
        Ok(ClientAnswer::Page { items, continue_token, resource_version, remaining_items }) => json!({
            "items": items.iter().map(object).collect::<Vec<_>>(), "continue": continue_token,
            "resourceVersion": resource_version, "remaining": remaining_items,
        }),
        Ok(ClientAnswer::Deleted(last)) => json!({"deleted": last.as_ref().map(object)}),
        Ok(ClientAnswer::Log(log)) => json!({"log": bytes(log)}),
        Ok(ClientAnswer::May(may)) => json!({"may": may}),
        Err(ClientError::Refused(refusal)) => refused(refusal),
        Err(ClientError::Api(status)) => {
            let cause = |c: &StatusCause| json!({"reason": c.reason, "message": c.message, "field": c.field});
            json!({
                "status": status.code, "reason": status.reason, "message": status.message,
                "causes": status.causes.iter().map(cause).collect::<Vec<_>>(),
                "retryAfter": status.retry_after.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            })
        }
    }
}

/// The result of a live call that was recorded.
pub(crate) fn client_result(value: &Value) -> Option<Result<ClientAnswer, ClientError>> {
    if let Some(refusal) = Refusal::back(value) {
        return Some(Err(refusal.into()));
    }
    let text = |value: &Value, name: &str| value.get(name)?.as_str().map(str::to_owned);
    if let Some(code) = value.get("status").and_then(Value::as_u64) {
        let cause = |cause: &Value| {
            Some(StatusCause {
                reason: text(cause, "reason")?,
                message: text(cause, "message")?,
                field: text(cause, "field")?,
            })
        };
        return Some(Err(ClientError::Api(ApiStatus {
            code: code.try_into().ok()?,
            reason: text(value, "reason")?,
            message: text(value, "message")?,
            causes: value.get("causes")?.as_array()?.iter().map(cause).collect::<Option<_>>()?,
            retry_after: value.get("retryAfter").and_then(Value::as_u64).map(Duration::from_millis),
        })));
    }
    let answer = if let Some(found) = value.get("object") {
        ClientAnswer::Object(Object::back(found)?)
    } else if let Some(items) = value.get("items") {
        ClientAnswer::Page {
            items: items.as_array()?.iter().map(Object::back).collect::<Option<_>>()?,
            continue_token: text(value, "continue"),
            resource_version: text(value, "resourceVersion")?,
            remaining_items: value.get("remaining").and_then(Value::as_u64),
        }
    } else if let Some(last) = value.get("deleted") {
        ClientAnswer::Deleted(if last.is_null() { None } else { Some(Object::back(last)?) })
    } else if let Some(log) = value.get("log") {
        ClientAnswer::Log(Vec::back(log)?)
    } else {
        ClientAnswer::May(value.get("may")?.as_bool()?)
    };
    Some(Ok(answer))
}

fn failure(failure: &HttpFailure) -> Value {
    json!({"failed": failure.code, "detail": failure.detail})
}

impl Back for HttpFailure {
    fn back(value: &Value) -> Option<Self> {
        let code = value.get("failed")?.as_str()?.to_owned();
        Some(Self { code, detail: value.get("detail").and_then(Value::as_str).map(str::to_owned) })
    }
}

/// The head of the answer of a request over HTTP.
pub(crate) fn http_answer(answer: Result<&HttpResponseHead, &HttpFailure>) -> Value {
    match answer {
        Ok(head) => json!({"status": head.status, "headers": headers(&head.headers)}),
        Err(error) => failure(error),
    }
}

/// Adds the body to the answer of a request over HTTP: all of it, since a secret may be cut by the pieces in which it came.
pub(crate) fn add_http_body(answer: &mut Value, body: &[u8], pieces: &[usize], ended: Option<&HttpFailure>) {
    if answer.get("status").is_some() {
        answer["body"] = bytes(body);
        answer["pieces"] = json!(pieces);
        if let Some(ended) = ended {
            answer["ended"] = failure(ended);
        }
    }
}

/// The answer of a request over HTTP that was recorded.
pub(crate) fn http_result(value: &Value) -> Option<Result<HttpResponse, HttpFailure>> {
    if let Some(failure) = HttpFailure::back(value) {
        return Some(Err(failure));
    }
    let header = |pair: &Value| Some((pair.get(0)?.as_str()?.to_owned(), Vec::back(pair.get(1)?)?));
    let mut left = Bytes::from(Vec::back(value.get("body")?)?);
    let mut body = Vec::new();
    // A mask may have changed the length of the whole.
    for piece in value.get("pieces")?.as_array()? {
        let length = usize::try_from(piece.as_u64()?).ok()?.min(left.len());
        body.push(left.split_to(length));
    }
    body.push(left);
    body.retain(|piece| !piece.is_empty());
    Some(Ok(HttpResponse {
        head: HttpResponseHead {
            status: value.get("status")?.as_u64()?.try_into().ok()?,
            headers: value.get("headers")?.as_array()?.iter().map(header).collect::<Option<_>>()?,
        },
        body,
        failure: value.get("ended").and_then(HttpFailure::back),
    }))
}
