//! Fields whose places are recorded while an object is decoded read as a walk over the text finds them.

use pilothouse_object::{Gvk, Object, ObjectPart, Pointer};
use proptest::prelude::*;

fn decode(text: &str) -> Object {
    Object::decode_as(text.as_bytes(), &Gvk::new("", "v1", "Pod"))
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

const POINTERS: &[&str] = &[
    "",
    "/",
    "/spec",
    "/spec/",
    "/spec/a",
    "/spec/a/0/b",
    "/spec/1/a",
    "/status/a",
    "/data",
    "/pec/a",
    "/a\"spec",
    "/\"spec/a",
    "/,\"spec/a",
    "/x\":1,\"spec/a",
    "/\\u0073pec/a",
    "/a~1b/a",
    "/a~0b",
    "/a/b",
    "/metadata/name",
    "/apiVersion",
    "/none",
];

/// Members of an object, with names that are nearly alike, and perhaps twice.
fn members() -> impl Strategy<Value = Vec<String>> {
    let names = vec![
        "spec",
        "status",
        "data",
        "",
        "a\\\"spec",
        ",\\\"spec",
        "\\u0073pec",
        "\\\\u0073pec",
        "pec",
        "a/b",
        "a~1b",
        "a~b",
        ",",
        "spec\\\"",
    ];
    let values = vec![
        r#"{"a":[{"b":1},2],"b":{}}"#,
        r#"[1,{"a":"x"}]"#,
        r#""b,""#,
        r#""{""#,
        r#"",\"spec""#,
        "1",
        "null",
        "{}",
    ];
    let member = (prop::sample::select(names), prop::sample::select(values), prop::bool::weighted(0.1));
    let member = member.prop_map(|(name, value, wide)| {
        let colon = if wide { " : " } else { ":" };
        format!("\"{name}\"{colon}{value}")
    });
    prop::collection::vec(member, 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn a_pointer_finds_what_a_walk_from_the_start_finds(
        mut members in members(), at: prop::sample::Index, wide in prop::bool::weighted(0.2), kind: bool,
    ) {
        let metadata = r#""metadata":{"name":"own","managedFields":[{"a":"b"}],"labels":{"spec":"x"}}"#;
        members.insert(at.index(members.len() + 1), metadata.to_owned());
        if kind {
            members.insert(0, r#""kind":"Pod""#.to_owned());
        }
        let text = format!("{{{}}}", members.join(if wide { " ,\n" } else { "," }));
        let object = decode(&text);
        for text in POINTERS {
            let pointer: Pointer = text.parse().unwrap();
            prop_assert_eq!(object.get(text), pointer.first(object.json()), "{}", text);
        }
        for text in POINTERS.iter().copied().chain(["/spec/[*]", "/spec/[*]/a", "/[*]", "/status/a/[*]/b"]) {
            let pointer: Pointer = text.parse().unwrap();
            let (mut found, mut walked) = (Vec::new(), Vec::new());
            object.select(&pointer, |value| found.push(value));
            pointer.select(object.json(), |value| walked.push(value));
            prop_assert_eq!(found, walked, "{}", text);
        }
    }
}

#[test]
fn two_objects_have_the_same_text_in_a_part_or_it_is_not_known() {
    let make = |labels: &str, spec: &str| {
        decode(&format!(
            r#"{{"metadata":{{"name":"a","labels":{{"a":"{labels}"}},"annotations":{{}}}},"spec":{{"a":{spec}}},"status":{{}},"more":{{}}}}"#
        ))
    };
    let (one, other) = (make("1", "1"), make("2", "1"));
    let same = |part| one.held().has_same(other.held(), part);
    assert!(!same(ObjectPart::Labels) && same(ObjectPart::Annotations) && same(ObjectPart::OwnerReferences));
    assert!(same(ObjectPart::Field("spec")) && same(ObjectPart::Field("status")));
    // What is not recorded is not known: the third field, and one that is absent.
    assert!(!same(ObjectPart::Field("more")) && !same(ObjectPart::Field("none")));
    let other = make("1", "2");
    assert!(!one.held().has_same(other.held(), ObjectPart::Field("spec")));
    assert!(one.held().has_same(other.held(), ObjectPart::Labels));
}
