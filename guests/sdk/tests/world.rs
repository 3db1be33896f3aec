//! A controller with all that controllers have, in a [`World`]: what the world must allow, refuse and record.

mod foo;

use std::time::Duration;

use foo::{Deployment, Foo, FooController};
use pilothouse_sdk::prelude::*;
use pilothouse_sdk::testing::World;
use pilothouse_sdk::{ApiStatus, RefusalReason};

fn key() -> Key {
    Key::namespaced("default", "a")
}

/// A world with one Foo that was reconciled once.
fn started() -> (World, FooController) {
    let world = World::of::<FooController>(json!({}));
    let mut controller = world.start::<FooController>();
    world.create(&Foo::new(&key(), 2));
    let calls = world.settle(&mut controller);
    assert!(calls.iter().all(|call| call.result.is_ok()), "{calls:?}");
    (world, controller)
}

fn texts<T: ToString>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

fn conflict() -> ApiStatus {
    ApiStatus {
        code: 409,
        reason: "Conflict".to_owned(),
        message: "try again".to_owned(),
        causes: Vec::new(),
        retry_after: None,
    }
}

#[test]
fn a_foo_gets_its_deployment_its_finalizer_its_status_and_one_event() {
    let (world, mut controller) = started();
    let found: Foo = world.get(&key()).unwrap();
    let deployment: Deployment = world.get(&key().child("-web")).unwrap();
    assert_eq!(deployment.spec.replicas, Some(2));
    assert!(deployment.metadata.owner_references[0].is_to(&found.metadata.uid));
    assert_eq!(found.metadata.finalizers, ["example.com/foo"]);
    let status = found.status.unwrap();
    assert_eq!(status.available, 0);
    let condition = status.conditions.condition("Ready").unwrap();
    assert_eq!(condition.status, ConditionStatus::False);
    assert_eq!(condition.last_transition_time, "2026-01-01T00:00:00Z");
    assert_eq!(texts(&world.take_events()), ["Normal Created: created the Deployment a-web"]);
    assert_eq!(
        texts(&world.take_writes()),
        ["patch foos default/a", "patch deployments default/a-web", "patch foos/status default/a"]
    );

    // Once more without a change: nothing is written, and nothing recorded.
    world.enqueue(&key());
    world.settle(&mut controller);
    assert_eq!((world.take_writes(), world.take_events()), (vec![], vec![]));
}

#[test]
fn a_change_of_the_deployment_reaches_the_status_and_moves_the_time_of_its_condition_once() {
    let (world, mut controller) = started();
    world.advance(Duration::from_secs(60));
    world.set_status(&Kind::of::<Deployment>(), &key().child("-web"), json!({"availableReplicas": 2}));
    let calls = world.settle(&mut controller);
    assert!(calls[0].reasons.contains(pilothouse_sdk::Reasons::OWNED), "{calls:?}");
    let ready = |world: &World| {
        let status = world.get::<Foo>(&key()).unwrap().status.unwrap();
        let condition = status.conditions.condition("Ready").unwrap().clone();
        (condition.status, condition.last_transition_time, status.available)
    };
    assert_eq!(ready(&world), (ConditionStatus::True, "2026-01-01T00:01:00Z".to_owned(), 2));

    world.advance(Duration::from_secs(60));
    world.modify::<Foo>(&key(), |found| found.spec.replicas = 1);
    world.settle(&mut controller);
    assert_eq!(ready(&world), (ConditionStatus::True, "2026-01-01T00:01:00Z".to_owned(), 2));
    assert_eq!(world.get::<Deployment>(&key().child("-web")).unwrap().spec.replicas, Some(1));
}

#[test]
fn what_others_change_is_put_right_and_their_own_fields_stay() {
    let (world, mut controller) = started();
    world.take_events();
    world.modify::<Deployment>(&key().child("-web"), |deployment| {
        deployment.spec.replicas = Some(9);
        deployment.metadata.labels.insert("team".to_owned(), "blue".to_owned());
    });
    world.settle(&mut controller);
    let deployment: Deployment = world.get(&key().child("-web")).unwrap();
    assert_eq!(deployment.spec.replicas, Some(2));
    assert_eq!(deployment.metadata.labels["team"], "blue");
    assert_eq!(texts(&world.take_events()), ["Normal Updated: updated the Deployment a-web"]);
}

#[test]
fn a_deleted_foo_is_cleaned_up_and_takes_its_deployment_with_it() {
    let (world, mut controller) = started();
    world.delete(&Kind::of::<Foo>(), &key());
    assert!(world.get::<Foo>(&key()).is_some(), "its finalizer keeps it");
    world.settle(&mut controller);
    assert!(world.get::<Foo>(&key()).is_none());
    assert!(world.get::<Deployment>(&key().child("-web")).is_none(), "the garbage collector");
    assert!(texts(&world.take_log()).contains(&"cleaned up foo=default/a".to_owned()));
}

#[test]
fn a_conflict_is_tried_again_after_a_delay() {
    let (world, mut controller) = started();
    world.fail_next(Verb::Patch, &Kind::of::<Deployment>(), conflict());
    world.modify::<Foo>(&key(), |found| found.spec.replicas = 3);
    let calls = world.settle(&mut controller);
    let failure = calls[0].result.as_ref().unwrap_err();
    assert!(!failure.is_terminal() && failure.message().contains("try again"), "{failure}");
    assert_eq!(world.delayed(), [(key(), Duration::from_millis(5))]);
    world.advance(Duration::from_millis(5));
    let calls = world.settle(&mut controller);
    assert_eq!(calls[0].attempt, 1);
    assert_eq!(world.get::<Deployment>(&key().child("-web")).unwrap().spec.replicas, Some(3));
}

#[test]
fn a_writer_in_between_is_a_conflict_and_loses_nothing() {
    let world = World::of::<FooController>(json!({}));
    let mut controller = world.start::<FooController>();
    world.create(&Foo::new(&key(), 2));
    world.before_next(Verb::Patch, &Kind::of::<Foo>(), |world| {
        let add = |found: &mut Foo| found.metadata.finalizers.push("other/finalizer".to_owned());
        world.modify(&key(), add);
    });
    let calls = world.settle(&mut controller);
    assert!(calls[0].result.as_ref().unwrap_err().message().contains("the object has been modified"));
    world.advance(Duration::from_secs(1));
    world.settle(&mut controller);
    let found: Foo = world.get(&key()).unwrap();
    assert_eq!(found.metadata.finalizers, ["other/finalizer", "example.com/foo"]);
}

#[test]
fn a_cache_that_is_behind_shows_the_old_state_until_it_is_released() {
    let (world, mut controller) = started();
    world.hold_cache();
    world.modify::<Foo>(&key(), |found| found.spec.replicas = 7);
    assert_eq!(world.settle(&mut controller), []);
    assert_eq!(world.context().get::<Foo>(&key()).unwrap().unwrap().spec.replicas, 2);
    assert!(!world.context().cache().wait_for_writes(Duration::from_secs(1)));
    world.release_cache();
    world.settle(&mut controller);
    assert_eq!(world.get::<Deployment>(&key().child("-web")).unwrap().spec.replicas, Some(7));
}

#[test]
fn what_the_host_would_refuse_is_refused() {
    let (world, _) = started();
    let ctx = world.context();
    let secret = Kind::core("v1", "Secret");
    let refusal = ctx.cache().get(&secret, &key()).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::NotWatched);
    let error = ctx.client().get(&secret, &key()).unwrap_err();
    assert!(error.is_grant_missing() && error.message().contains("resources: [\"secrets\"]"), "{error}");
    let error = ctx.api::<Foo>().delete(&key(), &DeleteOptions::default()).unwrap_err();
    assert!(error.is_grant_missing() && error.message().contains("verbs: [\"delete\"]"), "{error}");
    let refusal = ctx.cache().by_index(&Kind::of::<Foo>(), "by-nothing", "x").err().unwrap();
    assert_eq!(refusal.reason, RefusalReason::UnknownIndex);
    let refusal = ctx.cache().get(&Kind::of::<Foo>(), &Key::cluster("a/b")).unwrap_err();
    assert!(refusal.is_invalid());
    let refusal =
        ctx.cache().get(&Kind::of::<Foo>(), &key()).map(|found| found.unwrap().get_string("/spec/replicas"));
    assert!(refusal.unwrap().unwrap_err().is_invalid(), "a number is no string");
    let other = ctx.in_cluster(7).get::<Foo>(&key()).unwrap_err();
    assert_eq!(other.refusal().unwrap().reason, RefusalReason::Unsupported);

    world.revoke("apps", "deployments", Verb::Get);
    assert!(ctx.get::<Deployment>(&key()).unwrap_err().is_grant_missing());
    assert!(ctx.list::<Deployment>().is_ok(), "a list is another verb");
    assert!(ctx.may("list", &Kind::of::<Deployment>(), "", &key()).unwrap());
    assert!(!ctx.may("get", &Kind::of::<Deployment>(), "", &key()).unwrap());
}

#[test]
fn a_foo_with_a_wrong_type_is_a_terminal_failure() {
    let world = World::of::<FooController>(json!({}));
    let mut controller = world.start::<FooController>();
    world.create_object(json!({
        "apiVersion": "example.com/v1", "kind": "Foo",
        "metadata": {"namespace": "default", "name": "a"}, "spec": {"replicas": "many"},
    }));
    let calls = world.settle(&mut controller);
    let failure = calls[0].result.as_ref().unwrap_err();
    assert!(failure.is_terminal() && failure.message().contains("Foo default/a"), "{failure}");
    assert_eq!(world.delayed(), []);
}

#[test]
fn metrics_are_there_by_name_and_labels() {
    let (world, _) = started();
    assert_eq!(world.metric("written_total", &["deployment"]), Some(1.0));
    assert_eq!(world.metric("written_total", &["nothing"]), None);
}

#[test]
fn create_or_update_keeps_the_fields_that_a_type_lacks() {
    let (world, _) = started();
    let (ctx, key) = (world.context(), key().child("-web"));
    let set = |replicas: i32| {
        move |deployment: &mut Deployment| {
            deployment.spec.replicas = Some(replicas);
            Ok(())
        }
    };
    world.revoke("apps", "deployments", Verb::Delete);
    let mut whole = world.get_object(&Kind::of::<Deployment>(), &key).unwrap();
    whole["spec"]["paused"] = json!(true);
    whole["spec"]["template"] = json!({"spec": {"containers": [{"name": "web"}]}});
    ctx.client().apply(&Kind::of::<Deployment>(), &key, &whole, &ApplyOptions::force()).unwrap();
    world.take_writes();

    assert_eq!(ctx.create_or_update(&key, set(2)).unwrap(), Written::Unchanged);
    assert_eq!(world.take_writes(), []);
    assert_eq!(ctx.create_or_update(&key, set(5)).unwrap(), Written::Changed);
    let writes = world.take_writes();
    assert_eq!(writes[0].body["spec"], json!({"replicas": 5}));
    let after = world.get_object(&Kind::of::<Deployment>(), &key).unwrap();
    assert_eq!((&after["spec"]["paused"], &after["spec"]["replicas"]), (&json!(true), &json!(5)));

    let new = Key::namespaced("default", "new");
    assert_eq!(ctx.create_or_update(&new, set(1)).unwrap(), Written::Created);
    // Another writer between the read and the write.
    world.before_next(Verb::Patch, &Kind::of::<Deployment>(), move |world| {
        world.modify::<Deployment>(&new, |deployment| deployment.spec.replicas = Some(8));
    });
    let failure = ctx.create_or_update(&Key::namespaced("default", "new"), set(2)).unwrap_err();
    assert!(failure.message().contains("the object has been modified"), "{failure}");
}

#[test]
fn a_child_has_one_controller_of_its_own_namespace() {
    let (world, _) = started();
    let found: Foo = world.get(&key()).unwrap();
    let mut child: Deployment = world.get(&key().child("-web")).unwrap();
    set_controller_reference(&found, &mut child).unwrap();
    assert_eq!(child.metadata.owner_references.len(), 1, "the older reference is replaced");

    let other: Foo = world.create(&Foo::new(&Key::namespaced("default", "b"), 1));
    assert!(child.is_controlled_by(&found) && !child.is_controlled_by(&other));
    let error = set_controller_reference(&other, &mut child).unwrap_err();
    assert!(error.is_already_owned());
    let message = "Deployment default/a-web has another controller, Foo a: rename or delete one of them";
    assert_eq!(error.message(), message);
    // Nothing tells of the end of the other one.
    assert!(!Failure::from(error).is_terminal());
    let mut elsewhere = Deployment { metadata: Metadata::new(&Key::namespaced("x", "y")), ..child };
    let unborn = Foo::new(&Key::namespaced("x", "z"), 1);
    for (owner, reason) in [(&found, "namespace"), (&unborn, "no UID")] {
        let failure = Failure::from(set_controller_reference(owner, &mut elsewhere).unwrap_err());
        assert!(failure.is_terminal() && failure.message().contains(reason), "{failure}");
    }
    assert!(!elsewhere.is_controlled_by(&unborn), "nothing is controlled by an object without UID");
}

#[test]
fn a_child_is_created_adopted_or_left_to_its_controller() {
    let (world, _) = started();
    let (ctx, found) = (world.context(), world.get::<Foo>(&key()).unwrap());
    let other: Foo = world.create(&Foo::new(&Key::namespaced("default", "b"), 1));
    let orphan = Key::namespaced("default", "orphan");
    let metadata = Metadata::new(&orphan).with_label("team", "blue");
    world.create(&Deployment { metadata, ..Deployment::default() });
    world.take_writes();

    let scale = |deployment: &mut Deployment| {
        deployment.spec.replicas = Some(4);
        Ok(())
    };
    assert_eq!(ctx.create_or_update_child(&found, &orphan, scale).unwrap(), Written::Changed);
    let adopted: Deployment = world.get(&orphan).unwrap();
    assert!(adopted.is_controlled_by(&found) && adopted.spec.replicas == Some(4));
    assert_eq!(adopted.metadata.labels["team"], "blue");
    assert_eq!(ctx.create_or_update_child(&found, &orphan, scale).unwrap(), Written::Unchanged);
    let error = ctx.create_or_update_child(&other, &orphan, scale).unwrap_err();
    assert!(error.is_already_owned(), "{error}");
    let new = orphan.child("-new");
    assert_eq!(ctx.create_or_update_child(&other, &new, scale).unwrap(), Written::Created);
    assert!(world.get::<Deployment>(&new).unwrap().is_controlled_by(&other));
    let wanted = ["patch deployments default/orphan", "create deployments default/orphan-new"];
    assert_eq!(texts(&world.take_writes()), wanted);

    // What fails in the closure is the failure of the reconcile.
    let fails = |_: &mut Deployment| Err(Failure::terminal("not today").into());
    let failure = Failure::from(ctx.create_or_update_child(&other, &new, fails).unwrap_err());
    assert_eq!(failure, Failure::terminal("not today"));
}

#[test]
fn only_an_own_child_is_deleted_and_none_is_no_error() {
    let (world, _) = started();
    let deployments = Permission::new("apps", ["deployments"]);
    world.grant(&deployments.verbs([Verb::Delete]));
    let (ctx, found) = (world.context(), world.get::<Foo>(&key()).unwrap());
    let other: Foo = world.create(&Foo::new(&Key::namespaced("default", "b"), 1));
    let web = key().child("-web");
    world.take_writes();
    assert!(!ctx.delete_child::<Deployment>(&other, &web).unwrap(), "it has another controller");
    assert!(!ctx.delete_child::<Deployment>(&found, &web.child("-none")).unwrap());
    assert_eq!(world.take_writes(), []);

    // Another object of the name, which the cache does not show yet.
    world.before_next(Verb::Delete, &Kind::of::<Deployment>(), |world| {
        let web = key().child("-web");
        world.delete(&Kind::of::<Deployment>(), &web);
        world.create(&Deployment { metadata: Metadata::new(&web), ..Deployment::default() });
    });
    assert!(ctx.delete_child::<Deployment>(&found, &web).unwrap_err().is_conflict());
    assert!(world.get::<Deployment>(&web).is_some());
    assert!(!ctx.delete_child::<Deployment>(&found, &web).unwrap(), "nobody controls it");

    world.delete(&Kind::of::<Deployment>(), &web);
    let _ = ctx.create_or_update_child(&found, &web, |_: &mut Deployment| Ok(())).unwrap();
    world.before_next(Verb::Delete, &Kind::of::<Deployment>(), move |world| {
        world.delete(&Kind::of::<Deployment>(), &key().child("-web"));
    });
    assert!(!ctx.delete_child::<Deployment>(&found, &web).unwrap(), "it has gone in between");
    let _ = ctx.create_or_update_child(&found, &web, |_: &mut Deployment| Ok(())).unwrap();
    assert!(ctx.delete_child::<Deployment>(&found, &web).unwrap());
    assert!(world.get::<Deployment>(&web).is_none());
}

#[test]
fn a_status_with_a_list_is_written_for_the_version_that_was_read_only() {
    let (world, _) = started();
    let (ctx, found) = (world.context(), world.get::<Foo>(&key()).unwrap());
    // Another controller adds its condition.
    world.modify::<Foo>(&key(), |other| {
        let condition = Condition::new("Other", true, "Added", "");
        other.status.as_mut().unwrap().conditions.push(condition);
    });
    let mut status = found.status.clone().unwrap();
    status.conditions.set_condition(&ctx, Condition::new("Ready", true, "Replicas", "now"));
    assert!(ctx.patch_status(&found, &status).unwrap_err().is_conflict());
    // Without a list nothing can be lost.
    let mut status = found.status.clone().unwrap();
    status.available = 9;
    assert_eq!(ctx.patch_status(&found, &status).unwrap(), Written::Changed);
    let conditions = world.get::<Foo>(&key()).unwrap().status.unwrap().conditions;
    assert!(conditions.is_condition_true("Other"));
}

#[test]
fn permissions_come_from_the_types_and_the_namespaces_of_their_watches() {
    // The order of the calls does not matter.
    let descriptor = Descriptor::new("a")
        .writes_status::<Foo>()
        .watch(Watch::of::<Foo>().namespaces(["x", "y"]))
        .owns::<Deployment>()
        .watch(Watch::new(Kind::core("v1", "Pod")))
        .writes::<Deployment>(Verb::APPLY)
        .writes::<Deployment>([Verb::Delete])
        .writes::<Foo>([Verb::Patch]);
    let written: Value = pilothouse_sdk::serde_json::from_slice(&descriptor.to_json().unwrap()).unwrap();
    assert_eq!(
        written["permissions"],
        json!([
            {
                "groups": ["example.com"], "resources": ["foos"], "verbs": ["get", "list", "watch", "patch"],
                "namespaces": ["x", "y"],
            },
            {
                "groups": ["apps"], "resources": ["deployments"],
                "verbs": ["get", "list", "watch", "create", "patch", "delete"], "namespaces": ["x", "y"],
            },
            {
                "groups": ["example.com"], "resources": ["foos/status"], "verbs": ["update", "patch"],
                "namespaces": ["x", "y"],
            },
        ])
    );
    assert_eq!(written["watches"][1]["namespaces"], json!(["x", "y"]), "owners own in their namespace");
    assert_eq!(
        written["watches"][1]["map"],
        json!({"type": "owner", "group": "example.com", "kind": "Foo", "controllerOnly": true})
    );
    let mistake = Descriptor::new("a").owns::<Deployment>().to_json().unwrap_err();
    assert!(mistake.contains("needs a watch of the owner before it"), "{mistake}");
}
