//! The plugin in a cluster in memory.

use super::*;
use pilothouse_sdk::Scope;
use pilothouse_sdk::testing::{Call, World};

fn world() -> (World, NamespaceQuota) {
    let world = World::of::<NamespaceQuota>(json!({"remindAfterSeconds": 60}));
    world.define(&NAMESPACE, "namespaces", Scope::Cluster);
    let plugin = world.start();
    (world, plugin)
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(version = "v1", scope = "Cluster")]
struct Namespace {
    metadata: Metadata,
}

fn namespace(world: &World, name: &str, limits: &[(&str, &str)]) {
    let mut metadata = Metadata::new(&Key::cluster(name));
    for (resource, limit) in limits {
        metadata = metadata.with_annotation(format!("{LIMIT}{resource}"), *limit);
    }
    world.create(&Namespace { metadata });
}

fn annotate(world: &World, name: &str, resource: &str, limit: Option<&str>) {
    world.modify::<Namespace>(&Key::cluster(name), |namespace| {
        let annotation = format!("{LIMIT}{resource}");
        match limit {
            Some(limit) => namespace.metadata.annotations.insert(annotation, limit.to_owned()),
            None => namespace.metadata.annotations.remove(&annotation),
        };
    });
}

fn pods(world: &World, namespace: &str, names: &[&str]) {
    for name in names {
        let metadata = json!({"namespace": namespace, "name": name});
        world.create_object(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}));
    }
}

fn settle(world: &World, plugin: &mut NamespaceQuota) -> Vec<Call> {
    let calls = world.settle(plugin);
    assert!(calls.iter().all(|call| call.result.is_ok()), "{calls:?}");
    calls
}

fn events(world: &World) -> Vec<String> {
    let events = world.take_events();
    assert!(events.iter().all(|event| event.kind == NAMESPACE && !event.uid.is_empty()), "{events:?}");
    events.iter().map(|event| format!("{} {event}", event.key)).collect()
}

fn wait(seconds: u64) -> [(Key, Duration); 1] {
    [(Key::cluster("shop"), Duration::from_secs(seconds))]
}

#[test]
fn only_namespaces_with_a_limit_have_metrics() {
    let (world, mut plugin) = world();
    namespace(&world, "shop", &[("pods", "2"), ("services", "1")]);
    namespace(&world, "free", &[]);
    pods(&world, "shop", &["a", "b"]);
    pods(&world, "free", &["a"]);
    settle(&world, &mut plugin);
    assert_eq!(world.metric("objects", &["shop", "pods"]), Some(2.0));
    assert_eq!(world.metric("limit", &["shop", "pods"]), Some(2.0));
    assert_eq!(world.metric("objects", &["shop", "services"]), Some(0.0));
    assert_eq!(world.metric("objects", &["shop", "configmaps"]), None);
    assert_eq!(world.metric("objects", &["free", "pods"]), None);
    assert_eq!(events(&world), [""; 0], "as many as allowed are not too many");
    assert_eq!(world.delayed(), []);
}

#[test]
fn it_warns_once_and_reminds_while_there_are_too_many() {
    let (world, mut plugin) = world();
    namespace(&world, "shop", &[("pods", "1")]);
    pods(&world, "shop", &["a", "b"]);
    settle(&world, &mut plugin);
    let warning = "shop Warning QuotaExceeded: more than 1 pods";
    assert_eq!(events(&world), [warning]);
    assert_eq!(world.delayed(), wait(60));

    // More of them are no news.
    world.advance(Duration::from_secs(20));
    pods(&world, "shop", &["c"]);
    settle(&world, &mut plugin);
    assert_eq!(world.metric("objects", &["shop", "pods"]), Some(3.0));
    assert_eq!(events(&world), [""; 0]);
    assert_eq!(world.delayed(), wait(40));

    world.advance(Duration::from_secs(40));
    assert_eq!(settle(&world, &mut plugin).len(), 1);
    assert_eq!(events(&world), [warning]);
}

#[test]
fn when_enough_are_gone_it_is_silent_and_warns_of_the_next_time() {
    let (world, mut plugin) = world();
    namespace(&world, "shop", &[("pods", "1")]);
    pods(&world, "shop", &["a", "b"]);
    settle(&world, &mut plugin);
    events(&world);
    world.delete(&COUNTED[1].0, &Key::namespaced("shop", "b"));
    settle(&world, &mut plugin);
    assert_eq!(world.metric("objects", &["shop", "pods"]), Some(1.0));
    assert_eq!(events(&world), [""; 0]);

    // Before the time of the reminder: it is another warning.
    world.advance(Duration::from_secs(1));
    pods(&world, "shop", &["c"]);
    settle(&world, &mut plugin);
    assert_eq!(events(&world), ["shop Warning QuotaExceeded: more than 1 pods"]);

    // The reminder comes when there is nothing to remind of.
    world.delete(&COUNTED[1].0, &Key::namespaced("shop", "c"));
    world.advance(Duration::from_secs(60));
    settle(&world, &mut plugin);
    assert_eq!((events(&world), world.delayed()), (Vec::new(), Vec::new()));
}

#[test]
fn a_limit_may_be_changed_taken_away_or_wrong() {
    let (world, mut plugin) = world();
    namespace(&world, "shop", &[("pods", "2")]);
    pods(&world, "shop", &["a", "b"]);
    settle(&world, &mut plugin);
    annotate(&world, "shop", "pods", Some("1"));
    settle(&world, &mut plugin);
    assert_eq!(events(&world), ["shop Warning QuotaExceeded: more than 1 pods"]);

    annotate(&world, "shop", "pods", Some("many"));
    settle(&world, &mut plugin);
    assert_eq!(
        events(&world),
        [r#"shop Warning InvalidQuota: quota.pilothouse.dev/pods is no number: "many""#]
    );
    assert_eq!(world.metric("objects", &["shop", "pods"]), None);

    annotate(&world, "shop", "pods", None);
    settle(&world, &mut plugin);
    assert_eq!(events(&world), [""; 0]);
}

#[test]
fn the_metrics_of_a_namespace_go_with_it() {
    let (world, mut plugin) = world();
    namespace(&world, "shop", &[("pods", "0")]);
    settle(&world, &mut plugin);
    assert_eq!(world.metric("limit", &["shop", "pods"]), Some(0.0));
    world.delete(&NAMESPACE, &Key::cluster("shop"));
    settle(&world, &mut plugin);
    assert_eq!(world.metric("limit", &["shop", "pods"]), None);
    assert_eq!(world.metric("objects", &["shop", "pods"]), None);
}

#[test]
fn what_is_counted_is_not_reconciled_for_its_updates() {
    let (world, mut plugin) = world();
    namespace(&world, "shop", &[("pods", "2")]);
    pods(&world, "shop", &["a"]);
    settle(&world, &mut plugin);
    world.set_status(&COUNTED[1].0, &Key::namespaced("shop", "a"), json!({"phase": "Running"}));
    assert_eq!(settle(&world, &mut plugin), []);
}

#[test]
fn no_time_between_warnings_is_refused() {
    let refused = NamespaceQuota::describe(&Config::from_json(r#"{"remindAfterSeconds": 0}"#));
    assert_eq!(refused.unwrap_err(), "remindAfterSeconds must be at least 1");
}
