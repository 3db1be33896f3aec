//! [`Body`]: what a write's body says of the object it is for, and whether it may be sent.

use std::collections::HashMap;

use pilothouse_client::ApiResource;
use pilothouse_engine::{ClientVerb, PatchKind, Refusal};
use pilothouse_object::PARTIAL_ANNOTATION;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What a body says of the object it is for.
#[derive(Deserialize, Default)]
pub(super) struct Body {
    #[serde(default)]
    pub(super) metadata: BodyMeta,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BodyMeta {
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) generate_name: Option<String>,
    uid: Option<String>,
}

/// Resources whose missing objects the API server creates on update, by group.
const CREATED_ON_UPDATE: [(&str, &[&str]); 3] = [
    ("", &["endpoints", "events", "limitranges", "services"]),
    ("coordination.k8s.io", &["leases"]),
    ("rbac.authorization.k8s.io", &["clusterrolebindings", "clusterroles", "rolebindings", "roles"]),
];

/// Whether an update with this body may create the object. With a UID it cannot: the server compares it with that of the
/// stored object.
pub(super) fn update_creates(resource: &ApiResource, body: &[u8]) -> bool {
    let is_created = |(group, plurals): &(&str, &[&str])| {
        resource.gvk.group == *group && plurals.contains(&resource.plural.as_str())
    };
    if !CREATED_ON_UPDATE.iter().any(is_created) {
        return false;
    }
    let body: Body = serde_json::from_slice(body).unwrap_or_default();
    body.metadata.uid.is_none_or(|uid| uid.is_empty())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Marked {
    metadata: Option<MarkedMeta>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct MarkedMeta {
    /// Without the values: `null`, by which a merge patch takes an annotation away, is none.
    annotations: Option<HashMap<String, Option<IgnoredAny>>>,
}

/// Refuses a body that was made of a partial object from the cache: what the cache left out would be taken away from the
/// stored object, or its absence be taken for somebody's wish. A JSON patch names what it changes, so it cannot be such a
/// body. One that cannot be read is left to the server, which says what is wrong with it.
pub(super) fn refuse_partial(verb: &ClientVerb) -> Result<(), Refusal> {
    let body = match verb {
        ClientVerb::Create(body) | ClientVerb::Update(body) => body,
        ClientVerb::Patch { kind, body, .. } if *kind != PatchKind::Json => body,
        _ => return Ok(()),
    };
    let marked: Marked = serde_json::from_slice(body).unwrap_or_default();
    let annotations = marked.metadata.and_then(|metadata| metadata.annotations).unwrap_or_default();
    if annotations.get(PARTIAL_ANNOTATION).is_none_or(Option::is_none) {
        return Ok(());
    }
    Err(Refusal::invalid(format_args!(
        "the body is a partial object ({PARTIAL_ANNOTATION}): the cache has only some of its fields, and writing it would \
         delete the others; read the object with `client.get` and change that, or send a patch of the changed fields"
    )))
}

#[cfg(test)]
mod tests {
    use pilothouse_engine::RefusalReason;
    use pilothouse_object::{Object, Projection};
    use serde_json::{Value, json};

    use super::*;

    fn patch(kind: PatchKind, body: &[u8]) -> ClientVerb {
        ClientVerb::Patch { key: "a/b".parse().unwrap(), kind, body: body.to_vec() }
    }

    fn writes(body: &[u8]) -> Vec<ClientVerb> {
        let mut writes = vec![ClientVerb::Create(body.to_vec()), ClientVerb::Update(body.to_vec())];
        writes
            .extend([PatchKind::Merge, PatchKind::Strategic, PatchKind::Apply].map(|kind| patch(kind, body)));
        writes
    }

    fn map() -> Object {
        let json = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "b", "namespace": "a", "annotations": {"c": "d"}}, "data": {"e": "f"},
        });
        Object::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_body_of_a_partial_object_is_refused_with_the_way_out() {
        let partial = Projection::metadata_only().apply(&map());
        for write in writes(partial.marked_json().as_bytes()) {
            let error = refuse_partial(&write).unwrap_err();
            assert_eq!(error.reason, RefusalReason::Invalid);
            assert!(
                error.message.contains("client.get") && error.message.contains("send a patch"),
                "{}",
                error.message
            );
        }
    }

    #[test]
    fn whole_bodies_json_patches_and_taking_the_mark_away_are_open() {
        let whole = map();
        let none = json!({"metadata": {"annotations": {PARTIAL_ANNOTATION: Value::Null}}}).to_string();
        for body in [whole.marked_json().as_bytes(), none.as_bytes(), b"{\"metadata\":null}", b"no: json"] {
            assert!(writes(body).iter().all(|write| refuse_partial(write).is_ok()));
        }
        let named =
            json!([{"op": "test", "path": "/metadata/annotations", "value": {PARTIAL_ANNOTATION: "true"}}]);
        assert!(refuse_partial(&patch(PatchKind::Json, named.to_string().as_bytes())).is_ok());
    }
}
