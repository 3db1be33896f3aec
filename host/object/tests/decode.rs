//! Decoding: which fields are kept, removed and added, by examples and property tests.

use pilothouse_object::{DecodeError, Gvk, Object};
use proptest::prelude::*;

fn pod() -> Gvk {
    Gvk::new("", "v1", "Pod")
}

#[test]
fn managed_fields_are_cut_wherever_they_stand_and_nothing_else_changes() {
    for (source, kept) in [
        (r#"{"managedFields":[{"a":1}],"name":"x"}"#, r#"{"name":"x"}"#),
        (r#"{"name":"x","managedFields":[{"a":1}]}"#, r#"{"name":"x"}"#),
        (r#"{"name":"x" , "managedFields" : [ ] , "uid":"u"}"#, r#"{"name":"x" ,  "uid":"u"}"#),
        (r#"{"name":"x","labels":{"managedFields":"y"}}"#, r#"{"name":"x","labels":{"managedFields":"y"}}"#),
    ] {
        let text = format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{source},"spec":{{"a":1.50}}}}"#);
        let object = Object::decode(text.as_bytes()).unwrap();
        assert_eq!(object.json(), text.replace(source, kept));
        serde_json::from_str::<serde_json::Value>(object.json()).unwrap();
    }
}

#[test]
fn what_is_wrong_within_managed_fields_is_not_kept_and_what_is_wrong_beside_them_is_refused() {
    let decode = |metadata: &str| {
        Object::decode(format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{{metadata}}}}}"#).as_bytes())
    };
    for broken in ["[}", "[tru]", r#"[{"a" 1}]"#, r#"["\x"]"#, "[\"\u{1}\"]"] {
        let object = decode(&format!(r#""name":"x","managedFields":{broken},"uid":"u""#)).unwrap();
        assert_eq!(object.json(), r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","uid":"u"}}"#);
    }
    for broken in
        [r#""managedFields":tru,"name":"x""#, r#""managedFields":[{],"name":"x""#, r#""name":"x","a":[}"#]
    {
        assert!(decode(broken).is_err(), "{broken}");
    }
}

#[test]
fn a_kind_that_is_null_is_none_and_cannot_be_filled_in() {
    for text in [
        r#"{"apiVersion":null,"kind":null,"metadata":{"name":"x"}}"#,
        r#"{"apiVersion":"v1","kind":null,"metadata":{"name":"x"}}"#,
    ] {
        assert!(matches!(Object::decode_as(text.as_bytes(), &pod()), Err(DecodeError::NoKind(_))), "{text}");
    }
}

#[test]
fn a_name_that_is_no_text_is_refused() {
    let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"\ud800":1}"#;
    assert!(Object::decode(text.as_bytes()).is_err());
}

/// Servers leave the kind out of the items of a list, and write it first in events of a watch.
#[test]
fn an_item_of_a_list_and_an_event_of_a_watch_have_the_same_text() {
    let metadata = r#""metadata":{"name":"x","uid":"u","resourceVersion":"1"}"#;
    let item = Object::decode_as(format!("{{{metadata}}}").as_bytes(), &pod()).unwrap();
    let watched = format!(r#"{{"kind":"Pod","apiVersion":"v1",{metadata}}}"#);
    let watched = Object::decode_as(watched.as_bytes(), &pod()).unwrap();
    assert_eq!(item.json(), watched.json());
    assert!(item.held().is_same_text(watched.held()));
}

#[test]
fn metadata_is_read_past_the_cut_and_the_filled_in_kind() {
    let text = r#" {"metadata":{"managedFields":[{"x":"y"}],"name":"n","namespace":"s","uid":"u-1",
        "resourceVersion":"42","generation":7,"deletionTimestamp":"2026-01-01T00:00:00Z",
        "labels":{"a":"1","b\"":"é\n"},"annotations":{"k":"v"},
        "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"o","controller":true}]}} "#;
    let object = Object::decode_as(text.as_bytes(), &pod()).unwrap();
    assert_eq!(object.key().as_str(), "s/n");
    assert_eq!((object.uid(), object.resource_version(), object.generation()), ("u-1", "42", Some(7)));
    assert_eq!(object.deletion_timestamp(), Some("2026-01-01T00:00:00Z"));
    assert_eq!(object.gvk(), pod());
    assert!(object.json().starts_with(r#"{"kind":"Pod","apiVersion":"v1","metadata":"#));
    assert_eq!(object.label("a").as_deref(), Some("1"));
    assert_eq!(object.labels().get("b\"").map(AsRef::as_ref), Some("é\n"));
    assert_eq!(object.annotation("k").as_deref(), Some("v"));
    let owners = object.owner_references();
    assert_eq!((owners[0].kind.as_ref(), owners[0].controller), ("ReplicaSet", Some(true)));
    assert_eq!(object.get("/apiVersion"), Some("\"v1\""));
}

#[test]
fn names_with_json_escapes_are_unescaped() {
    let text = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole",
        "metadata":{"name":"a\u0026b","uid":"u\u0026","resourceVersion":"1"}}"#;
    let object = Object::decode(text.as_bytes()).unwrap();
    assert_eq!((object.name(), object.uid(), object.resource_version()), ("a&b", "u&", "1"));
    assert_eq!(object.json(), text);
}

#[test]
fn what_is_no_object_is_refused() {
    for text in ["", "[]", "{}", "null", "{\"metadata\":{}}", "{\"metadata\":{\"name\":\"a/b\"}}", "\u{1}"] {
        assert!(Object::decode_as(text.as_bytes(), &pod()).is_err(), "{text}");
    }
    assert!(Object::decode(b"\xff").is_err());
    let error = Object::decode(br#"{"metadata":{"name":"a"}}"#).unwrap_err();
    assert!(matches!(error, DecodeError::NoKind(_)));
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(".{0,8}", inner, 0..6).prop_map(|m| m.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Object::decode_as(&bytes, &pod());
    }

    #[test]
    fn the_kept_json_is_the_source_less_managed_fields(
        spec in json(), managed in json(), labels in prop::collection::btree_map(".{0,8}", ".{0,8}", 0..4),
        name in "[^/\\PC]{1,12}", pretty in any::<bool>(), with_kind in any::<bool>(),
    ) {
        let mut value = serde_json::json!({
            "metadata": {"name": name, "labels": labels, "managedFields": managed, "uid": "u"}, "spec": spec,
        });
        if with_kind {
            value["apiVersion"] = "v1".into();
            value["kind"] = "Pod".into();
        }
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let object = Object::decode_as(text.as_bytes(), &pod()).unwrap();
        let mut want = value.clone();
        want["metadata"].as_object_mut().unwrap().remove("managedFields");
        want["apiVersion"] = "v1".into();
        want["kind"] = "Pod".into();
        let got: serde_json::Value = serde_json::from_str(object.json()).unwrap();
        prop_assert_eq!(got, want);
        prop_assert_eq!(object.name(), name);
        let got: std::collections::BTreeMap<String, String> =
            object.labels().into_iter().map(|(k, v)| (k.into_owned(), v.into_owned())).collect();
        prop_assert_eq!(got, labels);
    }
}
