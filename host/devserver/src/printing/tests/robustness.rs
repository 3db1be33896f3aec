use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::now;
use crate::printing::{CustomColumn, cells, custom_cells};

/// Group, name and columns of every built-in resource that can be shown.
static RESOURCES: LazyLock<Vec<(String, String, usize)>> = LazyLock::new(|| {
    let table: Value = serde_json::from_str(include_str!("../../tables/resources.json")).unwrap();
    let mut resources = Vec::new();
    for group in table["groups"].as_array().unwrap() {
        for resource in
            group["versions"].as_array().unwrap().iter().flat_map(|v| v["resources"].as_array().unwrap())
        {
            if let Some(columns) = resource["columns"].as_array() {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                resources.push((text(&group["name"]), text(&resource["name"]), columns.len()));
            }
        }
    }
    resources
});

#[test]
fn every_resource_with_cells_of_its_own_has_as_many_as_columns() {
    let shown = |(group, resource, columns): &&(String, String, usize)| {
        let cells = cells(group, resource, &json!({}), now()).map(|cells| cells.len());
        assert!(cells.is_none_or(|cells| cells == *columns), "{group}/{resource}: {cells:?}");
        cells.is_some()
    };
    assert!(RESOURCES.iter().filter(shown).count() > 25);
}

#[test]
fn what_is_not_built_in_has_no_cells() {
    for (group, resource) in
        [("example.org", "widgets"), ("", "widgets"), ("apps", "pods"), ("storage.k8s.io", "")]
    {
        assert_eq!(cells(group, resource, &json!({}), now()), None);
    }
}

/// Names that the code looks for, so that random objects have them, with values of any type.
const KNOWN: [&str; 58] = [
    "metadata",
    "spec",
    "status",
    "name",
    "namespace",
    "labels",
    "annotations",
    "creationTimestamp",
    "deletionTimestamp",
    "ownerReferences",
    "controller",
    "apiVersion",
    "kind",
    "phase",
    "reason",
    "conditions",
    "type",
    "containers",
    "initContainers",
    "restartPolicy",
    "containerStatuses",
    "initContainerStatuses",
    "state",
    "lastState",
    "waiting",
    "terminated",
    "running",
    "exitCode",
    "signal",
    "finishedAt",
    "restartCount",
    "ready",
    "started",
    "podIPs",
    "ip",
    "replicas",
    "selector",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "template",
    "ports",
    "port",
    "metrics",
    "currentMetrics",
    "resource",
    "target",
    "averageValue",
    "subsets",
    "addresses",
    "rules",
    "capacity",
    "storage",
    "hard",
    "used",
    "series",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "Ready",
            "True",
            "Always",
            "Resource",
            "In",
            "1.5Gi",
            "2026-01-01T00:00:00Z",
            "Failed",
            ""
        ])
        .prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(7, 120, 8, |inner| {
        let name = prop_oneof![9 => prop::sample::select(KNOWN.to_vec()).prop_map(str::to_owned), 1 => ".{0,4}"];
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::vec((name, inner), 0..8).prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// An object whose well-known members have the right shape further down than chance would give.
fn any_object() -> impl Strategy<Value = Value> {
    let part = || {
        let member = (prop::sample::select(KNOWN.to_vec()), any_json());
        let members = prop::collection::vec(member, 0..10);
        members.prop_map(|members| {
            members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Value>()
        })
    };
    (part(), part(), part())
        .prop_map(|(metadata, spec, status)| json!({"metadata": metadata, "spec": spec, "status": status}))
}

/// Lists whose elements are counted and added up.
const LISTS: [&str; 5] = ["pools", "containerStatuses", "initContainerStatuses", "ports", "series"];
/// The numbers of such elements.
const NUMBERS: [&str; 8] = [
    "totalDevices",
    "availableDevices",
    "allocatedDevices",
    "unavailableDevices",
    "restartCount",
    "exitCode",
    "port",
    "count",
];

/// An object with numbers of any size in every list: sums of them may be beyond every number.
fn any_numbers() -> impl Strategy<Value = Value> {
    let element = prop::collection::vec(any::<i64>(), NUMBERS.len());
    prop::collection::vec(element, 0..4).prop_map(|elements| {
        let element =
            |numbers: &Vec<i64>| NUMBERS.iter().copied().zip(numbers.iter().copied()).collect::<Value>();
        let list: Value = elements.iter().map(element).collect();
        let lists: Value = LISTS.iter().map(|name| ((*name).to_owned(), list.clone())).collect();
        json!({"spec": lists, "status": lists})
    })
}

proptest! {
    #[test]
    fn no_object_makes_cells_panic(object in prop_oneof![any_json(), any_object(), any_numbers()]) {
        for (group, resource, columns) in RESOURCES.iter() {
            let cells = cells(group, resource, &object, now());
            prop_assert!(cells.is_none_or(|cells| cells.len() == *columns));
        }
    }

    #[test]
    fn no_path_makes_custom_cells_panic(
        object in any_object(),
        path in r#"(\.(metadata|spec|status|\*)|\.conditions|\[[0-9*:'@?()=<.-]{0,9}\]|\[\?\(@\.type(==|<)"Ready"\)\]|.){0,6}"#,
        kind in "string|integer|number|boolean|date",
    ) {
        let column = json!({"name": "Column", "type": kind, "jsonPath": path});
        let column: CustomColumn = serde_json::from_value(column).unwrap();
        prop_assert_eq!(custom_cells(&[column], &object, now()).len(), 2);
    }
}
