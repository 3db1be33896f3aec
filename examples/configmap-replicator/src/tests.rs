//! The replicator in a cluster in memory.

use super::*;
use pilothouse_sdk::testing::World;

fn world(namespaces: &[(&str, &str)]) -> (World, Replicator) {
    let world = World::of::<Replicator>(json!({}));
    world.define(&NAMESPACE, "namespaces", pilothouse_sdk::Scope::Cluster);
    for (name, team) in namespaces {
        namespace(&world, name, team);
    }
    let replicator = world.start();
    (world, replicator)
}

fn namespace(world: &World, name: &str, team: &str) {
    world.create_object(json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}},
    }));
}

fn source(selector: &str, value: &str) -> ConfigMap {
    let metadata = Metadata::new(&key("home")).with_label(ROLE, SOURCE).with_annotation(NAMESPACES, selector);
    ConfigMap { metadata, data: [("k".to_owned(), value.to_owned())].into(), ..ConfigMap::default() }
}

fn key(namespace: &str) -> Key {
    Key::namespaced(namespace, "settings")
}

/// The namespaces with a ConfigMap, and the value there.
fn found(world: &World) -> Vec<(String, String)> {
    let maps = world.list::<ConfigMap>().into_iter();
    maps.map(|map| (map.metadata.namespace, map.data.get("k").cloned().unwrap_or_default())).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(one, two)| ((*one).to_owned(), (*two).to_owned())).collect()
}

fn settle(world: &World, replicator: &mut Replicator) {
    let calls = world.settle(replicator);
    assert!(calls.iter().all(|call| call.result.is_ok()), "{calls:?}");
}

#[test]
fn a_source_is_copied_where_the_selector_says_and_only_once() {
    let (world, mut replicator) = world(&[("home", "web"), ("a", "web"), ("b", "db"), ("c", "web")]);
    world.create(&source("team=web", "1"));
    settle(&world, &mut replicator);
    assert_eq!(found(&world), pairs(&[("a", "1"), ("c", "1"), ("home", "1")]));
    let copy: ConfigMap = world.get(&key("a")).unwrap();
    assert_eq!(
        (copy.metadata.label(ROLE), copy.metadata.annotation(COPY_OF)),
        (Some(COPY), Some("home/settings"))
    );
    assert_eq!(copy.metadata.annotation(NAMESPACES), None, "a copy is no source");

    world.take_writes();
    world.enqueue(&key("home"));
    settle(&world, &mut replicator);
    assert_eq!(world.take_writes(), []);
}

#[test]
fn copies_follow_their_source_and_are_restored() {
    let (world, mut replicator) = world(&[("home", ""), ("a", "web"), ("b", "web")]);
    world.create(&source("team=web", "1"));
    settle(&world, &mut replicator);

    world.modify::<ConfigMap>(&key("home"), |map| {
        map.data = [("k".to_owned(), "2".to_owned())].into();
        map.binary_data = [("b".to_owned(), "AAE=".to_owned())].into();
    });
    settle(&world, &mut replicator);
    assert_eq!(found(&world), pairs(&[("a", "2"), ("b", "2"), ("home", "2")]));
    assert_eq!(world.get::<ConfigMap>(&key("a")).unwrap().binary_data["b"], "AAE=");

    world.modify::<ConfigMap>(&key("a"), |map| {
        map.data.insert("more".to_owned(), "x".to_owned());
        map.metadata.labels.insert("own".to_owned(), "label".to_owned());
    });
    world.delete(&CONFIG_MAP, &key("b"));
    settle(&world, &mut replicator);
    let copy: ConfigMap = world.get(&key("a")).unwrap();
    assert_eq!(copy.data.len(), 1, "what was added is gone");
    assert_eq!(copy.metadata.label("own"), Some("label"), "labels may be added");
    assert!(world.get::<ConfigMap>(&key("b")).is_some());
}

#[test]
fn the_copies_go_with_their_source() {
    let (world, mut replicator) = world(&[("home", ""), ("a", "web")]);
    world.create(&source("team=web", "1"));
    settle(&world, &mut replicator);
    world.delete(&CONFIG_MAP, &key("home"));
    settle(&world, &mut replicator);
    assert_eq!(found(&world), []);
}

#[test]
fn the_copies_of_a_source_that_went_unseen_go_at_the_start() {
    let (world, mut replicator) = world(&[("home", ""), ("a", "web")]);
    let metadata = Metadata::new(&key("a")).with_label(ROLE, COPY).with_annotation(COPY_OF, "home/settings");
    world.create(&ConfigMap { metadata, ..ConfigMap::default() });
    settle(&world, &mut replicator);
    assert_eq!(found(&world), []);
}

#[test]
fn a_source_that_is_none_any_more_keeps_its_data_and_loses_its_copies() {
    let (world, mut replicator) = world(&[("home", ""), ("a", "web")]);
    world.create(&source("team=web", "1"));
    settle(&world, &mut replicator);
    world.modify::<ConfigMap>(&key("home"), |map| map.metadata.labels.clear());
    settle(&world, &mut replicator);
    assert_eq!(found(&world), pairs(&[("home", "1")]));
}

#[test]
fn namespaces_come_change_and_go() {
    let (world, mut replicator) = world(&[("home", "")]);
    world.create(&source("team=web", "1"));
    settle(&world, &mut replicator);
    namespace(&world, "new", "web");
    settle(&world, &mut replicator);
    assert_eq!(found(&world), pairs(&[("home", "1"), ("new", "1")]));

    let label = |team: &str| {
        world.modify::<Namespace>(&Key::cluster("new"), |namespace| {
            namespace.metadata.labels.insert("team".to_owned(), team.to_owned());
        });
    };
    label("db");
    settle(&world, &mut replicator);
    assert_eq!(found(&world), pairs(&[("home", "1")]));
    label("web");
    settle(&world, &mut replicator);
    assert_eq!(found(&world), pairs(&[("home", "1"), ("new", "1")]));
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(version = "v1", scope = "Cluster")]
struct Namespace {
    metadata: Metadata,
}

#[test]
fn a_namespace_that_is_going_gets_no_copy() {
    let (world, mut replicator) = world(&[("home", "")]);
    world.create_object(json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "going", "labels": {"team": "web"}, "finalizers": ["example.com/wait"]},
    }));
    world.delete(&NAMESPACE, &Key::cluster("going"));
    world.create(&source("team=web", "1"));
    settle(&world, &mut replicator);
    assert_eq!(found(&world), pairs(&[("home", "1")]));
}

#[test]
fn a_config_map_of_somebody_else_is_left_alone() {
    let (world, mut replicator) = world(&[("home", ""), ("a", "web"), ("b", "web")]);
    let data = [("k".to_owned(), "theirs".to_owned())].into();
    world.create(&ConfigMap { metadata: Metadata::new(&key("a")), data, ..ConfigMap::default() });
    world.create(&source("team=web", "1"));
    settle(&world, &mut replicator);
    assert_eq!(found(&world), pairs(&[("a", "theirs"), ("b", "1"), ("home", "1")]));
    let events = world.take_events();
    let note = "namespace a has a ConfigMap of this name that is no copy";
    assert!(
        !events.is_empty() && events.iter().all(|event| event.reason == "NameTaken" && event.note == note)
    );
    assert_eq!(world.delayed(), [(key("home"), TAKEN)]);

    world.delete(&CONFIG_MAP, &key("a"));
    world.advance(TAKEN);
    settle(&world, &mut replicator);
    assert_eq!(found(&world), pairs(&[("a", "1"), ("b", "1"), ("home", "1")]));
}

#[test]
fn without_a_selector_there_are_no_copies_and_a_bad_one_changes_nothing() {
    let (world, mut replicator) = world(&[("home", ""), ("a", "web")]);
    world.create(&source("team=web", "1"));
    settle(&world, &mut replicator);
    let select = |selector: &str| {
        world.modify::<ConfigMap>(&key("home"), |map| {
            map.metadata.annotations.insert(NAMESPACES.to_owned(), selector.to_owned());
        });
    };
    select("team in (");
    let calls = world.settle(&mut replicator);
    assert!(calls.iter().all(|call| call.result.as_ref().is_err_and(Failure::is_terminal)), "{calls:?}");
    assert_eq!(world.take_events()[0].reason, "InvalidSelector");
    assert_eq!(found(&world), pairs(&[("a", "1"), ("home", "1")]));

    select("");
    settle(&world, &mut replicator);
    assert_eq!(world.take_events()[0].reason, "NoSelector");
    assert_eq!(found(&world), pairs(&[("home", "1")]));
}

#[test]
fn sources_count_only_in_the_namespaces_of_the_configuration() {
    let world = World::of::<Replicator>(json!({"sourceNamespaces": ["other"]}));
    world.define(&NAMESPACE, "namespaces", pilothouse_sdk::Scope::Cluster);
    let mut replicator = world.start();
    namespace(&world, "a", "web");
    world.create(&source("team=web", "1"));
    settle(&world, &mut replicator);
    assert_eq!(found(&world), pairs(&[("home", "1")]));

    // A namespace that comes queues all sources, and so does a copy that names one.
    namespace(&world, "b", "web");
    let copy = Metadata::new(&Key::namespaced("b", "bait"))
        .with_label(ROLE, COPY)
        .with_annotation(COPY_OF, source("team=web", "1").key().to_string());
    world.create(&ConfigMap { metadata: copy, ..ConfigMap::default() });
    settle(&world, &mut replicator);
    assert_eq!(found(&world), pairs(&[("home", "1")]));
}
