//! Tests that need more of a [`World`] than a plugin's author has.

use serde::{Deserialize, Serialize};

use super::World;
use crate::{Context, Descriptor, Key, Kind, Metadata, Permission, Resource, Watch, Written};

#[derive(Resource, Serialize, Deserialize)]
#[resource(version = "v1")]
struct ConfigMap {
    metadata: Metadata,
}

#[test]
fn plugins_that_apply_parts_of_one_object_come_to_rest() {
    let world = World::new(&Descriptor::new("one").watch(Watch::of::<ConfigMap>()));
    world.grant(&Permission::new("", ["configmaps"]).verbs(["*"]));
    let key = Key::namespaced("default", "a");
    let as_plugin = |name: &str| -> Context {
        world.state().described.name = name.to_owned();
        world.context()
    };
    let apply = |name: &str| {
        let metadata = Metadata::new(&key).with_label(name, "1");
        as_plugin(name).apply(&ConfigMap { metadata }).unwrap()
    };
    let rounds: Vec<_> = (0..3).map(|_| (apply("one"), apply("two"))).collect();
    let quiet = (Written::Unchanged, Written::Unchanged);
    assert_eq!(rounds, [(Written::Created, Written::Changed), quiet, quiet]);
    let object = world.get_object(&Kind::of::<ConfigMap>(), &key).unwrap();
    assert_eq!(object["metadata"]["labels"], serde_json::json!({"one": "1", "two": "1"}));
    let annotations = object["metadata"]["annotations"].as_object().unwrap();
    let names: Vec<&String> = annotations.keys().collect();
    assert_eq!(names, ["applied.pilothouse.dev/one", "applied.pilothouse.dev/two"]);

    // What is no name of an annotation is shortened.
    let long = format!("-{}-b-", "a".repeat(62));
    let _ = as_plugin(&long).apply(&ConfigMap { metadata: Metadata::new(&key) }).unwrap();
    let object = world.get_object(&Kind::of::<ConfigMap>(), &key).unwrap();
    let name = format!("applied.pilothouse.dev/{}", "a".repeat(62));
    assert!(object["metadata"]["annotations"].get(&name).is_some(), "{object}");
}
