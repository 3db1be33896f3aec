//! The decoder against objects that Go has written, and against bodies that nobody has.

use std::collections::HashSet;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::table::ProtobufTypes;
use super::wire::{Reader, WireError};
use super::{MAX_VALUES, Problem, ProtobufError, decode};

/// An object in both forms; `controlplane protobuf` makes them.
#[derive(Deserialize)]
struct Vector {
    protobuf: String,
    json: Value,
}

impl Vector {
    fn body(&self) -> Vec<u8> {
        STANDARD.decode(&self.protobuf).unwrap()
    }
}

static VECTORS: LazyLock<Vec<Vector>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../tests/data/protobuf.json")).unwrap());

#[test]
fn each_object_is_the_json_that_go_writes_of_it() {
    assert!(VECTORS.len() > 300);
    for vector in VECTORS.iter() {
        let decoded = decode(&vector.body()).unwrap_or_else(|e| panic!("{e}: {}", vector.json));
        assert_eq!(decoded, vector.json);
    }
}

#[test]
fn there_is_an_object_of_each_kind() {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let kind = |v: &Vector| match text(&v.json["kind"]) {
        kind if kind == "DeleteOptions" => format!("*/{kind}"),
        kind => format!("{}/{kind}", text(&v.json["apiVersion"])),
    };
    let tried: HashSet<String> = VECTORS.iter().map(kind).collect();
    let known: HashSet<String> = ProtobufTypes::builtin().kinds().map(str::to_owned).collect();
    assert_eq!(tried, known);
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut written = Vec::new();
    while value >= 0x80 {
        written.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    written.push(value as u8);
    written
}

/// A record with bytes.
fn part(number: u64, content: &[u8]) -> Vec<u8> {
    [&varint(number << 3 | 2)[..], &varint(content.len() as u64), content].concat()
}

/// A body with an object of the kind.
fn body(api_version: &str, kind: &str, content: &[u8]) -> Vec<u8> {
    let about = [part(1, api_version.as_bytes()), part(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), part(1, &about), part(2, content)].concat()
}

fn decoded(api_version: &str, kind: &str, content: &[u8]) -> Value {
    decode(&body(api_version, kind, content)).unwrap()
}

/// The path and the problem of an object that is wrong.
fn problem(api_version: &str, kind: &str, content: &[u8]) -> (String, Problem) {
    match decode(&body(api_version, kind, content)) {
        Err(ProtobufError::Object { path, problem, .. }) => (path, problem),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_envelope_of_an_object_is_refused() {
    let about = part(1, &[part(1, b"v1"), part(2, b"ConfigMap")].concat());
    let with = |more: &[u8]| decode(&[b"k8s\0", &about[..], more].concat());
    assert_eq!(with(&[]).unwrap(), json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}));
    assert!(with(&part(4, b"application/vnd.kubernetes.protobuf")).is_ok());
    assert_eq!(with(&part(3, b"gzip")), Err(ProtobufError::Encoding("gzip".to_owned())));
    assert_eq!(
        with(&part(4, b"application/json")),
        Err(ProtobufError::ContentType("application/json".to_owned()))
    );
    assert_eq!(with(&[0x12, 5]), Err(ProtobufError::Envelope(WireError::Truncated.into())));
    for start in [&b""[..], b"k8s", b"{}", b"K8s\0"] {
        assert_eq!(decode(start), Err(ProtobufError::Magic));
    }
    let unknown = decode(&body("v2", "ConfigMap", b"")).unwrap_err();
    assert_eq!(unknown.to_string(), r#"there is no kind "ConfigMap" in version "v2""#);
    assert!(matches!(decode(b"k8s\0"), Err(ProtobufError::Kind { .. })));
}

#[test]
fn the_options_of_a_deletion_are_the_same_in_every_version() {
    for version in ["v1", "apps/v1", "example.org/v1", ""] {
        let options = decoded(version, "DeleteOptions", &[8, 30]);
        assert_eq!(options["gracePeriodSeconds"], 30, "{version}");
    }
}

#[test]
fn unknown_fields_are_skipped_and_the_last_scalar_counts() {
    // A varint, eight bytes, four bytes, bytes and a group in a group, all of field 15; then the name twice.
    let unknown = [
        &[15 << 3, 0xff, 1, 15 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0, 15 << 3 | 5, 0, 0, 0, 0][..],
        &part(15, b"x"),
        &[15 << 3 | 3, 1 << 3 | 3, 8, 1, 1 << 3 | 4, 15 << 3 | 4],
    ]
    .concat();
    let metadata = [unknown.clone(), part(1, b"a"), part(1, b"b")].concat();
    // A message in two pieces is one.
    let content = [part(1, &metadata), unknown, part(1, &part(3, b"c"))].concat();
    assert_eq!(decoded("v1", "ConfigMap", &content)["metadata"], json!({"name": "b", "namespace": "c"}));
}

#[test]
fn lists_of_numbers_come_packed_and_one_by_one() {
    // fsGroup's neighbour supplementalGroups: field 4 of a pod's security context, field 14 of its spec.
    let groups = [&[4 << 3, 7][..], &part(4, &[1, 0x80, 1]), &[4 << 3, 9], &part(4, &[])].concat();
    let pod = decoded("v1", "Pod", &part(2, &part(14, &groups)));
    assert_eq!(pod["spec"]["securityContext"]["supplementalGroups"], json!([7, 1, 128, 9]));
}

#[test]
fn entries_of_maps_may_lack_either_part() {
    let data = [part(2, &part(2, b"v")), part(2, &part(1, b"k")), part(3, &part(1, b"b"))].concat();
    let object = decoded("v1", "ConfigMap", &data);
    assert_eq!(object["data"], json!({"": "v", "k": ""}));
    assert_eq!(object["binaryData"], json!({"b": ""}));
}

#[test]
fn an_error_names_the_field_and_what_is_wrong() {
    let wrong = |content: &[u8]| problem("v1", "ConfigMap", content);
    let metadata = || "metadata".to_owned();
    assert_eq!(wrong(&[0x0a, 0xff]), (String::new(), WireError::Truncated.into()));
    assert_eq!(wrong(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]), (String::new(), WireError::Truncated.into()));
    assert_eq!(wrong(&[&[8][..], &[0xff; 11]].concat()), (String::new(), WireError::TooLong.into()));
    assert_eq!(wrong(&[0, 0]), (String::new(), WireError::Number(0).into()));
    assert_eq!(wrong(&[0x0f]), (String::new(), WireError::Type(7).into()));
    assert_eq!(wrong(&[0x0c]), (String::new(), WireError::GroupEnd.into()));
    assert_eq!(wrong(&[0x0b, 8, 1]), (String::new(), WireError::Truncated.into()));
    assert_eq!(wrong(&[8, 1]), (metadata(), Problem::WireType));
    assert_eq!(wrong(&part(1, &part(1, &[0xff]))), ("metadata.name".to_owned(), Problem::Text));
    assert_eq!(wrong(&part(1, &[8, 1])), ("metadata.name".to_owned(), Problem::WireType));
    let time = |seconds: u64| wrong(&part(1, &part(8, &[vec![8], varint(seconds)].concat())));
    let path = || "metadata.creationTimestamp".to_owned();
    // The year 10000, the end of all seconds, and the year 0.
    for seconds in [253_402_300_800, u64::MAX / 2, -62_135_596_801_i64 as u64] {
        assert_eq!(time(seconds), (path(), Problem::Time));
    }
    let data = |content: &[u8]| problem("apps/v1", "ControllerRevision", &part(2, &part(1, content)));
    assert!(matches!(data(b"{"), (path, Problem::Json(_)) if path == "data"));
    assert_eq!(decoded("apps/v1", "ControllerRevision", &part(2, &part(1, b"")))["data"], Value::Null);
    assert_eq!(Reader::new(&[0x0a, 9, 8, 1]).count(), 1, "nothing comes behind an error");
    let message = decode(&body("v1", "ConfigMap", &part(1, &part(1, &[0xff])))).unwrap_err().to_string();
    assert_eq!(message, "ConfigMap.metadata.name: the text is not UTF-8");
    let message = decode(&body("v1", "ConfigMap", &[0x0a, 1])).unwrap_err().to_string();
    assert_eq!(message, "ConfigMap: it ends in the middle of a field");
}

#[test]
fn a_quantity_must_be_one() {
    let quota = |text: &str| {
        let entry = [part(1, b"cpu"), part(2, &part(1, text.as_bytes()))].concat();
        decode(&body("v1", "ResourceQuota", &part(2, &part(1, &entry))))
    };
    for valid in ["0", "1", "-500m", "+1.5Gi", ".5", "1e3", "1E-3", "2E", "12Ki"] {
        assert_eq!(quota(valid).unwrap()["spec"]["hard"]["cpu"], valid);
    }
    // One without its text is the zero of its kind.
    let nothing = decoded("v1", "ResourceQuota", &part(2, &part(1, &part(1, b"cpu"))));
    assert_eq!(nothing["spec"]["hard"]["cpu"], "0");
    for invalid in ["", "-", ".", "m", "1 Gi", "1mi", "1e", "1e1.5", "0x1", "--1", "1Gi "] {
        assert!(
            matches!(quota(invalid), Err(ProtobufError::Object { problem: Problem::Quantity(_), .. })),
            "{invalid:?}"
        );
    }
}

#[test]
fn an_intorstring_of_neither_type_is_refused() {
    // spec.ports (1) of a service, targetPort (4).
    let service = |port: &[u8]| part(2, &part(1, &part(4, port)));
    let (path, problem) = problem("v1", "Service", &service(&[8, 2]));
    assert_eq!((path.as_str(), problem), ("spec.ports.targetPort", Problem::IntOrString(2)));
    assert_eq!(decoded("v1", "Service", &service(&[16, 80]))["spec"]["ports"][0]["targetPort"], 80);
    let port = decoded("v1", "Service", &service(&[8, 1]))["spec"]["ports"][0]["targetPort"].clone();
    assert_eq!(port, "");
}

#[test]
fn a_number_is_written_as_go_does_and_refused_if_json_has_it_not() {
    let schema = |number: f64| {
        let schema = [&[9 << 3 | 1][..], &number.to_le_bytes()].concat();
        // spec.versions (7).schema (4).openAPIV3Schema (1).maximum (9)
        let spec = part(7, &part(4, &part(1, &schema)));
        decode(&body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &part(2, &spec)))
    };
    for (number, written) in
        [(1.5, "1.5"), (-3.0, "-3"), (-0.0, "-0.0"), (2e19, "2e+19"), (1e19, "10000000000000000000")]
    {
        let object = schema(number).unwrap();
        assert_eq!(
            object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["maximum"].to_string(),
            written
        );
    }
    for number in [f64::NAN, f64::INFINITY] {
        assert!(matches!(schema(number), Err(ProtobufError::Object { problem: Problem::Number, .. })));
    }
}

/// A definition with schemas so deep in each other, each made from the one inside it.
fn deep(levels: usize, outer: fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let schema = (0..levels).fold(Vec::new(), |schema, _| outer(&schema));
    let spec = part(7, &part(4, &part(1, &schema)));
    body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &part(2, &spec))
}

/// Puts bytes into something larger.
type Wrap = fn(&[u8]) -> Vec<u8>;

#[test]
fn depth_ends_where_that_of_json_does() {
    let outers: [Wrap; 5] = [
        // not, additionalProperties, items as a schema and as a list, dependencies
        |schema| part(28, schema),
        |schema| part(30, &part(2, schema)),
        |schema| part(24, &part(1, schema)),
        |schema| part(24, &part(2, schema)),
        |schema| part(32, &part(2, &part(1, schema))),
    ];
    for outer in outers {
        let depth = |levels| match decode(&deep(levels, outer)) {
            Ok(object) => {
                let read: Result<Value, _> = serde_json::from_str(&object.to_string());
                assert_eq!(read.unwrap(), object);
                true
            }
            Err(ProtobufError::Object { problem: Problem::Depth, .. }) => false,
            Err(other) => panic!("{other}"),
        };
        let deepest = (1..200).take_while(|levels| depth(*levels)).last().unwrap();
        assert!(deepest > 50);
        assert!(!depth(deepest + 1) && !depth(1000));
    }
    // JSON inside counts too.
    let data = |levels: usize| {
        let text = "[".repeat(levels) + &"]".repeat(levels);
        decode(&body("apps/v1", "ControllerRevision", &part(2, &part(1, text.as_bytes()))))
    };
    assert!(data(126).is_ok());
    assert!(data(127).is_err());
}

#[test]
fn a_few_bytes_do_not_become_many_values() {
    // Each empty container has two values.
    let spec = part(2, &[]).repeat(MAX_VALUES / 2);
    assert_eq!(problem("v1", "Pod", &part(2, &spec)), ("spec.containers".to_owned(), Problem::Values));
    let groups = part(4, &vec![1; MAX_VALUES]);
    assert_eq!(problem("v1", "Pod", &part(2, &part(14, &groups))).1, Problem::Values);
    // And a length that is not there takes no memory.
    assert!(decode(&[b"k8s\0\x12", &[0xff, 0xff, 0xff, 0xff, 0x7f][..]].concat()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_bytes_never_panic(content in prop::collection::vec(any::<u8>(), 0..200), raw in any::<bool>()) {
        let kinds = ProtobufTypes::builtin().kinds().map(str::to_owned).collect::<HashSet<_>>();
        for kind in kinds.iter().filter_map(|k| k.rsplit_once('/')) {
            let _ = decode(&body(kind.0, kind.1, &content));
        }
        let _ = decode(&content);
        if raw {
            let _ = decode(&[b"k8s\0", &content[..]].concat());
        }
    }

    #[test]
    fn random_damage_never_panics(
        vector in 0..VECTORS.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..4), 1..8),
    ) {
        let mut body = VECTORS[vector].body();
        for (place, byte, how) in damage {
            let place = place.index(body.len());
            match how {
                0 => body[place] = byte,
                1 => body.insert(place, byte),
                2 if body.len() > 1 => {
                    body.remove(place);
                }
                _ => body[place] ^= 1 << (byte % 8),
            }
            // What is decoded nevertheless is JSON that can be written and read.
            if let Ok(object) = decode(&body) {
                let read: Value = serde_json::from_str(&object.to_string()).unwrap();
                prop_assert!(read.is_object());
            }
        }
        let _ = decode(&body[..body.len() / 2]);
    }
}
