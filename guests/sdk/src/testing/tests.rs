//! Tests that need more of a [`World`] than a plugin's author has.

use serde::{Deserialize, Serialize};

use super::World;
use crate::events::{Event, EventType};
use crate::{Context, Descriptor, Key, Kind, Metadata, Permission, RefusalReason, Resource, Watch, Written};

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

#[test]
fn a_remote_cluster_has_objects_and_permissions_of_its_own_and_live_calls_alone() {
    let kind = Kind::of::<ConfigMap>();
    let world = World::new(&Descriptor::new("one").watch(Watch::of::<ConfigMap>()));
    let verbs =
        || Permission::new("", ["configmaps"]).verbs(["get", "list", "create", "patch"]).namespaces(["a"]);
    world.grant(&verbs());
    world.add_remote_cluster("west");
    let east = world.add_remote_cluster("east");
    let (ctx, key) = (world.context(), Key::namespaced("a", "x"));
    assert_eq!(ctx.clusters(), ["home", "west", "east"]);
    let unknown = ctx.remote_cluster("mars").err().unwrap();
    assert!(unknown.message().contains("spec.remoteClusters"), "{unknown}");
    assert_eq!(ctx.remote_cluster("home").unwrap().cluster(), 0);

    let remote = ctx.remote_cluster("east").unwrap();
    assert_eq!(remote.cluster(), 2);
    let denied = remote.client().get(&kind, &key).unwrap_err();
    assert!(denied.is_grant_missing(), "what holds here does not hold there: {denied}");
    east.grant(&verbs());
    let map = ConfigMap { metadata: Metadata::new(&key) };
    assert_eq!(remote.apply(&map).unwrap(), Written::Created);
    assert_eq!(remote.apply(&map).unwrap(), Written::Unchanged);
    assert_eq!((east.take_writes().len(), world.take_writes().len()), (1, 0));
    assert!(world.get::<ConfigMap>(&key).is_none());
    let object = remote.client().get(&kind, &key).unwrap();
    assert_eq!(object.cluster(), 2);

    assert!(remote.cache().get(&kind, &key).unwrap_err().is_not_watched());
    let queued = remote.queue().add(&key).unwrap_err();
    let event = Event::new(EventType::Normal, "Seen", "it is there");
    let recorded = event.record(&ctx, &object).unwrap_err();
    for refused in [queued, recorded] {
        assert_eq!(refused.reason, RefusalReason::Unsupported, "{refused}");
    }
}
