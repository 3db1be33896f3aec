//! Writes that begin near the end of a term demand a version of their object.
//!
//! The answer to such a write may come after the term, and so may the write itself. A resourceVersion in it makes the server
//! refuse it once the next leader, or the next holder of the shard, has changed the object. It is the version that the call
//! has got from its last live read or write of the object (`seen_versions.rs`), or else the one that the plugin knows from
//! the cache or from its own writes. A term that still lasts has no next leader, so that version is from before whatever
//! the next one writes.
//!
//! Left as they are: writes that demand a version themselves; those of objects of which the call has made a version that it
//! does not know, as with a write without an answer; those of objects that the plugin does not know, creates among them;
//! deletes of a collection; subresources other than `status` and `scale`, whose bodies may be anything; and
//! server-side apply: its conflicts mean other managers, and it is merged with their changes on purpose.
//!
//! Called once a write is allowed and has room (`write_room.rs`), before it is handed over to the runtime that sends it: bodies
//! are parsed on the guest's thread, inside the import, at the cost of the call's CPU budget.

use std::collections::BTreeMap;

use pilothouse_client::Error;
use pilothouse_engine::{CallOptions, ClientAnswer, ClientCall, ClientVerb, PatchKind};
use pilothouse_object::{Gvk, Object, ObjectKey};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::ApiCalls;
use super::body::{Body, demanded_version};
use super::seen_versions::Seen;

/// Explains a conflict with a version that the host has demanded.
const CONFLICT: &str = "the host demanded the version that the plugin has seen: the term of this host is near its end, and the \
                        write may arrive after it. Return the error, and the next reconcile writes; or send the \
                        resourceVersion yourself";

/// Most objects of a page whose versions are kept.
const MOST_OF_PAGE: usize = 32;

impl ApiCalls {
    /// Makes a write that is about to be sent near the end of the term demand the version that `known` has of its object.
    /// Whether it now does.
    pub(super) fn demand_version(
        &self,
        call: &mut ClientCall,
        known: impl FnOnce(&Gvk, &ObjectKey) -> Option<String>,
    ) -> bool {
        if !self.election.is_near_end() {
            return false;
        }
        self.metrics.near_end_writes.inc();
        if !has_version_of_object(&call.options) || demanded_version(&call.verb, &call.options).is_some() {
            return false;
        }
        let Some(key) = key(&call.verb) else { return false };
        let version = match self.seen.of(call.context.call_id, &call.kind, &key) {
            Some(Seen::Version(version)) => Some(version),
            Some(Seen::Unknown) => None,
            None => known(&call.kind, &key),
        };
        let Some(version) = version else { return false };
        match &mut call.verb {
            ClientVerb::Delete(_) => {
                call.options.preconditions.get_or_insert_default().resource_version = Some(version);
            }
            ClientVerb::Update(body)
            | ClientVerb::Patch { body, kind: PatchKind::Merge | PatchKind::Strategic, .. } => {
                let Some(conditional) = with_version(body, &version) else { return false };
                *body = conditional;
            }
            ClientVerb::Patch { body, kind: PatchKind::Json, .. } => {
                let Some(conditional) = with_version_first(body, &version) else { return false };
                *body = conditional;
            }
            _ => return false,
        }
        true
    }
}

impl ApiCalls {
    /// Notes what a live read with these options has shown to a call.
    pub(super) fn note_read(&self, call: u64, kind: &Gvk, options: &CallOptions, answer: &ClientAnswer) {
        if !self.election.is_enabled() || !has_version_of_object(options) {
            return;
        }
        match answer {
            ClientAnswer::Object(object) => self.note_version(call, kind, object),
            ClientAnswer::Page { items, .. } if items.len() <= MOST_OF_PAGE => {
                items.iter().for_each(|object| self.note_version(call, kind, object));
            }
            ClientAnswer::Page { .. } => self.seen.note(call, kind, None, Seen::Unknown),
            ClientAnswer::Deleted(_) | ClientAnswer::Log(_) | ClientAnswer::May(_) => {}
        }
    }

    /// Notes what a write has made of its object. One that the server refused has changed nothing.
    pub(super) fn note_write(&self, call: &ClientCall, outcome: &Result<ClientAnswer, Error>) {
        let is_refused = |error: &Error| error.status().is_some_and(|status| status.code < 500);
        if !self.election.is_enabled() || call.options.dry_run || outcome.as_ref().is_err_and(is_refused) {
            return;
        }
        let is_answered = has_version_of_object(&call.options) && call.options.target.is_none();
        match outcome {
            Ok(ClientAnswer::Object(object) | ClientAnswer::Deleted(Some(object))) if is_answered => {
                self.note_version(call.context.call_id, &call.kind, object);
            }
            _ => {
                let key = match &call.verb {
                    ClientVerb::Create(_) => call.options.target.clone(),
                    ClientVerb::Patch { key, .. } => Some(key.clone()),
                    verb => key(verb),
                };
                self.seen.note(call.context.call_id, &call.kind, key.as_ref(), Seen::Unknown);
            }
        }
    }

    fn note_version(&self, call: u64, kind: &Gvk, object: &Object) {
        let version = object.resource_version().to_owned();
        self.seen.note(call, kind, Some(object.key()), Seen::Version(version));
    }
}

/// Whether what is read or written has the version of the object: the object itself, and these subresources.
fn has_version_of_object(options: &CallOptions) -> bool {
    matches!(options.subresource.as_deref(), None | Some("status" | "scale"))
}

/// The error of a write that demands a version which the host has added: its conflicts say why.
pub(super) fn explained(error: Error) -> Error {
    let is_conflict = error.is_conflict();
    match error {
        Error::Api(mut status) if is_conflict => {
            status.message = format!("{}; {CONFLICT}", status.message);
            Error::Api(status)
        }
        error => error,
    }
}

/// The object that a write changes; none where it may be another than one that is there.
fn key(verb: &ClientVerb) -> Option<ObjectKey> {
    match verb {
        ClientVerb::Delete(key) => Some(key.clone()),
        ClientVerb::Patch { key, kind, .. } if *kind != PatchKind::Apply => Some(key.clone()),
        ClientVerb::Update(body) => {
            let meta = serde_json::from_slice::<Body>(body).ok()?.metadata;
            let namespace = meta.namespace.as_deref().filter(|namespace| !namespace.is_empty());
            ObjectKey::new(namespace, &meta.name?).ok()
        }
        _ => None,
    }
}

/// An object, or a patch that is merged with one, that demands a version. None if the body is neither: the server says what
/// is wrong with it.
fn with_version(body: &[u8], version: &str) -> Option<Vec<u8>> {
    type Members<'a> = BTreeMap<String, &'a RawValue>;
    let mut members: Members<'_> = serde_json::from_slice(body).ok()?;
    let mut metadata: Members<'_> = match members.get("metadata") {
        Some(metadata) => serde_json::from_str(metadata.get()).ok()?,
        None => BTreeMap::new(),
    };
    let version = to_raw_value(version).ok()?;
    metadata.insert("resourceVersion".to_owned(), &version);
    let metadata = to_raw_value(&metadata).ok()?;
    members.insert("metadata".to_owned(), &metadata);
    serde_json::to_vec(&members).ok()
}

/// A JSON patch that sets the version first, which has to be the one that the object has. None if the body is no patch, or
/// speaks of the version, or of all metadata, itself.
fn with_version_first(body: &[u8], version: &str) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Operation {
        path: String,
    }
    let mut operations: Vec<&RawValue> = serde_json::from_slice(body).ok()?;
    for operation in &operations {
        let Operation { path } = serde_json::from_str(operation.get()).ok()?;
        if matches!(path.as_str(), "" | "/metadata" | "/metadata/resourceVersion") {
            return None;
        }
    }
    let first = json!({"op": "replace", "path": "/metadata/resourceVersion", "value": version});
    let first = to_raw_value(&first).ok()?;
    operations.insert(0, &first);
    serde_json::to_vec(&operations).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_demands_the_version_and_is_otherwise_as_it_was() {
        let demanding =
            |body: &str| with_version(body.as_bytes(), "7").map(|body| String::from_utf8(body).unwrap());
        let big =
            r#"{"data":{"n":12345678901234567890123,"f":1.10},"metadata":{"labels":{"a":null},"name":"b"}}"#;
        let with = r#"{"data":{"n":12345678901234567890123,"f":1.10},"metadata":{"labels":{"a":null},"name":"b","resourceVersion":"7"}}"#;
        assert_eq!(demanding(big).as_deref(), Some(with));
        let with = r#"{"metadata":{"resourceVersion":"7"},"spec":1}"#;
        assert_eq!(demanding(r#"{"spec":1}"#).as_deref(), Some(with));
        assert_eq!(demanding(r#"{"spec":1,"metadata":{"resourceVersion":""}}"#).as_deref(), Some(with));
        for body in [r#"{"metadata":null}"#, r#"{"metadata":[]}"#, "[]", "null", "no: json"] {
            assert_eq!(demanding(body), None, "{body}");
        }
    }

    #[test]
    fn a_json_patch_sets_the_version_first_unless_it_speaks_of_it() {
        let demanding = |body: &str| {
            with_version_first(body.as_bytes(), "7").map(|body| String::from_utf8(body).unwrap())
        };
        let with = r#"[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"remove","path":"/data"}]"#;
        assert_eq!(demanding(r#"[{"op":"remove","path":"/data"}]"#).as_deref(), Some(with));
        for path in ["", "/metadata", "/metadata/resourceVersion"] {
            let body =
                json!([{"op": "add", "path": "/a", "value": 1}, {"op": "test", "path": path, "value": 1}]);
            assert_eq!(demanding(&body.to_string()), None, "{path}");
        }
        for body in ["{}", r#"[{"op":"remove"}]"#, "no: json"] {
            assert_eq!(demanding(body), None, "{body}");
        }
    }
}
