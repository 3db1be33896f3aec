//! The API server of a `World`: what a plugin must be able to rely on, or to run into.

use std::collections::BTreeMap;

use pilothouse_sdk::prelude::*;
use pilothouse_sdk::testing::World;

#[derive(Resource, Serialize, Deserialize, Debug, Clone, Default, PartialEq)]
#[resource(version = "v1")]
struct ConfigMap {
    metadata: Metadata,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

const MAP: Kind = Kind::core("v1", "ConfigMap");
const APP: Kind = Kind::new("apps", "v1", "Deployment");

fn key(name: &str) -> Key {
    Key::namespaced("default", name)
}

/// A world in which everything is granted, and ConfigMaps are watched.
fn world() -> World {
    let world = World::new(&Descriptor::new("a").watch(Watch::of::<ConfigMap>()));
    world.grant(&Permission::new("*", ["*", "*/*"]).verbs(["*"]));
    world
}

fn map(name: &str, entries: &[(&str, &str)]) -> ConfigMap {
    let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    ConfigMap { metadata: Metadata::new(&key(name)), data: entries.iter().map(text).collect() }
}

#[derive(Resource, Serialize, Deserialize, Clone, Default)]
#[resource(version = "v1")]
#[serde(default)]
struct Pod {
    metadata: Metadata,
    spec: PodSpec,
}

#[derive(Serialize, Deserialize, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    containers: Vec<Container>,
    priority: i32,
}

#[derive(Serialize, Deserialize, Clone)]
struct Container {
    image: String,
}

#[test]
fn an_apply_of_a_kind_that_is_not_watched_is_compared_with_the_server() -> Result<(), Failure> {
    let world = world();
    let ctx = world.context();
    let pod = Pod { metadata: Metadata::new(&key("p")), ..Pod::default() };
    assert_eq!(ctx.apply(&pod)?, Written::Created);
    world.take_writes();
    assert_eq!(ctx.apply(&pod)?, Written::Unchanged);
    assert_eq!(world.take_writes(), []);
    Ok(())
}

#[test]
fn an_apply_of_what_was_read_comes_to_rest() -> Result<(), Failure> {
    let world = world();
    let ctx = world.context();
    let _ = ctx.apply(&map("a", &[("k", "1")]))?;
    for expected in [Written::Changed, Written::Unchanged, Written::Unchanged] {
        let mut read: ConfigMap = ctx.get(&key("a"))?.unwrap();
        read.data.insert("l".into(), "2".into());
        assert_eq!(ctx.apply(&read)?, expected);
    }
    Ok(())
}

#[test]
fn an_apply_of_what_was_read_is_of_the_object_and_version_that_was_read() -> Result<(), Failure> {
    let world = world();
    let ctx = world.context();
    let _ = ctx.apply(&map("a", &[("k", "1")]))?;
    let mut read: ConfigMap = ctx.get(&key("a"))?.unwrap();
    read.data.insert("l".into(), "2".into());
    world.take_writes();
    assert_eq!(ctx.apply(&read)?, Written::Changed);
    let metadata = &world.take_writes()[0].body["metadata"];
    assert_eq!(metadata["uid"], read.metadata.uid.as_str());
    assert_eq!(metadata["resourceVersion"], read.metadata.resource_version.as_str());
    Ok(())
}

#[test]
fn a_write_of_a_projected_kind_loses_no_elements_and_no_fields() -> Result<(), Failure> {
    let pods = Watch::of::<Pod>();
    let images = Projection::new(Kind::of::<Pod>(), ["/spec/containers/[*]/image"]);
    let world = World::new(&Descriptor::new("a").watch(pods).projection(images).writes::<Pod>(Verb::APPLY));
    let containers = json!([{"name": "x", "image": "i"}, {"name": "y", "image": "j", "ports": [1]}]);
    world.create_object(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "p"},
        "spec": {"containers": containers},
    }));
    let ctx = world.context();
    assert!(ctx.cache().get(&Kind::of::<Pod>(), &key("p"))?.unwrap().is_partial());
    let update = |pod: &mut Pod| {
        pod.spec.containers[0].image = "k".to_owned();
        Ok(())
    };
    assert_eq!(ctx.create_or_update(&key("p"), update)?, Written::Changed);
    let spec = &world.get_object(&Kind::of::<Pod>(), &key("p")).unwrap()["spec"];
    // Nobody set the priority that the type has by default.
    let wanted = json!({"containers": [
        {"name": "x", "image": "k"}, {"name": "y", "image": "j", "ports": [1]},
    ]});
    assert_eq!(*spec, wanted);
    Ok(())
}

#[test]
fn an_apply_removes_what_it_no_longer_has_and_is_skipped_only_when_all_is_as_before() -> Result<(), Failure> {
    let world = world();
    let ctx = world.context();
    assert_eq!(ctx.apply(&map("a", &[("k", "1"), ("l", "1")]))?, Written::Created);
    assert_eq!(ctx.apply(&map("a", &[("k", "1"), ("l", "1")]))?, Written::Unchanged);
    // Every field of this one is there, and yet it is another one.
    assert_eq!(ctx.apply(&map("a", &[("k", "1")]))?, Written::Changed);
    assert_eq!(world.get::<ConfigMap>(&key("a")).unwrap().data, [("k".into(), "1".into())].into());
    // A field of somebody else stays, and is not in the way.
    world.modify::<ConfigMap>(&key("a"), |map| drop(map.data.insert("other".into(), "x".into())));
    world.take_writes();
    assert_eq!(ctx.apply(&map("a", &[("k", "1")]))?, Written::Unchanged);
    assert_eq!(world.take_writes(), []);
    // A field that somebody else changed is taken back.
    world.modify::<ConfigMap>(&key("a"), |map| drop(map.data.insert("k".into(), "9".into())));
    assert_eq!(ctx.apply(&map("a", &[("k", "1")]))?, Written::Changed);
    let data = world.get::<ConfigMap>(&key("a")).unwrap().data;
    assert_eq!((data["k"].as_str(), data["other"].as_str()), ("1", "x"));

    // Without a permission to read nothing is known, and the server is asked.
    world.revoke("", "configmaps", Verb::Get);
    world.take_writes();
    assert_eq!(ctx.apply(&map("b", &[]))?, Written::Changed);
    assert_eq!(ctx.apply(&map("b", &[]))?, Written::Changed);
    assert_eq!(world.take_writes().len(), 2);
    Ok(())
}

#[test]
fn an_apply_without_force_conflicts_with_the_owner_of_a_field() {
    let world = world();
    let ctx = world.context();
    ctx.api::<ConfigMap>().apply(&map("a", &[("k", "1")]), &ApplyOptions::default()).unwrap();
    let other = ApplyOptions { field_manager: Some("other".to_owned()), ..ApplyOptions::default() };
    let error = ctx.api::<ConfigMap>().apply(&map("a", &[("k", "2")]), &other).unwrap_err();
    assert!(error.is_conflict(), "{error}");
    let causes = &error.status().unwrap().causes;
    assert_eq!((causes[0].field.as_str(), causes[0].reason.as_str()), (".data.k", "FieldManagerConflict"));
    let forced = ApplyOptions { force: true, ..other };
    let written = ctx.api::<ConfigMap>().apply(&map("a", &[("k", "2")]), &forced).unwrap();
    assert_eq!(written.data["k"], "2");
}

#[test]
fn versions_guard_updates_and_equal_writes_change_nothing() {
    let world = world();
    let api = |world: &World| world.context();
    let first = api(&world).api::<ConfigMap>().create(&map("a", &[("k", "1")])).unwrap();
    assert!(!first.metadata.uid.is_empty() && first.metadata.generation.is_none());
    let mut changed = first.clone();
    changed.data.insert("k".into(), "2".into());
    let second = api(&world).api::<ConfigMap>().update(&changed).unwrap();
    assert_ne!(second.metadata.resource_version, first.metadata.resource_version);
    let error = api(&world).api::<ConfigMap>().update(&changed).unwrap_err();
    assert!(error.is_conflict() && error.code() == 409, "{error}");
    assert_eq!(api(&world).api::<ConfigMap>().update(&second).unwrap(), second);
    let gone = api(&world).api::<ConfigMap>().update(&map("b", &[])).unwrap_err();
    assert!(gone.is_not_found());
    let mut other = second.clone();
    other.metadata.uid = "another".to_owned();
    let error = api(&world).api::<ConfigMap>().update(&other).unwrap_err();
    assert!(error.is_conflict() && error.to_string().contains("UID"), "{error}");

    let (ctx, dry) = (world.context(), WriteOptions { dry_run: true, ..WriteOptions::default() });
    let shown = ctx.client().patch_merge(&MAP, &key("a"), &json!({"data": {"k": "3"}}), &dry).unwrap();
    assert_eq!(shown.get_string("/data/k").unwrap().as_deref(), Some("3"));
    let dry = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
    assert!(ctx.api::<ConfigMap>().delete_opt(&key("a"), &dry).unwrap());
    assert_eq!(world.get::<ConfigMap>(&key("a")).unwrap(), second);
}

#[test]
fn the_status_has_its_own_endpoint_and_the_generation_counts_the_spec() {
    let world = world();
    world.create_object(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "default", "name": "a"},
        "spec": {"replicas": 1},
    }));
    let ctx = world.context();
    let both = json!({"spec": {"replicas": 2}, "status": {"replicas": 9}});
    let client = ctx.client();
    let written = client.patch_merge(&APP, &key("a"), &both, &WriteOptions::default()).unwrap();
    assert_eq!((written.get_int("/spec/replicas").unwrap(), written.generation()), (Some(2), Some(2)));
    assert!(!written.exists("/status").unwrap());
    let written = client.patch_merge(&APP, &key("a"), &both, &WriteOptions::status()).unwrap();
    assert_eq!((written.get_int("/status/replicas").unwrap(), written.generation()), (Some(9), Some(2)));
    let strategic = client.patch_strategic(&APP, &key("a"), &both, &WriteOptions::default()).unwrap_err();
    assert_eq!(strategic.code(), 415);
}

#[test]
fn a_deletion_heeds_preconditions_finalizers_and_dependents() {
    let world = world();
    let ctx = world.context();
    let owner = world.create(&map("owner", &[]));
    let owned_by = |names: &[&ConfigMap], name: &str| {
        let mut child = map(name, &[]);
        child.metadata.owner_references = names.iter().map(|owner| owner_reference(*owner)).collect();
        world.create(&child);
    };
    let other = world.create(&map("other", &[]));
    owned_by(&[&owner], "only");
    owned_by(&[&owner, &other], "shared");
    let api = ctx.api::<ConfigMap>();
    let wrong = api.delete(&key("owner"), &DeleteOptions::uid("another")).unwrap_err();
    assert!(wrong.is_conflict(), "{wrong}");
    api.delete(&key("owner"), &DeleteOptions::uid(owner.metadata.uid.clone())).unwrap();
    assert!(world.get::<ConfigMap>(&key("only")).is_none());
    let shared = world.get::<ConfigMap>(&key("shared")).unwrap();
    assert_eq!(shared.metadata.owner_references.len(), 1);
    let orphan = DeleteOptions { propagation: Some(Propagation::Orphan), ..DeleteOptions::default() };
    api.delete(&key("other"), &orphan).unwrap();
    assert!(world.get::<ConfigMap>(&key("shared")).unwrap().metadata.owner_references.is_empty());

    world.modify::<ConfigMap>(&key("shared"), |map| map.metadata.finalizers.push("x/y".to_owned()));
    let kept = ctx.client().delete(&MAP, &key("shared"), &DeleteOptions::default()).unwrap();
    assert!(kept.unwrap().is_being_deleted());
    world.modify::<ConfigMap>(&key("shared"), |map| map.metadata.finalizers.clear());
    assert!(world.get::<ConfigMap>(&key("shared")).is_none());
    assert!(!api.delete_opt(&key("shared"), &DeleteOptions::default()).unwrap());
}

#[test]
fn nonsense_is_refused_and_never_a_panic() {
    let world = world();
    let ctx = world.context();
    world.create(&map("a", &[("k", "1")]));
    let (client, write) = (ctx.client(), WriteOptions::default());
    for body in
        [json!(null), json!([]), json!("x"), json!({}), json!({"kind": "ConfigMap"}), json!({"metadata": 7})]
    {
        assert!(client.create(&MAP, &body, &write).is_err(), "{body}");
        assert!(client.update(&MAP, &body, &write).is_err(), "{body}");
        assert!(client.apply(&MAP, &key("a"), &body, &ApplyOptions::force()).is_err(), "{body}");
        assert!(client.patch_json(&MAP, &key("a"), &body, &write).is_err() || body == json!([]), "{body}");
        let _ = client.patch_merge(&MAP, &key("a"), &body, &write);
    }
    for pointer in ["x", "/a/[*", "/[*]/[*]", "/metadata/[*]/name", &"/x".repeat(3000)] {
        let object = ctx.cache().get(&MAP, &key("a")).unwrap().unwrap();
        let _ = (object.get_json(pointer), object.exists(pointer), object.get_string(pointer));
    }
    for selector in ["a b", "a in b", "((", "a=,b", "!", ","] {
        let _ = ctx.cache().list(&MAP, &Query::all().label_selector(selector)).map(Iterator::count);
    }
    let terms = Query::all().label_selector(vec!["!a"; 65].join(","));
    let error = ctx.cache().list(&MAP, &terms).map(drop).unwrap_err();
    assert!(error.is_over_limit() && error.message.contains("limits.selectorTerms"), "{error}");
    let huge = "x".repeat(4 << 20);
    let error = client.create(&MAP, &map("huge", &[("k", &huge)]), &write).unwrap_err();
    assert!(error.refusal().is_some_and(pilothouse_sdk::Refusal::is_over_limit), "{error}");
}

#[test]
fn a_list_of_any_length_is_whole_and_in_order() -> Result<(), Failure> {
    let world = world();
    let names: Vec<String> = (0..5_000).map(|n| format!("m{n:04}")).collect();
    for name in &names {
        world.create(&map(name, &[]));
    }
    let ctx = world.context();
    let keys: Vec<Key> = ctx.cache().keys(&MAP, &Query::all())?.collect();
    assert!(keys.iter().map(|key| &key.name).eq(&names));
    let mut objects = ctx.cache().list(&MAP, &Query::all().namespace("default"))?;
    assert_eq!(objects.next().transpose()?.map(|object| object.name()).as_deref(), Some("m0000"));
    assert_eq!(objects.remaining(), 4_999);
    let rest: Vec<String> =
        objects.map(|object| object.map(|object| object.name())).collect::<Result<_, _>>()?;
    assert_eq!(rest, names[1..]);
    assert_eq!(ctx.list::<ConfigMap>()?.count(), 5_000);
    assert_eq!(ctx.cache().keys(&MAP, &Query::all().limit(7))?.count(), 7);
    let some = ctx.cache().get_many(&MAP, &[key("m0001"), key("none")])?;
    assert!(some[0].is_some() && some[1].is_none());
    Ok(())
}

#[test]
fn half_of_the_kinds_have_a_generation() -> Result<(), Failure> {
    let world = world();
    let ctx = world.context();
    let generation = |kind: &Kind, name: &str| -> Result<Option<i64>, Error> {
        Ok(ctx.client().get(kind, &key(name))?.generation())
    };
    world.create(&map("a", &[]));
    world.modify::<ConfigMap>(&key("a"), |map| drop(map.data.insert("k".into(), "v".into())));
    assert_eq!(generation(&MAP, "a")?, None);
    let custom = Kind::new("example.com", "v1", "Foo");
    let role = Kind::new("rbac.authorization.k8s.io", "v1", "Role");
    for (kind, expected) in [(custom, Some(1)), (APP, Some(1)), (role, None)] {
        world.create_object(json!({
            "apiVersion": kind.api_version(), "kind": kind.kind(), "metadata": {"namespace": "default", "name": "b"},
        }));
        assert_eq!(generation(&kind, "b")?, expected, "{kind}");
    }
    Ok(())
}

#[test]
fn a_collection_of_a_kind_without_namespaces_needs_a_permission_without_namespaces() -> Result<(), Failure> {
    let node = Kind::core("v1", "Node");
    let nodes = Permission::new("", ["nodes"]).verbs([Verb::DeleteCollection]).namespaces([""; 0]);
    let world = World::new(&Descriptor::new("a").permission(nodes));
    world.create_object(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}));
    let all = ListOptions::default();
    world.context().client().delete_collection(&node, &all, &DeleteOptions::default())?;
    assert!(world.get_object(&node, &Key::cluster("n")).is_none());
    Ok(())
}
