//! The controller in a cluster in memory.

use super::*;
use pilothouse_sdk::schema::CustomResource;
use pilothouse_sdk::testing::{Call, World};

const DEPLOYMENT: Kind = Kind::new("apps", "v1", "Deployment");

fn key(name: &str) -> Key {
    Key::namespaced("default", name)
}

/// A world with the Foo `a`, whose Deployment is `web`.
fn world() -> (World, SampleController) {
    let world = World::of::<SampleController>(json!({}));
    let spec = FooSpec { deployment_name: "web".to_owned(), replicas: 2 };
    world.create(&Foo { metadata: Metadata::new(&key("a")), spec, status: None });
    let controller = world.start();
    (world, controller)
}

fn settle(world: &World, controller: &mut SampleController) -> Vec<Call> {
    let calls = world.settle(controller);
    assert!(calls.iter().all(|call| call.result.is_ok()), "{calls:?}");
    calls
}

fn foo(world: &World) -> Foo {
    world.get(&key("a")).unwrap()
}

fn deployment(world: &World) -> Deployment {
    world.get(&key("web")).unwrap()
}

fn writes(world: &World) -> Vec<String> {
    world.take_writes().iter().map(ToString::to_string).collect()
}

fn events(world: &World) -> Vec<String> {
    world.take_events().iter().map(ToString::to_string).collect()
}

const SYNCED: &str = "Normal Synced: the Deployment is as this Foo says";

#[test]
fn a_foo_gets_a_deployment_that_it_controls() {
    let (world, mut controller) = world();
    settle(&world, &mut controller);
    let web = deployment(&world);
    assert!(web.is_controlled_by(&foo(&world)));
    assert_eq!(web.spec["replicas"], 2);
    let labels = json!({"app": "nginx", "controller": "a"});
    assert_eq!(web.spec["selector"], json!({"matchLabels": labels}));
    assert_eq!(web.spec["template"]["metadata"]["labels"], labels);
    assert_eq!(web.spec["template"]["spec"]["containers"][0]["image"], "nginx:latest");
    let wanted = ["patch foos default/a", "create deployments default/web", "patch foos/status default/a"];
    assert_eq!(writes(&world), wanted);
    assert_eq!(events(&world), [SYNCED]);

    world.enqueue(&key("a"));
    settle(&world, &mut controller);
    assert_eq!(writes(&world), [""; 0], "all is as it should be");
    assert_eq!(events(&world), [""; 0]);
}

#[test]
fn the_status_follows_the_deployment() {
    let (world, mut controller) = world();
    settle(&world, &mut controller);
    let status = foo(&world).status.unwrap();
    assert_eq!(status.available_replicas, 0);
    assert!(!status.conditions.is_condition_true("Ready"));

    events(&world);
    world.advance(Duration::from_secs(60));
    world.set_status(&DEPLOYMENT, &key("web"), json!({"availableReplicas": 2}));
    settle(&world, &mut controller);
    let status = foo(&world).status.unwrap();
    assert_eq!(status.available_replicas, 2);
    let ready = status.conditions.condition("Ready").unwrap();
    assert_eq!((ready.status, ready.observed_generation), (ConditionStatus::True, Some(1)));
    assert_eq!(ready.last_transition_time, "2026-01-01T00:01:00Z");
    assert_eq!(events(&world), [SYNCED]);
}

#[test]
fn the_number_of_replicas_is_kept_and_other_fields_of_the_deployment_stay() {
    let (world, mut controller) = world();
    settle(&world, &mut controller);
    let scale = |replicas: u64| {
        world.modify::<Deployment>(&key("web"), |web| {
            web.spec["replicas"] = replicas.into();
            web.spec["paused"] = true.into();
        });
    };
    events(&world);
    scale(7);
    settle(&world, &mut controller);
    assert_eq!(events(&world), [SYNCED]);
    assert_eq!(deployment(&world).spec["replicas"], 2);
    world.modify::<Foo>(&key("a"), |owner| owner.spec.replicas = 3);
    settle(&world, &mut controller);
    let web = deployment(&world);
    assert_eq!((&web.spec["replicas"], &web.spec["paused"]), (&json!(3), &json!(true)));

    world.delete(&DEPLOYMENT, &key("web"));
    settle(&world, &mut controller);
    assert_eq!(deployment(&world).spec["replicas"], 3, "it was made again");
}

#[test]
fn a_deployment_of_somebody_else_is_left_alone() {
    let (world, mut controller) = world();
    let spec = json!({"replicas": 9});
    world.create(&Deployment { metadata: Metadata::new(&key("web")), spec, ..Deployment::default() });
    let message = "Deployment web exists and is not controlled by this Foo";
    let calls = world.settle(&mut controller);
    let failure = calls[0].result.as_ref().unwrap_err();
    assert_eq!((failure.message(), failure.is_terminal()), (message, false));
    assert_eq!(events(&world), [format!("Warning ErrResourceExists: {message}")]);
    assert_eq!(deployment(&world).spec["replicas"], 9);
    assert!(foo(&world).status.is_none());

    // A retry finds that the name is free.
    world.delete(&DEPLOYMENT, &key("web"));
    world.advance(Duration::from_secs(1));
    settle(&world, &mut controller);
    assert!(deployment(&world).is_controlled_by(&foo(&world)));
    assert_eq!(events(&world), [SYNCED]);
}

#[test]
fn one_that_the_cache_does_not_show_yet_is_not_taken_over() {
    let (world, mut controller) = world();
    world.before_next(Verb::Create, &DEPLOYMENT, |world| {
        let metadata = Metadata::new(&Key::namespaced("default", "web"));
        world.create(&Deployment { metadata, spec: json!({"replicas": 9}), ..Deployment::default() });
    });
    let calls = world.settle(&mut controller);
    assert!(calls[0].result.as_ref().unwrap_err().message().contains("AlreadyExists"));
    assert_eq!(deployment(&world).spec["replicas"], 9);
}

#[test]
fn the_deployment_goes_before_its_foo() {
    let (world, mut controller) = world();
    settle(&world, &mut controller);
    world.delete(&Kind::of::<Foo>(), &key("a"));
    assert!(foo(&world).metadata.deletion_timestamp.is_some(), "the finalizer keeps it");
    writes(&world);
    settle(&world, &mut controller);
    assert_eq!(writes(&world), ["delete deployments default/web", "patch foos default/a"]);
    assert!(world.get::<Foo>(&key("a")).is_none() && world.get::<Deployment>(&key("web")).is_none());
}

#[test]
fn a_foo_whose_deployment_is_taken_goes_alone() {
    let (world, mut controller) = world();
    world.create(&Deployment { metadata: Metadata::new(&key("web")), ..Deployment::default() });
    assert!(world.settle(&mut controller)[0].result.is_err());
    world.delete(&Kind::of::<Foo>(), &key("a"));
    world.advance(Duration::from_secs(1));
    settle(&world, &mut controller);
    assert!(world.get::<Foo>(&key("a")).is_none() && world.get::<Deployment>(&key("web")).is_some());
}

#[test]
fn the_definition_says_what_a_foo_may_be() {
    let definition = Foo::crd();
    let version = &definition["spec"]["versions"][0];
    let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["properties"]["replicas"]["maximum"], 10);
    assert_eq!(spec["properties"]["replicas"]["default"], 1);
    assert_eq!(version["subresources"], json!({"status": {}}));
}
