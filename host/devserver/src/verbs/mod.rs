//! The verbs of the API on the store: what a request that names objects does.
//!
//! Everything here is pure state: a [`Call`] goes in, an [`Answer`] comes out at once; only a watch goes on. Faults, the
//! log of what was served and the network are the `http` module's.

mod create;
mod delete;
mod field_validation;
mod list;
mod namespaces;
mod patch;
mod read;
mod render;
mod reviews;
mod scale;
mod selection;
mod services;
mod subresource;
mod update;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;

use crate::api::{About, Accepted, ApiError, JsonMap, Metadata, Params, Target, Timestamp, Warnings};
use crate::kinds;
use crate::protobuf;
use crate::resources::{Registry, Resource};
use crate::store::{Head, Raced, Store, Stored};

pub(crate) use read::ListTwist;
use render::Rendering;
pub(crate) use watch::{Piece, WatchStream};

/// How often a change is tried again when another write came between; each try starts from the new state.
const TRIES: usize = 64;

/// All state of the server.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Arc<Store>,
    pub(crate) registry: Registry,
    pub(crate) bookmark_every: Duration,
    /// Held while the definitions are read and served, so that the last to do so has read all of them.
    redefining: Mutex<()>,
}

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
    pub(crate) uid: String,
    pub(crate) extra: Vec<(String, Vec<String>)>,
}

/// A request that names objects.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) resource: Arc<Resource>,
    pub(crate) target: Target,
    pub(crate) params: Params,
    pub(crate) accepted: Accepted,
    /// The media type of the body.
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
    pub(crate) user: User,
    /// What a fault does to lists and reads.
    pub(crate) twist: ListTwist,
    /// What the answer carries in `Warning` headers.
    pub(crate) warnings: Warnings,
}

/// What comes of a call.
#[derive(Debug)]
pub(crate) enum Answer {
    Whole { code: StatusCode, body: Bytes },
    Watch(Box<WatchStream>),
}

impl Answer {
    pub(crate) fn json(code: StatusCode, value: &Value) -> Self {
        Self::Whole { code, body: value.to_string().into() }
    }
}

type Outcome = Result<Answer, ApiError>;

/// The verb of a request on objects, by the API's names.
pub(crate) fn verb(method: &Method, target: &Target, params: &Params) -> Option<&'static str> {
    let named = target.name.is_some();
    Some(match *method {
        Method::GET if target.old_watch => "watch",
        Method::GET if !named && params.is_on("watch") => "watch",
        Method::GET if named => "get",
        Method::GET => "list",
        Method::POST => "create",
        Method::PUT if named => "update",
        Method::PATCH if named => "patch",
        Method::DELETE if named => "delete",
        Method::DELETE => "deletecollection",
        _ => return None,
    })
}

impl Core {
    pub(crate) fn new(store: Arc<Store>, bookmark_every: Duration) -> Arc<Self> {
        let core =
            Arc::new(Self { store, registry: Registry::new(), bookmark_every, redefining: Mutex::new(()) });
        core.make_namespaces();
        core
    }

    /// Does what a call asks for.
    pub(crate) fn answer(self: &Arc<Self>, verb: &str, call: &Call) -> Outcome {
        call.check_scope(verb)?;
        if let Some(part) = &call.target.subresource {
            return self.on_subresource(part, verb, call);
        }
        if !call.resource.allows(verb) {
            return Err(ApiError::method_not_allowed());
        }
        match verb {
            "get" => self.get(call),
            "list" => self.list(call),
            "watch" => self.watch(call),
            "create" => self.create(call),
            "update" => self.update(call),
            "patch" => self.patch(call),
            "delete" => self.delete(call),
            "deletecollection" => self.delete_collection(call),
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    /// Changes an object: `change` gets the current one and says what is to be there; `None` leaves it as it is. Tried
    /// again when another write comes between.
    fn change(
        &self,
        call: &Call,
        mut change: impl FnMut(&Stored, JsonMap) -> Result<Option<JsonMap>, ApiError>,
    ) -> Result<Arc<Stored>, ApiError> {
        let key = call.key();
        for _ in 0..TRIES {
            let current = self.current(call)?;
            let Some(object) = change(&current, current.value())? else { return Ok(current) };
            if call.params.dry_run()? {
                return call.imagine(object, current.object.resource_version());
            }
            match self.put(call, &key, &current, object) {
                Err(Raced::Changed) => {}
                other => return other.map_err(|raced| call.raced(&raced)),
            }
        }
        Err(ApiError::stale(call.about()))
    }

    /// Puts an object in the place of the current one, or ends it if it only waited for its finalizers and the last is gone.
    fn put(&self, call: &Call, key: &str, current: &Stored, object: JsonMap) -> Result<Arc<Stored>, Raced> {
        let table = &call.resource.storage;
        if is_finished(&call.resource, &object) {
            let last = self.store.remove(table, key, current)?;
            self.after_end(call, &last);
            return Ok(last);
        }
        if is_same(&current.value(), &object) {
            return self
                .store
                .get(table, key)
                .filter(|s| s.revision == current.revision)
                .ok_or(Raced::Changed);
        }
        let stored = self.store.replace(table, key, current, &call.head(), object)?;
        self.after_change(call);
        Ok(stored)
    }

    /// The object that a call names.
    fn current(&self, call: &Call) -> Result<Arc<Stored>, ApiError> {
        self.store.get(&call.resource.storage, &call.key()).ok_or_else(|| ApiError::not_found(call.about()))
    }

    /// What some kinds set in motion when they change.
    fn after_change(&self, call: &Call) {
        if call.resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
            self.redefine();
        }
    }

    /// What the end of an object may bring about.
    fn after_end(&self, call: &Call, last: &Stored) {
        self.after_change(call);
        if let Some(namespace) = last.object.namespace() {
            self.settle_namespace(namespace);
        }
        if call.resource.is_custom() {
            self.settle_definition(&call.resource.storage);
        }
    }
}

impl Call {
    /// A call on an object of a resource, or on all of them, and nothing more: as the server itself makes them.
    pub(crate) fn plain(resource: Arc<Resource>, namespace: Option<String>, name: Option<String>) -> Self {
        Self {
            target: Target {
                group: resource.group.clone(),
                version: resource.version.clone(),
                resource: resource.name.clone(),
                namespace,
                name,
                subresource: None,
                old_watch: false,
            },
            resource,
            params: Params::default(),
            accepted: Accepted::default(),
            content_type: String::new(),
            body: Bytes::new(),
            user: User::default(),
            twist: ListTwist::default(),
            warnings: Warnings::default(),
        }
    }

    /// Namespaced resources need a namespace except for lists, watches and collections; others take none.
    fn check_scope(&self, verb: &str) -> Result<(), ApiError> {
        let everywhere = matches!(verb, "list" | "watch") && self.target.name.is_none();
        match (&self.target.namespace, self.resource.namespaced) {
            (Some(_), false) => Err(ApiError::no_path()),
            (None, true) if !everywhere && !self.is_review() => Err(ApiError::no_path()),
            _ => Ok(()),
        }
    }

    fn is_review(&self) -> bool {
        reviews::is_review(&self.resource)
    }

    fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.target.namespace.as_deref().unwrap_or_default()
    }

    /// Under which key the named object is kept.
    fn key(&self) -> String {
        key(self.namespace(), self.name())
    }

    /// What errors are about: the resource and the name.
    fn about(&self) -> About {
        self.about_name(self.name())
    }

    fn about_name(&self, name: &str) -> About {
        About::new(&self.resource.group, &self.resource.name, name)
    }

    /// What validation is about: the kind and the name.
    fn about_kind(&self, name: &str) -> About {
        About::new(&self.resource.group, &self.resource.kind, name)
    }

    /// What stands before a stored object of this resource.
    fn head(&self) -> Head {
        Head::new(&self.resource.api_version(), &self.resource.kind)
    }

    /// What would have come of a write; a new object has no version.
    fn imagine(&self, mut object: JsonMap, version: &str) -> Result<Arc<Stored>, ApiError> {
        let mut metadata = Metadata::of(&mut object)?;
        match version {
            "" => metadata.remove("resourceVersion"),
            version => metadata.set("resourceVersion", version),
        }
        Stored::imagine(&self.head(), object, 0).map_err(|why| self.raced(&Raced::Malformed(why)))
    }

    /// Whether the request is a patch, by its media type.
    fn is_patch(&self) -> bool {
        self.content_type.ends_with("-patch+json")
    }

    fn raced(&self, raced: &Raced) -> ApiError {
        match raced {
            Raced::Exists(_) => ApiError::already_exists(self.about()),
            Raced::Changed => ApiError::stale(self.about()),
            Raced::Malformed(why) => ApiError::bad_request(format!("the object cannot be kept: {why}")),
        }
    }

    /// The body as an object of this resource, in the stored form.
    fn object(&self) -> Result<JsonMap, ApiError> {
        self.as_stored(self.json_body()?)
    }

    /// An object of this resource as a client has it, in the stored form.
    fn as_stored(&self, mut object: JsonMap) -> Result<JsonMap, ApiError> {
        self.check_kind(&object)?;
        self.admit(&mut object)?;
        if kinds::needs_conversion(&self.resource) {
            kinds::to_stored(&self.resource, &mut object);
        }
        Ok(object)
    }

    /// The body as a JSON object, whatever it is.
    fn json_body(&self) -> Result<JsonMap, ApiError> {
        let value: Value = match self.content_type.as_str() {
            "" | "application/json" => serde_json::from_slice(&self.body)
                .map_err(|e| ApiError::bad_request(format!("the body is not JSON: {e}")))?,
            "application/yaml" => {
                let text = std::str::from_utf8(&self.body)
                    .map_err(|_| ApiError::bad_request("the body is not UTF-8"))?;
                serde_saphyr::from_str(text)
                    .map_err(|e| ApiError::bad_request(format!("the body is not YAML: {e}")))?
            }
            protobuf::MEDIA_TYPE => protobuf::decode(&self.body)
                .map_err(|e| ApiError::bad_request(format!("the body cannot be decoded: {e}")))?,
            other => {
                return Err(ApiError::unsupported_media_type(format!(
                    "the body of the request was in an unknown format - accepted media types include: application/json, \
                     application/yaml, application/vnd.kubernetes.protobuf (got {other:?})"
                )));
            }
        };
        match value {
            Value::Object(object) => Ok(object),
            _ => Err(ApiError::bad_request("the body is not an object")),
        }
    }

    /// Checks `apiVersion` and `kind`; built-in kinds may leave them out.
    fn check_kind(&self, object: &JsonMap) -> Result<(), ApiError> {
        let text = |field: &str| match object.get(field) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(_) => Err(ApiError::bad_request(format!("{field} must be a string"))),
        };
        let (kind, version) = (text("kind")?, text("apiVersion")?);
        if self.resource.is_custom() && (kind.is_empty() || version.is_empty()) {
            return Err(ApiError::bad_request("Object 'Kind' or 'apiVersion' is missing"));
        }
        let own = self.resource.api_version();
        if !kind.is_empty() && kind != self.resource.kind {
            return Err(ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {}",
                self.resource.kind
            )));
        }
        if !version.is_empty() && version != own {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({own})"
            )));
        }
        Ok(())
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// `namespace/name`, or the name alone.
fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Whether an object that is being deleted waits for nothing any more.
fn is_finished(resource: &Resource, object: &JsonMap) -> bool {
    let Some(metadata) = object.get("metadata") else { return false };
    if metadata.get("deletionTimestamp").is_none() {
        return false;
    }
    let waits = |list: Option<&Value>| list.and_then(Value::as_array).is_some_and(|l| !l.is_empty());
    let in_namespace =
        resource.is("", "namespaces") && waits(object.get("spec").and_then(|spec| spec.get("finalizers")));
    let graceful = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0) > 0;
    !(in_namespace || graceful || waits(metadata.get("finalizers")))
}

/// Whether two objects are the same but for their kind and resource version.
fn is_same(a: &JsonMap, b: &JsonMap) -> bool {
    let rest = |object: &JsonMap| object.iter().filter(|(k, _)| !is_head(k)).count();
    let same_metadata = |a: &Value, b: &Value| match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let fields = |m: &JsonMap| m.keys().filter(|k| *k != "resourceVersion").count();
            fields(a) == fields(b) && a.iter().all(|(k, v)| k == "resourceVersion" || b.get(k) == Some(v))
        }
        _ => false,
    };
    rest(a) == rest(b)
        && a.iter().filter(|(k, _)| !is_head(k)).all(|(k, v)| match b.get(k) {
            Some(other) if k == "metadata" => same_metadata(v, other),
            other => other == Some(v),
        })
}

fn is_head(field: &str) -> bool {
    matches!(field, "kind" | "apiVersion")
}

#[cfg(test)]
mod tests;
