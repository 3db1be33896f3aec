//! Paths that name no objects: discovery, health, and the server's own endpoints for faults, the log and compaction.

use bytes::Bytes;
use http::header::{ETAG, IF_NONE_MATCH};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use serde_json::{Value, json};

use super::Service;
use super::answer::{self, Body};
use super::request_info::media_type;
use crate::api::{ApiError, Path};
use crate::discovery;
use crate::faults::FaultRule;

impl Service {
    /// Everything that is no object.
    pub(super) fn other(&self, parts: &Parts, path: &Path, body: &Bytes) -> Result<Response<Body>, ApiError> {
        if let Path::Other(segments) = path {
            let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
            if !body.is_empty() && is_form(&media_type(&parts.headers)) {
                return Err(ApiError::unsupported_media_type(
                    "the body of the request was in an unknown format - accepted media types include: application/json; \
                     with curl, add -H 'Content-Type: application/json'",
                ));
            }
            if let ["openapi", "v2"] | ["openapi", "v3", ..] = segments[..] {
                let (resources, store) = (self.core.registry.now(), &self.core.store);
                return Ok(answer::bytes(self.openapi.answer(&resources, store, parts)));
            }
            return self.own(&parts.method, &segments, body);
        }
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            return Err(ApiError::method_not_allowed());
        }
        let page = discovery::page(&self.core.registry.now(), path, &parts.headers)?;
        let mut response = if parts.headers.get(IF_NONE_MATCH).is_some_and(|tag| tag == page.etag.as_str()) {
            answer::whole(StatusCode::NOT_MODIFIED, page.content_type, Bytes::new())
        } else {
            answer::whole(StatusCode::OK, page.content_type, page.body)
        };
        if let Ok(tag) = HeaderValue::from_str(&page.etag) {
            response.headers_mut().insert(ETAG, tag);
        }
        Ok(response)
    }

    /// Paths of the server itself.
    fn own(&self, method: &Method, segments: &[&str], body: &Bytes) -> Result<Response<Body>, ApiError> {
        let ok = |value: Value| Ok(answer::json(StatusCode::OK, &value));
        match (method, segments) {
            (&Method::GET, ["version"]) => ok(discovery::version()),
            (&Method::GET | &Method::HEAD, ["healthz" | "livez" | "readyz", ..]) => {
                Ok(answer::whole(StatusCode::OK, "text/plain; charset=utf-8", Bytes::from_static(b"ok")))
            }
            (&Method::GET, [""]) => ok(discovery::paths(&self.core.registry.now())),
            (&Method::GET, ["_faults"]) => ok(json!(self.faults.list())),
            (&Method::POST, ["_faults"]) => ok(json!({"ids": self.add_faults(body)?})),
            (&Method::DELETE, ["_faults"]) => {
                self.faults.clear();
                ok(json!({}))
            }
            (&Method::DELETE, ["_faults", id]) => match id.parse() {
                Ok(id) if self.faults.remove(id) => ok(json!({})),
                _ => {
                    Err(ApiError::new(StatusCode::NOT_FOUND, "NotFound", format!("there is no fault {id:?}")))
                }
            },
            (&Method::GET, ["_requests"]) => ok(json!(self.log.all())),
            (&Method::DELETE, ["_requests"]) => {
                self.log.clear();
                ok(json!({}))
            }
            (&Method::POST, ["_compact"]) => {
                ok(json!({"resourceVersion": self.core.store.compact().to_string()}))
            }
            (_, ["version" | "_faults" | "_requests" | "_compact"]) => Err(ApiError::method_not_allowed()),
            _ => Err(ApiError::no_page()),
        }
    }

    /// Sets the rule or the rules of a body.
    fn add_faults(&self, body: &Bytes) -> Result<Vec<u64>, ApiError> {
        let wrong = |error: String| {
            ApiError::bad_request(format!(
                "not a fault: {error}; for example {{\"verbs\":[\"list\"],\"resources\":[\"pods\"],\"fault\":{{\"type\":\
                 \"status\",\"code\":503}}}}"
            ))
        };
        let value: Value = serde_json::from_slice(body).map_err(|e| wrong(e.to_string()))?;
        let rules = match &value {
            Value::Array(rules) => rules.iter().map(FaultRule::read).collect(),
            one => FaultRule::read(one).map(|rule| vec![rule]),
        };
        let rules = rules.map_err(wrong)?;
        self.faults.add_all(rules).map_err(ApiError::bad_request)
    }
}

/// Whether a page may send a body of this type to another site without asking that site first.
fn is_form(media_type: &str) -> bool {
    matches!(media_type, "text/plain" | "application/x-www-form-urlencoded" | "multipart/form-data")
}
