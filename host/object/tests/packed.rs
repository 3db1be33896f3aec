//! Property tests: every accessor returns the same for a packed object as for the plain one.

use std::sync::{Arc, OnceLock};

use pilothouse_object::{Dictionary, LabelSelector, Object};
use proptest::prelude::*;

/// The random parts of an object as JSON; empty for an absent member.
#[derive(Debug, Clone)]
struct Metadata {
    labels: String,
    annotations: String,
    owners: String,
    uid: String,
    version: String,
    deletion: bool,
    generation: Option<i64>,
    /// Whether labels and version come first in the text.
    turned: bool,
}

fn object(metadata: &Metadata) -> Object {
    let member = |name: &str, value: &str| {
        if value.is_empty() { String::new() } else { format!(r#","{name}":{value}"#) }
    };
    let generation = metadata.generation.map(|number| number.to_string()).unwrap_or_default();
    let mut parts = [
        member("uid", &metadata.uid),
        member("generation", &generation),
        member("deletionTimestamp", if metadata.deletion { r#""2026-01-01T00:00:00Z""# } else { "" }),
        member("annotations", &metadata.annotations),
        member("ownerReferences", &metadata.owners),
        member("resourceVersion", &metadata.version),
        member("labels", &metadata.labels),
    ];
    if metadata.turned {
        parts.reverse();
    }
    let rest =
        "server.port=8080\\nserver.address=0.0.0.0\\nlogging.level=info\\nmetrics.enabled=true\\n".repeat(20);
    let parts = parts.concat();
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"n","namespace":"s"{parts}}},"data":{{"k":"{rest}"}}}}"#
    );
    Object::decode(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn dictionary() -> &'static Arc<Dictionary> {
    static DICTIONARY: OnceLock<Arc<Dictionary>> = OnceLock::new();
    DICTIONARY.get_or_init(|| {
        let sample = |n: u32| Metadata {
            labels: format!(r#"{{"app":"x{n}","b":"1"}}"#),
            annotations: format!(r#"{{"n":"{n}"}}"#),
            owners: format!(r#"[{{"apiVersion":"v1","kind":"Node","name":"n","uid":"{}"}}]"#, n % 7),
            uid: format!("\"uid-{n}\""),
            version: format!("\"{n}\""),
            deletion: false,
            generation: Some(1),
            turned: false,
        };
        let samples: Vec<Object> = (0..128).map(|n| object(&sample(n))).collect();
        Dictionary::train(&samples).unwrap()
    })
}

/// The JSON of a map, usually in the API's form. Names and values come from small sets, so that objects share some.
fn map() -> impl Strategy<Value = String> {
    let name = prop_oneof![8 => "[a-d]{1,2}", 1 => Just("\\u0061".to_owned()), 1 => Just("é\\\"".to_owned())];
    let value = prop_oneof![
        12 => "[a-z.]{0,3}".prop_map(|text| format!("\"{text}\"")),
        1 => Just(r#""\u0078\n\\""#.to_owned()),
        1 => Just(r#""ü=, ""#.to_owned()),
        1 => prop::sample::select(vec!["1", "null", "{\"a\":\"b\"}", "[\"a\"]", "\"\\ud800\""]).prop_map(str::to_owned),
    ];
    let members = prop::collection::vec((name, value), 0..5);
    let written =
        (members, any::<bool>(), prop::bool::weighted(0.2)).prop_map(|(mut members, sorted, wide)| {
            if sorted {
                members.sort();
                members.dedup_by(|a, b| a.0 == b.0);
            }
            let (colon, comma) = if wide { (" : ", " ,\n") } else { (":", ",") };
            let members: Vec<String> =
                members.into_iter().map(|(name, value)| format!("\"{name}\"{colon}{value}")).collect();
            format!("{{{}}}", members.join(comma))
        });
    prop_oneof![10 => written, 1 => Just(String::new()), 1 => Just("null".to_owned()), 1 => Just("[]".to_owned())]
}

fn owners() -> impl Strategy<Value = String> {
    let owner = |n: u8| {
        format!(
            r#"[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r{n}","uid":"u{n}","controller":true}}]"#
        )
    };
    let odd = prop::sample::select(vec!["", "null", "[]", "[{}]", "[ ]", r#"[{"a":"\n"}]"#]);
    prop_oneof![3 => (0..3_u8).prop_map(owner), 1 => odd.prop_map(str::to_owned)]
}

fn metadata() -> impl Strategy<Value = Metadata> {
    let text = |texts: Vec<&'static str>| prop::sample::select(texts).prop_map(str::to_owned);
    (
        (map(), map(), owners()),
        text(vec!["", "\"\"", "\"u\\u0026\"", "\"0b7c34ae-9d0e-4b0c-a3f0-2f0f0b3e7f11\""]),
        text(vec!["", "\"7\"", "\"123456789012345\"", "\"12345678901234567890\"", "\"1\\u0030\""]),
        any::<bool>(),
        prop::option::of(prop_oneof![0..9_i64, any::<i64>(), Just(i64::from(u32::MAX))]),
        any::<bool>(),
    )
        .prop_map(|((labels, annotations, owners), uid, version, deletion, generation, turned)| {
            Metadata { labels, annotations, owners, uid, version, deletion, generation, turned }
        })
}

/// The results of all accessors of an object.
fn said(object: &Object) -> String {
    let selects = |text: &str| text.parse::<LabelSelector>().unwrap().matches(object);
    let labels = ["a", "b", "c", "ab", "é\"", "none"].map(|name| object.label(name));
    let selected = ["a", "!a", "a=b,b!=c", "b in (a,b,)", "c notin (x)"].map(selects);
    format!(
        "{:?} {:?} {:?} {labels:?} {selected:?} {:?} {:?} {:?} {} {}",
        (
            object.key(),
            object.uid(),
            object.resource_version(),
            object.generation(),
            object.deletion_timestamp()
        ),
        (object.api_version(), object.kind(), object.is_partial()),
        object.labels(),
        object.owner_references(),
        object.annotations(),
        object.annotation("a"),
        object.json(),
        object.held().json_len(),
    )
}

/// Objects with values that are unusual or unlimited in the API stay plain or are unpacked unchanged.
#[test]
fn unusual_sizes_say_what_they_said() {
    let usual = Metadata {
        labels: r#"{"app":"x"}"#.to_owned(),
        annotations: String::new(),
        owners: String::new(),
        uid: r#""u""#.to_owned(),
        version: r#""1""#.to_owned(),
        deletion: false,
        generation: None,
        turned: false,
    };
    let labels: Vec<String> = (0..2000).map(|n| format!(r#""n{n}":"""#)).collect();
    let owner = r#"{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}"#;
    for (unusual, is_packed) in [
        (usual.clone(), true),
        (Metadata { labels: format!("{{{}}}", labels.join(",")), ..usual.clone() }, false),
        (Metadata { owners: format!("[{}]", [owner; 100].join(",")), ..usual.clone() }, false),
        (Metadata { uid: format!(r#""{}""#, "u".repeat(256)), ..usual.clone() }, false),
        (Metadata { version: format!(r#""{}""#, "9".repeat(255)), ..usual.clone() }, true),
        // The members after it are too far from the start to be cut out.
        (Metadata { annotations: format!(r#"{{"a":"{}"}}"#, "x".repeat(70_000)), ..usual }, true),
    ] {
        let plain = object(&unusual);
        let packed = plain.packed(dictionary());
        assert_eq!(packed.is_packed(), is_packed, "{}", plain.json().len());
        assert_eq!(packed.json(), plain.json());
        assert_eq!((packed.uid(), packed.resource_version()), (plain.uid(), plain.resource_version()));
        assert_eq!((packed.labels(), packed.owner_references()), (plain.labels(), plain.owner_references()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn packed_and_plain_objects_answer_alike(a in metadata(), b in metadata()) {
        let [a, b] = [a, b].map(|metadata| object(&metadata));
        let [pa, pb] = [&a, &b].map(|object| object.packed(dictionary()));
        prop_assert_eq!(said(&pa), said(&a));
        prop_assert_eq!(said(&pb), said(&b));
        prop_assert_eq!(said(&pa.unpacked()), said(&a));
        for (x, y) in [(&pa, &b), (&a, &pb), (&pa, &pb), (&b, &pa)] {
            prop_assert_eq!(x.same_labels(y), a.labels() == b.labels());
            prop_assert_eq!(x.same_annotations(y), a.annotations() == b.annotations());
        }
        prop_assert!(pa.same_labels(&a) && a.same_labels(&pa) && pa.same_annotations(&a));
    }

    #[test]
    fn objects_of_the_api_are_packed_in_whatever_order_they_are_written(
        labels in prop::collection::hash_map("[a-z./]{1,5}", "[a-z.]{0,3}", 0..5), mut metadata in metadata(),
    ) {
        metadata.labels = serde_json::to_string(&labels).unwrap();
        metadata.generation = Some(3);
        let plain = object(&metadata);
        let packed = plain.packed(dictionary());
        prop_assert!(packed.is_packed());
        prop_assert_eq!(said(&packed), said(&plain));
    }
}
