//! Making objects.

use pilothouse_client::ApiResource;
use pilothouse_object::{Gvk, Object, ObjectKey};
use serde_json::{Value, json};

/// The resource that the tests of this crate use: namespaced, small.
#[must_use]
pub fn config_maps() -> ApiResource {
    ApiResource {
        verbs: ["get", "list", "watch"].map(str::to_owned).to_vec(),
        ..ApiResource::new(Gvk::new("", "v1", "ConfigMap"), "configmaps", true)
    }
}

/// An object of a kind, as a server would give it out. `body` holds any fields; the identity is put in.
///
/// # Panics
/// When the key or the body is not that of an object.
#[must_use]
pub fn object(kind: &Gvk, key: &str, uid: &str, version: &str, mut body: Value) -> Object {
    let key: ObjectKey = key.parse().expect("a key");
    body["apiVersion"] = json!(kind.api_version());
    body["kind"] = json!(kind.kind);
    let metadata = &mut body["metadata"];
    metadata["name"] = json!(key.name());
    if let Some(namespace) = key.namespace() {
        metadata["namespace"] = json!(namespace);
    }
    metadata["uid"] = json!(uid);
    metadata["resourceVersion"] = json!(version);
    Object::decode(body.to_string().as_bytes()).expect("an object")
}

/// A `ConfigMap` whose UID is made from its key.
#[must_use]
pub fn config_map(key: &str, version: &str) -> Object {
    object(&config_maps().gvk, key, &format!("uid-of-{key}"), version, json!({}))
}
