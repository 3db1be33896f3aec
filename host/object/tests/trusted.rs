//! Objects of a trusted sender: texts that are JSON decode as they do elsewhere, and of others each reader gets an error.

use std::sync::{Arc, OnceLock};

use pilothouse_object::{Dictionary, FieldSelector, Gvk, ListDecoder, Object, Pointer, Projection};
use proptest::prelude::*;
use serde::de::IgnoredAny;

fn pod() -> Gvk {
    Gvk::new("", "v1", "Pod")
}

fn trusted(text: &str) -> Object {
    Object::decode_trusted(text.as_bytes(), &pod()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Fields that are not JSON and have an end.
const BROKEN: &[&str] = &[
    "{]",
    "[}",
    "{\"a\":}",
    "{\"a\":tru}",
    "{\"a\" 1}",
    "[1 2]",
    "[01]",
    "{\"a\":\"\\x\"}",
    "{\"a\":\"\u{1}\"}",
    "{\"a\":\"\n\"}",
    "{é}",
    "{\\\"}",
];

#[test]
fn a_field_that_is_not_json_is_an_error_of_whoever_parses_it() {
    for broken in BROKEN {
        let text = format!(
            r#"{{"metadata":{{"name":"own","labels":{{"a":"b"}}}},"spec":{broken},"status":{{"phase":"Running"}}}}"#
        );
        assert!(Object::decode_as(text.as_bytes(), &pod()).is_err(), "{broken}");
        let object = trusted(&text);
        assert_eq!((object.key().as_str(), object.label("a").as_deref()), ("own", Some("b")));
        assert_eq!((object.get("/spec"), object.get("/status/phase")), (Some(*broken), Some("\"Running\"")));
        assert!(!is_json(object.json()));
        // A projection keeps it where a pointer leads into it, and what it leaves out is an error of nobody.
        let inside = Projection::parse(["/spec/a/b"]).unwrap().apply(&object);
        assert_eq!((inside.get("/spec"), inside.is_partial()), (Some(*broken), true));
        let beside = Projection::parse(["/status"]).unwrap().apply(&object);
        assert!(is_json(beside.json()) && beside.get("/status").is_some(), "{}", beside.json());
    }
}

/// Recordings mask the values of Secrets, and must find them.
#[test]
fn a_secret_is_validated_as_a_whole() {
    let secret = Gvk::new("", "v1", "Secret");
    let text = |data: &str| format!(r#"{{"metadata":{{"name":"own"}},"data":{data}}}"#);
    for broken in BROKEN {
        assert!(Object::decode_trusted(text(broken).as_bytes(), &secret).is_err(), "{broken}");
        let mut list = ListDecoder::new(secret.clone());
        let page = format!(r#"{{"kind":"SecretList","items":[{}]}}"#, text(broken));
        let taken = list.push(page.as_bytes(), &mut |_| {}).and_then(|()| list.finish(&mut |_| {}));
        assert!(taken.is_err(), "{broken}");
    }
    assert!(Object::decode_trusted(text(r#"{"a":"Yg=="}"#).as_bytes(), &secret).is_ok());
}

#[test]
fn a_projection_into_a_field_that_has_no_members_or_elements_to_visit_keeps_it_whole() {
    for broken in ["{\"a\":1]", "[1}", "{\"a\":1 2}", "[1 2]", "{1}", "{\"a\":[1 2]}"] {
        let object = trusted(&format!(r#"{{"metadata":{{"name":"own"}},"spec":{broken}}}"#));
        let projected = Projection::parse(["/spec/a/[*]/b", "/spec/[*]/c"]).unwrap().apply(&object);
        assert_eq!(projected.get("/spec"), Some(broken));
    }
}

#[test]
fn what_the_host_reads_is_validated() {
    for text in [
        // No end.
        r#"{"metadata":{"name":"a"},"spec":{"a":1}"#,
        r#"{"metadata":{"name":"a"},"spec":{"a":"b}}"#,
        r#"{"metadata":{"name":"a"},"spec":[{]}"#,
        // A scalar, a name of a field, and what is between fields.
        r#"{"metadata":{"name":"a"},"spec":tru}"#,
        r#"{"metadata":{"name":"a"},"spec":"\x"}"#,
        r#"{"metadata":{"name":"a"},"\ud800":1}"#,
        r#"{"metadata":{"name":"a"},"spec":{}]}"#,
        r#"{"metadata":{"name":"a"} "spec":{}}"#,
        r#"{"metadata":{"name":"a"},"spec":{}}}"#,
        // Metadata.
        r#"{"metadata":{"name":"a","labels":{]},"spec":{}}"#,
        r#"{"metadata":{"name":"a","annotations":{"a":tru}},"spec":{}}"#,
        r#"{"metadata":{"name":"a","finalizers":[}},"spec":{}}"#,
        r#"{"metadata":{"name":"a"},"spec":{},"metadata":{"name":"b"}}"#,
        r#"{"metadata":{"name":"a"},"apiVersion":[},"spec":{}}"#,
    ] {
        assert!(Object::decode_trusted(text.as_bytes(), &pod()).is_err(), "{text}");
    }
    let bytes = b"{\"metadata\":{\"name\":\"a\"},\"spec\":{\"a\":\"\xff\"}}";
    assert!(Object::decode_trusted(bytes, &pod()).is_err());
}

#[test]
fn what_was_decoded_once_is_decoded_again() {
    for broken in BROKEN {
        let object = trusted(&format!(r#"{{"metadata":{{"name":"own"}},"spec":{broken}}}"#));
        let again = Object::decode_again(object.json(), true).unwrap();
        assert_eq!((again.json(), again.key(), again.is_partial()), (object.json(), object.key(), true));
    }
    assert!(Object::decode_again(r#"{"metadata":{"name":"own"}}"#, false).is_err());
}

fn dictionary() -> &'static Arc<Dictionary> {
    static DICTIONARY: OnceLock<Arc<Dictionary>> = OnceLock::new();
    DICTIONARY.get_or_init(|| {
        let samples: Vec<Object> = (0..128).map(|n| trusted(&with_spec(&format!("{{\"n\":{n}}}")))).collect();
        Dictionary::train(&samples).unwrap()
    })
}

/// An object with a field of any text, and one that compresses well.
fn with_spec(spec: &str) -> String {
    let data = "server.port=8080\\nserver.address=0.0.0.0\\nlogging.level=info\\n".repeat(20);
    format!(
        r#"{{"metadata":{{"name":"own","uid":"u","labels":{{"a":"b"}}}},"spec":{spec},"data":{{"k":"{data}"}}}}"#
    )
}

/// Everything that an object says without its body.
fn header(object: &Object) -> String {
    format!(
        "{:?} {} {} {:?} {:?} {:?} {:?}",
        object.key(),
        object.uid(),
        object.resource_version(),
        object.labels(),
        object.annotations(),
        object.owner_references(),
        object.gvk(),
    )
}

/// Tokens of JSON in any order.
fn hostile() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        "{",
        "}",
        "\"",
        "\"a\"",
        "\"b\":",
        "\\",
        ":",
        ",",
        "1",
        "null",
        " ",
        "é",
        "\u{1}",
        "\"metadata\":{\"name\":\"other\"}",
    ]);
    prop::collection::vec(token, 0..24).prop_map(|tokens| tokens.concat())
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z\"\\\\{}\\[\\],:\n]{0,20}".prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-z\"\\\\{}]{0,8}", inner, 0..6)
                .prop_map(|m| m.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn json_decodes_as_it_does_with_all_of_it_validated(
        spec in json(), status in json(), managed in json(), pretty: bool, first: bool,
    ) {
        let write = |value: &serde_json::Value| {
            if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }.unwrap()
        };
        let (spec, status, managed) = (write(&spec), write(&status), write(&managed));
        let metadata = format!(r#""metadata":{{"name":"own","managedFields":{managed},"labels":{{"a":"b"}}}}"#);
        let status = format!(r#""status":{status}"#);
        let (one, two) = if first { (metadata, status) } else { (status, metadata) };
        let text = format!(r#"{{{one},"spec":{spec},{two}}}"#);
        let (object, wanted) = (trusted(&text), Object::decode_as(text.as_bytes(), &pod()).unwrap());
        prop_assert_eq!(object.json(), wanted.json());
        prop_assert_eq!(header(&object), header(&wanted));
        prop_assert!(is_json(object.json()));
    }

    #[test]
    fn text_that_is_not_json_is_refused_or_an_error_of_each_reader_under_its_own_key(spec in hostile()) {
        let text = with_spec(&spec);
        let strict = Object::decode_as(text.as_bytes(), &pod());
        let Ok(object) = Object::decode_trusted(text.as_bytes(), &pod()) else {
            prop_assert!(strict.is_err());
            return Ok(());
        };
        prop_assert_eq!(object.key().as_str(), "own");
        prop_assert_eq!(is_json(object.json()), strict.is_ok());
        for pointer in ["/spec/a", "/spec/b/1", "/spec/[*]/b", "/data/k", "/spec/a/[*]"] {
            object.select(&pointer.parse::<Pointer>().unwrap(), |_| {});
            let _ = object.get(pointer);
            let projected = Projection::parse([pointer]).unwrap().apply(&object);
            prop_assert_eq!(projected.key(), object.key());
            prop_assert!(projected.is_partial());
            let again = Object::decode_again(projected.json(), true).unwrap();
            prop_assert_eq!(again.json(), projected.json());
            prop_assert!(strict.is_err() || is_json(projected.json()));
            let _ = projected.marked_json();
        }
        let _ = "spec.a=1,data.k!=x".parse::<FieldSelector>().unwrap().matches(&object);
        let packed = object.packed(dictionary());
        prop_assert!(packed.is_packed());
        prop_assert_eq!((packed.json(), header(&packed)), (object.json(), header(&object)));
        let unpacked = packed.unpacked();
        prop_assert_eq!(unpacked.json(), object.json());
    }
}
