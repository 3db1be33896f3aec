//! OpenAPI v2: a document without paths and definitions.
//!
//! What v3 has no answer for, kubectl looks up in v2: lists (`kind: List`) and kinds that do not exist. Without a document
//! it refuses to create or apply them; of a kind that the document does not know it leaves the validation to the server.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, VARY};
use http::{HeaderMap, Response, StatusCode};
use serde_json::json;

use super::paths::VERSION;
use super::{NOT_CACHED, accepts_json, empty, with};
use crate::api::clauses;

/// As clients ask for it.
const ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// As a real server answers it: the name asked for is no media type.
const ANSWERED: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const TITLE: &str = "Kubernetes";

/// The answer to a request for `/openapi/v2`.
pub(super) fn answer(headers: &HeaderMap) -> Response<Bytes> {
    let vary = (VARY, "Accept".to_owned());
    let (content_type, body) = if clauses(headers).iter().any(|clause| clause.media == ASKED) {
        (ANSWERED, protobuf())
    } else if accepts_json(headers) {
        let info = json!({"title": TITLE, "version": VERSION});
        let document = json!({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}});
        ("application/json", document.to_string().into_bytes())
    } else {
        return with(empty(StatusCode::NOT_ACCEPTABLE), [vary]);
    };
    let headers = [(CONTENT_TYPE, content_type.to_owned()), (CACHE_CONTROL, NOT_CACHED.to_owned()), vary];
    with(Response::new(body.into()), headers)
}

/// The document in the protobuf of gnostic: `swagger` (1), `info` (2) with `title` (1) and `version` (2), `paths` (8).
fn protobuf() -> Vec<u8> {
    let info = [field(1, TITLE.as_bytes()), field(2, VERSION.as_bytes())].concat();
    [field(1, b"2.0"), field(2, &info), field(8, b"")].concat()
}

/// A field with its length; all of them are shorter than 128 bytes, which one byte holds.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, content.len() as u8], content].concat()
}
