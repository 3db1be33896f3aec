use serde_json::{Value, json};

use super::{HOUR, ago, now, object};
use crate::printing::{CustomColumn, custom_cells};

fn widget() -> Value {
    object(
        "example.org/v1",
        "Widget",
        "w",
        json!({
            "metadata": {"labels": {"plain": "p", "example.org/color": "red"}},
            "spec": {"replicas": 3, "ratio": 0.5, "whole": 2.0, "big": 1e21, "paused": true, "nothing": null, "sizes": [1, 2, 3], "tags": {"a": "<b>"}},
            "status": {
                "since": ago(5 * HOUR),
                "conditions": [
                    {"type": "Synced", "status": "False", "weight": 1},
                    {"type": "Ready", "status": "True", "reason": "All]Good", "weight": 2},
                ],
            },
        }),
    )
}

#[track_caller]
fn assert_cell(kind: &str, path: &str, expected: Value) {
    let column = json!({"name": "Column", "type": kind, "jsonPath": path});
    let column: CustomColumn = serde_json::from_value(column).unwrap();
    assert_eq!(custom_cells(&[column], &widget(), now()), [json!("w"), expected], "{path}");
}

#[test]
fn a_definition_without_columns_has_an_age() {
    assert_eq!(custom_cells(&[], &widget(), now()), [json!("w"), json!("10d")]);
}

#[test]
fn a_cell_is_of_the_type_of_its_column_or_null() {
    assert_cell("integer", ".spec.replicas", json!(3));
    assert_cell("integer", ".spec.ratio", json!(0));
    assert_cell("integer", ".spec.paused", json!(null));
    assert_cell("number", ".spec.ratio", json!(0.5));
    assert_cell("number", ".spec.whole", json!(2));
    assert_cell("number", ".spec.replicas", json!(3));
    assert_cell("boolean", ".spec.paused", json!(true));
    assert_cell("boolean", ".spec.replicas", json!(null));
    assert_cell("date", ".metadata.creationTimestamp", json!("10d"));
    assert_cell("date", ".status.since", json!("5h"));
    assert_cell("date", ".metadata.name", json!("<invalid>"));
    assert_cell("date", ".spec.replicas", json!(null));
    assert_cell("colour", ".spec.replicas", json!(null));
    assert_cell("integer", ".spec.missing", json!(null));
}

#[test]
fn everything_can_be_shown_as_a_string() {
    assert_cell("string", ".metadata.name", json!("w"));
    assert_cell("string", ".spec.replicas", json!("3"));
    assert_cell("string", ".spec.ratio", json!("0.5"));
    assert_cell("string", ".spec.whole", json!("2"));
    assert_cell("string", ".spec.big", json!("1e+21"));
    assert_cell("string", ".spec.paused", json!("true"));
    assert_cell("string", ".spec.sizes", json!("[1,2,3]"));
    assert_cell("string", ".spec.tags", json!("{\"a\":\"\\u003cb\\u003e\"}"));
    assert_cell("string", ".spec.nothing", json!("<no value>"));
    assert_cell("string", ".spec.missing", json!(null));
    assert_cell("string", ".spec.replicas.deeper", json!(null));
}

#[test]
fn a_dot_in_a_name_is_escaped_also_inside_quotes() {
    assert_cell("string", ".metadata.labels.plain", json!("p"));
    assert_cell("string", ".metadata.labels['plain']", json!("p"));
    assert_cell("string", r".metadata.labels.example\.org/color", json!("red"));
    assert_cell("string", r".metadata.labels['example\.org/color']", json!("red"));
    assert_cell("string", ".metadata.labels['example.org/color']", json!(null));
}

#[test]
fn elements_are_selected_by_index_and_slice() {
    assert_cell("integer", ".spec.sizes[0]", json!(1));
    assert_cell("integer", ".spec.sizes[-1]", json!(3));
    assert_cell("integer", ".spec.sizes[*]", json!(1));
    assert_cell("integer", ".spec.sizes.*", json!(1));
    assert_cell("integer", ".spec.sizes[1:]", json!(2));
    assert_cell("integer", ".spec.sizes[-2:3]", json!(2));
    assert_cell("integer", ".spec.sizes[2:2]", json!(null));
    assert_cell("integer", ".spec.sizes[3]", json!(null));
    assert_cell("integer", ".spec.sizes[1:9]", json!(null));
    assert_cell("integer", ".spec.replicas[0]", json!(null));
    assert_cell("string", ".status.conditions[*].type", json!("Synced"));
    assert_cell("string", ".status.conditions[1].type", json!("Ready"));
}

#[test]
fn filters_compare_what_elements_hold() {
    assert_cell("string", r#".status.conditions[?(@.type=="Ready")].status"#, json!("True"));
    assert_cell("string", r".status.conditions[?(@.type=='Ready')].status", json!("True"));
    assert_cell("string", r#".status.conditions[?(@.type == "Ready")].status"#, json!("True"));
    assert_cell("string", r#".status.conditions[?(@.type!="Ready")].status"#, json!("False"));
    assert_cell("string", r#".status.conditions[?(@.reason=="All]Good")].type"#, json!("Ready"));
    assert_cell("string", r#".status.conditions[?(@.type=="Gone")].status"#, json!(null));
    assert_cell("string", ".status.conditions[?(@.weight>1)].type", json!("Ready"));
    assert_cell("string", ".status.conditions[?(@.weight<=1)].type", json!("Synced"));
    assert_cell("string", ".status.conditions[?(@.reason)].type", json!("Ready"));
    assert_cell("string", r#".status.conditions[?(@.weight=="1")].type"#, json!(null));
    assert_cell("string", r#".spec.tags[?(@.type=="Ready")].status"#, json!(null));
}

#[test]
fn a_path_outside_the_subset_selects_nothing() {
    for path in [
        "spec",
        "[",
        ".spec[",
        ".spec[?(",
        ".spec['a]",
        ".spec[a]",
        ".spec.sizes[::0]",
        ".a[?(@.b=1)]",
        ".a[?(@.b==x)]",
    ] {
        assert_cell("string", path, json!(null));
    }
}
