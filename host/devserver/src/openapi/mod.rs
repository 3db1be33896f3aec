//! OpenAPI v3: an index of one document for each group version, made when it is asked for.
//!
//! ```text
//!   GET /openapi/v3                     index:    group version ─► URL with a hash
//!   GET /openapi/v3/apis/apps/v1?hash=  document: paths (operations of each resource), components (schemas)
//!
//!   components  schemas of the built-in kinds, from the tables
//!   custom      schemas of custom resources, from the definitions in the store
//!   paths       operations, from the resources that are served
//!   document    one document of all three
//! ```
//!
//! `kubectl` reads these documents before it creates, applies or explains anything. There is no prose in them but what
//! definitions bring along. The document of OpenAPI v2 is empty.
//!
//! A document's hash is made from what the document is made from, so that the index needs no document. Documents are kept
//! until their hash changes, [`MAX_CACHED`] bytes of them.

mod components;
mod custom;
mod document;
mod paths;
#[cfg(test)]
mod tests;
mod v2;

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderName, IF_NONE_MATCH, LOCATION, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use jiff::{Timestamp, ToSpan as _};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::api::{Params, clauses};
use crate::resources::{Resources, Version};
use crate::store::Store;

/// Bytes of documents that are kept: those of all built-in group versions several times over.
const MAX_CACHED: usize = 64 << 20;

/// Serves the documents and keeps those that were made.
#[derive(Debug, Default)]
pub(crate) struct OpenApi {
    documents: Mutex<HashMap<String, Document>>,
}

/// A document that was made.
#[derive(Debug, Clone)]
struct Document {
    hash: u64,
    body: Bytes,
}

impl OpenApi {
    /// The answer to a request for `/openapi/v2`, for `/openapi/v3` or a path below that.
    pub(crate) fn answer(&self, resources: &Resources, store: &Store, parts: &Parts) -> Response<Bytes> {
        let path = parts.uri.path();
        match path.strip_prefix("/openapi/v3/") {
            Some(name) => self.group_version(resources, store, name, parts),
            None if path == "/openapi/v3" => index(resources),
            None => v2::answer(&parts.headers),
        }
    }

    fn group_version(
        &self,
        resources: &Resources,
        store: &Store,
        name: &str,
        parts: &Parts,
    ) -> Response<Bytes> {
        let Some(served) = group_versions(resources).find(|served| served.name() == name) else {
            return empty(StatusCode::NOT_FOUND);
        };
        if !accepts_json(&parts.headers) {
            return with(empty(StatusCode::NOT_ACCEPTABLE), [(VARY, "Accept".to_owned())]);
        }
        let hash = served.hash();
        let etag = format!("\"{hash:016X}\"");
        let headers = [
            (CONTENT_TYPE, "application/json".to_owned()),
            (VARY, "Accept".to_owned()),
            (ETAG, etag.clone()),
        ];
        let wanted = Params::parse(parts.uri.query().unwrap_or_default());
        let caching = match wanted.filled("hash") {
            Some(wanted) if wanted == format!("{hash:016X}") => {
                let in_a_year = Timestamp::now().checked_add((365 * 24).hours()).unwrap_or(Timestamp::MAX);
                let expires = in_a_year.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string();
                vec![(CACHE_CONTROL, "public, immutable".to_owned()), (EXPIRES, expires)]
            }
            Some(_) => {
                let moved = with(empty(StatusCode::MOVED_PERMANENTLY), headers);
                return with(moved, [(LOCATION, served.url()), (CACHE_CONTROL, NOT_CACHED.to_owned())]);
            }
            None => vec![(CACHE_CONTROL, NOT_CACHED.to_owned())],
        };
        let is_known = parts.headers.get_all(IF_NONE_MATCH).iter().any(|tag| tag == etag.as_str());
        let answer = if is_known {
            empty(StatusCode::NOT_MODIFIED)
        } else {
            Response::new(self.document(&served, hash, store))
        };
        with(with(answer, headers), caching)
    }

    fn document(&self, served: &GroupVersion<'_>, hash: u64, store: &Store) -> Bytes {
        let name = served.name();
        // The lock is held while a document is made: requests for the same one wait instead of making it too.
        let mut documents = self.documents.lock();
        if let Some(known) = documents.get(&name).filter(|known| known.hash == hash) {
            return known.body.clone();
        }
        let made = document::make(served, store, document::MAX_SIZE);
        let body = Bytes::from(made.text);
        documents.remove(&name);
        if made.is_of_these_resources && body.len() <= MAX_CACHED {
            if documents.values().map(|d| d.body.len()).sum::<usize>() + body.len() > MAX_CACHED {
                documents.clear();
            }
            documents.insert(name, Document { hash, body: body.clone() });
        }
        body
    }
}

/// What a real server says of an index, and of a document that was asked for without its hash.
const NOT_CACHED: &str = "no-cache, private";

/// A group version with its resources.
#[derive(Clone, Copy)]
struct GroupVersion<'a> {
    group: &'a str,
    version: &'a Version,
}

fn group_versions(resources: &Resources) -> impl Iterator<Item = GroupVersion<'_>> {
    resources
        .groups
        .iter()
        .flat_map(|group| group.versions.iter().map(|version| GroupVersion { group: &group.name, version }))
}

impl GroupVersion<'_> {
    /// `api/v1`, `apis/apps/v1`
    fn name(&self) -> String {
        match self.group {
            "" => format!("api/{}", self.version.name),
            group => format!("apis/{group}/{}", self.version.name),
        }
    }

    /// Where its document is.
    fn url(&self) -> String {
        format!("/openapi/v3/{}?hash={:016X}", self.name(), self.hash())
    }

    /// Of everything that its document is made from.
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        components::fingerprint().hash(&mut hasher);
        self.name().hash(&mut hasher);
        for resource in &self.version.resources {
            (&resource.name, &resource.kind, &resource.list_kind, resource.namespaced).hash(&mut hasher);
            resource.schema_fingerprint().hash(&mut hasher);
            for part in &resource.subresources {
                (&part.name, &part.kind).hash(&mut hasher);
            }
        }
        hasher.finish()
    }
}

fn index(resources: &Resources) -> Response<Bytes> {
    let paths: BTreeMap<String, Value> = group_versions(resources)
        .map(|served| (served.name(), json!({"serverRelativeURL": served.url()})))
        .collect();
    let body = Bytes::from(json!({"paths": paths}).to_string());
    // A real server calls it text, too.
    let content_type = (CONTENT_TYPE, "text/plain; charset=utf-8".to_owned());
    with(Response::new(body), [content_type, (CACHE_CONTROL, NOT_CACHED.to_owned())])
}

/// Whether a client takes JSON; documents in protobuf are not made.
fn accepts_json(headers: &HeaderMap) -> bool {
    let clauses = clauses(headers);
    clauses.is_empty()
        || clauses.iter().any(|c| matches!(c.media, "application/json" | "application/*" | "*/*"))
}

fn empty(code: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = code;
    response
}

fn with(
    mut response: Response<Bytes>,
    headers: impl IntoIterator<Item = (HeaderName, String)>,
) -> Response<Bytes> {
    for (name, text) in headers {
        // The text is made of hashes, dates and names of groups, as the path of a request has them.
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
