//! Event handlers, batches and the rest of the host's interfaces in a `World`.

use std::time::Duration;

use pilothouse_sdk::client::LogOptions;
use pilothouse_sdk::prelude::*;
use pilothouse_sdk::testing::World;
use pilothouse_sdk::{Refusal, RefusalReason};

const CONFIG_MAP: Kind = Kind::core("v1", "ConfigMap");
const POD: Kind = Kind::core("v1", "Pod");

/// Logs each event, and fails for objects that say so.
struct Logger;

#[pilothouse_sdk::event_handler]
impl EventHandler for Logger {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("logger").watch(Watch::new(CONFIG_MAP).name("maps").label_selector("log=yes")))
    }

    fn on_add(&mut self, ctx: &Context, event: &Added<'_>) -> Result<(), Failure> {
        assert_eq!(ctx.cluster(), event.object.cluster());
        info!("add {} {} initial={}", event.watch, event.key, event.is_initial);
        match event.object.get_string("/data/fail")?.as_deref() {
            Some("terminal") => Err(Failure::terminal("told to")),
            Some(_) => Err(Failure::transient("told to")),
            None => Ok(()),
        }
    }

    fn on_update(&mut self, _ctx: &Context, event: &Updated<'_>) -> Result<(), Failure> {
        let old = event.old.as_ref().map(|old| old.get_string("/data/n")).transpose()?.flatten();
        let new = event.object.get_string("/data/n")?;
        info!("update {} {} -> {}", event.key, old.unwrap_or_default(), new.unwrap_or_default());
        Ok(())
    }

    fn on_delete(&mut self, _ctx: &Context, event: &Deleted<'_>) -> Result<(), Failure> {
        info!("delete {} known={}", event.key, event.object.is_some());
        Ok(())
    }

    fn on_synced(&mut self, _ctx: &Context, watch: &str) {
        info!("synced {watch}");
    }
}

fn map(name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"namespace": "default", "name": name, "labels": {"log": "yes"}},
    })
}

fn key(name: &str) -> Key {
    Key::namespaced("default", name)
}

fn log(world: &World) -> Vec<String> {
    world.take_log().iter().map(ToString::to_string).collect()
}

fn set(world: &World, name: &str, data: Value) {
    let (value, key) = (map(name, data), key(name));
    let ctx = world.context();
    ctx.client().update(&CONFIG_MAP, &value, &WriteOptions::default()).unwrap_or_else(|error| {
        panic!("{key}: {error}");
    });
}

/// A world in which the plugin may update ConfigMaps.
fn world() -> (World, Logger) {
    let world = World::of::<Logger>(json!({}));
    // A watch of a kind without a type knows no plural.
    world.grant(&Permission::new("", ["configmaps"]).verbs(["update"]));
    let logger = world.start::<Logger>();
    (world, logger)
}

#[test]
fn handlers_see_the_first_list_then_changes_that_are_merged() {
    let (world, mut logger) = world();
    world.create_object(map("a", json!({"n": "1"})));
    world.create_object(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "other"},
    }));
    world.settle(&mut logger);
    assert_eq!(log(&world), ["add maps default/a initial=true", "synced maps"]);

    for n in 2..5 {
        set(&world, "a", json!({"n": n.to_string()}));
    }
    world.create_object(map("b", json!({})));
    world.create_object(map("gone", json!({})));
    world.delete(&CONFIG_MAP, &key("gone"));
    world.settle(&mut logger);
    assert_eq!(log(&world), ["update default/a 1 -> 4", "add maps default/b initial=false"]);

    // An object that no longer has the label is a deletion; a new one of the same name is not hidden.
    world.delete(&CONFIG_MAP, &key("b"));
    world.create_object(map("b", json!({})));
    world.settle(&mut logger);
    assert_eq!(log(&world), ["delete default/b known=true", "add maps default/b initial=false"]);
}

#[test]
fn a_failed_event_comes_again_merged_with_newer_ones_and_a_terminal_one_does_not() {
    let (world, mut logger) = world();
    world.create_object(map("a", json!({"fail": "once"})));
    world.create_object(map("b", json!({"fail": "terminal"})));
    world.create_object(map("c", json!({})));
    world.settle(&mut logger);
    assert_eq!(log(&world).len(), 4, "three events, and that the list is done");
    world.settle(&mut logger);
    assert_eq!(log(&world), [""; 0], "it waits for its delay");
    world.advance(Duration::from_millis(5));
    world.settle(&mut logger);
    assert_eq!(log(&world), ["add maps default/a initial=false"]);
    set(&world, "a", json!({}));
    world.settle(&mut logger);
    assert_eq!(
        log(&world),
        ["add maps default/a initial=false"],
        "a change ends the delay, and it is an addition"
    );

    // One that was told in vain is not hidden by its deletion.
    world.create_object(map("d", json!({"fail": "once"})));
    world.settle(&mut logger);
    assert_eq!(log(&world).len(), 1);
    world.delete(&CONFIG_MAP, &key("d"));
    world.settle(&mut logger);
    assert_eq!(log(&world), ["delete default/d known=true"]);
}

/// Logs what passes the predicates of its watches.
struct Picky;

#[pilothouse_sdk::event_handler]
impl EventHandler for Picky {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        let watch = |name: &str| Watch::new(CONFIG_MAP).name(name);
        let picked = Predicate::field_equals("/data/n", "2");
        Ok(Descriptor::new("picky")
            .watch(watch("changes").predicate(Predicate::field_changed("/data/n")))
            .watch(watch("updates").predicate(Predicate::on_update()))
            .watch(watch("last").predicate(Predicate::on_delete()).predicate(picked)))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self)
    }

    fn on_events(&mut self, _ctx: &Context, events: &[Event<'_>]) -> Vec<Result<(), Failure>> {
        for event in events {
            match event {
                Event::Added(event) => info!("{} add {}", event.watch, event.key.name),
                Event::Updated(event) => info!("{} update {}", event.watch, event.key.name),
                Event::Deleted(event) => info!("{} delete {}", event.watch, event.key.name),
            }
        }
        events.iter().map(|_| Ok(())).collect()
    }
}

/// As the host, which merges events in its ring and judges them at delivery.
#[test]
fn predicates_of_handlers_judge_what_the_merged_events_come_to() {
    let world = World::of::<Picky>(json!({}));
    world.grant(&Permission::new("", ["configmaps"]).verbs(["update"]));
    let mut picky = world.start::<Picky>();
    world.create_object(map("a", json!({"n": "1"})));
    world.settle(&mut picky);
    assert_eq!(log(&world), ["changes add a"]);
    for n in ["2", "1"] {
        set(&world, "a", json!({"n": n}));
    }
    world.settle(&mut picky);
    assert_eq!(log(&world), ["updates update a"], "in the end the field is as before");
    set(&world, "a", json!({"n": "2"}));
    world.delete(&CONFIG_MAP, &key("a"));
    world.settle(&mut picky);
    assert_eq!(log(&world), ["changes delete a", "last delete a"], "the last state counts");

    world.create_object(map("b", json!({"n": "1"})));
    set(&world, "b", json!({"n": "2"}));
    world.settle(&mut picky);
    assert_eq!(log(&world), ["changes add b", "updates add b"], "an addition with an update in it");
}

/// Requeues each key of a batch.
struct Batch {
    sizes: Vec<usize>,
}

#[pilothouse_sdk::batch_reconciler]
impl BatchReconciler for Batch {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("batch").watch(Watch::new(CONFIG_MAP)).max_batch(2))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self { sizes: Vec::new() })
    }

    fn reconcile_many(&mut self, _ctx: &Context, requests: &[Request]) -> Vec<Result<Outcome, Failure>> {
        self.sizes.push(requests.len());
        requests.iter().map(|_| Ok(Outcome::requeue_after(Duration::from_secs(60)))).collect()
    }
}

#[test]
fn a_batch_has_as_many_keys_as_the_descriptor_says() {
    let world = World::of::<Batch>(json!({}));
    let mut batch = world.start::<Batch>();
    for name in ["a", "b", "c"] {
        world.create_object(map(name, json!({})));
    }
    assert_eq!(world.settle(&mut batch).len(), 3);
    assert_eq!(batch.sizes, [2, 1]);
    assert_eq!(world.settle(&mut batch), []);
    world.advance(Duration::from_secs(60));
    assert_eq!(world.settle(&mut batch).len(), 3);
}

#[test]
fn the_removal_of_the_last_finalizer_is_a_deletion_and_no_update() {
    let world = World::of::<Batch>(json!({}));
    world.grant(&Permission::new("", ["configmaps"]).verbs(["update"]));
    let mut batch = world.start::<Batch>();
    let mut kept = map("a", json!({}));
    kept["metadata"]["finalizers"] = json!(["example.com/kept"]);
    world.create_object(kept);
    world.settle(&mut batch);
    let mut reasons = || {
        let calls = world.settle(&mut batch);
        calls.iter().map(|call| call.reasons.to_string()).collect::<Vec<_>>()
    };
    world.delete(&CONFIG_MAP, &key("a"));
    assert_eq!(reasons(), ["updated"]);
    set(&world, "a", json!({}));
    assert_eq!(reasons(), ["deleted"]);
}

/// Puts its own key on the queue again and again.
struct Restless;

#[pilothouse_sdk::reconciler]
impl Reconciler for Restless {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("restless").watch(Watch::new(CONFIG_MAP)))
    }

    fn reconcile(&mut self, ctx: &Context, request: &Request) -> Result<Outcome, Failure> {
        ctx.queue().add(&request.key)?;
        Ok(Outcome::Done)
    }
}

#[test]
#[should_panic(expected = "the plugin does not come to rest")]
fn a_plugin_that_never_rests_is_found() {
    let world = World::of::<Restless>(json!({}));
    world.create_object(map("a", json!({})));
    world.settle(&mut world.start::<Restless>());
}

/// Answers each change of a ConfigMap with another one.
struct Echo {
    count: u32,
}

#[pilothouse_sdk::event_handler]
impl EventHandler for Echo {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("echo").watch(Watch::new(CONFIG_MAP)))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self { count: 0 })
    }

    fn on_events(&mut self, ctx: &Context, events: &[Event<'_>]) -> Vec<Result<(), Failure>> {
        self.count += 1;
        let data = json!({"data": {"count": self.count.to_string()}});
        let write = WriteOptions::default();
        let answer = |event: &Event<'_>| {
            ctx.client().patch_merge(&CONFIG_MAP, event.key(), &data, &write)?;
            Ok(())
        };
        events.iter().map(answer).collect()
    }
}

#[test]
#[should_panic(expected = "the plugin does not come to rest")]
fn handlers_that_never_rest_are_found() {
    let world = World::of::<Echo>(json!({}));
    world.grant(&Permission::new("", ["configmaps"]).verbs(["patch"]));
    world.create_object(map("a", json!({})));
    world.settle(&mut world.start::<Echo>());
}

/// Reconciles ConfigMaps: new ones, those whose `data.on` is true, and what they map to.
struct Filtered;

#[pilothouse_sdk::reconciler]
impl Reconciler for Filtered {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        let is_on = Predicate::field_equals("/data/on", "yes");
        let changed = Predicate::any([Predicate::on_add(), is_on]);
        Ok(Descriptor::new("filtered")
            .watch(Watch::new(CONFIG_MAP).predicate(changed).map(Map::itself()).map(Map::annotation("tells")))
            .watch(Watch::new(POD).predicate(!Predicate::on_update()).map(Map::all_keys(&CONFIG_MAP)))
            .index(Index::by_annotation(CONFIG_MAP, "by-teller", "tells")))
    }

    fn reconcile(&mut self, _ctx: &Context, _request: &Request) -> Result<Outcome, Failure> {
        Ok(Outcome::Done)
    }
}

#[test]
fn events_that_pass_the_predicates_reconcile_the_keys_of_all_maps() {
    let world = World::of::<Filtered>(json!({}));
    world.grant(&Permission::new("", ["configmaps", "pods"]).verbs(["*"]));
    let mut filtered = world.start::<Filtered>();
    let mut settle = || {
        let calls = world.settle(&mut filtered).into_iter();
        calls.map(|call| format!("{} {}", call.key, call.reasons)).collect::<Vec<_>>()
    };
    let mut told = map("a", json!({}));
    told["metadata"]["annotations"] = json!({"tells": "other/x"});
    world.create_object(told.clone());
    world.create_object(map("b", json!({})));
    assert_eq!(settle(), ["default/a added", "other/x owned", "default/b added"]);
    let context = world.context();
    assert_eq!(context.cache().by_index(&CONFIG_MAP, "by-teller", "other/x").unwrap().remaining(), 1);

    set(&world, "a", json!({"on": "no"}));
    assert_eq!(settle(), [""; 0]);
    set(&world, "a", json!({"on": "yes"}));
    assert_eq!(settle(), ["default/a updated"]);
    set(&world, "a", json!({"on": "no"}));
    world.delete(&CONFIG_MAP, &key("a"));
    assert_eq!(settle(), [""; 0], "the last state of the deleted one is judged");

    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "x", "name": "p"}});
    world.create_object(map("c", json!({})));
    settle();
    world.create_object(pod);
    assert_eq!(settle(), ["default/b owned", "default/c owned"]);
    world.set_status(&POD, &Key::namespaced("x", "p"), json!({"phase": "Running"}));
    assert_eq!(settle(), [""; 0]);
    world.delete(&POD, &Key::namespaced("x", "p"));
    assert_eq!(settle(), ["default/b owned", "default/c owned"]);
}

#[test]
#[should_panic(expected = "no watch of it has the map self")]
fn all_keys_of_a_kind_need_a_watch_of_it() {
    World::new(&Descriptor::new("a").watch(Watch::new(POD).map(Map::all_keys(&CONFIG_MAP))));
}

/// Logs what it sees of Pods, of which the store keeps the phase only.
struct Phases;

#[pilothouse_sdk::event_handler]
impl EventHandler for Phases {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("phases")
            .watch(Watch::new(POD))
            .projection(Projection::new(POD, ["/status/phase"])))
    }

    fn on_update(&mut self, _ctx: &Context, event: &Updated<'_>) -> Result<(), Failure> {
        for object in event.old.iter().chain([&event.object]) {
            let node = object.get_string("/spec/nodeName")?;
            info!("{:?} {node:?} {}", object.get_string("/status/phase")?, object.is_partial());
        }
        Ok(())
    }
}

#[test]
fn handlers_get_the_parts_of_objects_that_the_store_keeps() {
    let world = World::of::<Phases>(json!({}));
    let mut phases = world.start::<Phases>();
    world.create_object(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "a"},
        "spec": {"nodeName": "n"}, "status": {"phase": "Pending"},
    }));
    world.settle(&mut phases);
    world.set_status(&POD, &key("a"), json!({"phase": "Running", "podIP": "1.2.3.4"}));
    world.settle(&mut phases);
    assert_eq!(log(&world), [r#"Some("Pending") None true"#, r#"Some("Running") None true"#]);
}

#[test]
fn selectors_limit_events_and_namespaces_limit_the_cache() {
    let selected = Watch::new(CONFIG_MAP).namespaces(["default"]).label_selector("log=yes");
    let world = open_world(Descriptor::new("a").watch(selected.clone()));
    let (selected_too, other) = (
        map("a", json!({})),
        |namespace: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": "b"}}),
    );
    for object in [selected_too, other("default"), other("other")] {
        world.create_object(object);
    }
    assert_eq!(world.queued(), [key("a")]);
    let ctx = world.context();
    assert!(ctx.cache().get(&CONFIG_MAP, &key("b")).unwrap().is_some(), "no label, and in the cache");
    let keys: Vec<Key> = ctx.cache().keys(&CONFIG_MAP, &Query::all()).unwrap().collect();
    assert_eq!(keys, [key("a"), key("b")]);
    let elsewhere = Key::namespaced("other", "b");
    assert!(ctx.cache().get(&CONFIG_MAP, &elsewhere).unwrap_err().is_not_watched());

    // Another watch opens the other namespaces, for all of the plugin.
    let rest = Watch::new(CONFIG_MAP).name("rest").label_selector("log=no");
    let world = open_world(Descriptor::new("a").watch(selected).watch(rest));
    world.create_object(other("other"));
    assert_eq!(world.queued(), []);
    assert!(world.context().cache().get(&CONFIG_MAP, &elsewhere).unwrap().is_some());
}

/// A world in which everything that a test asks for is granted.
fn open_world(descriptor: Descriptor) -> World {
    let world = World::new(&descriptor);
    world.grant(&Permission::new("*", ["*", "*/*"]).verbs(["*"]));
    world
}

#[test]
fn subresources_collections_and_logs_have_their_calls() -> Result<(), Failure> {
    let world = open_world(Descriptor::new("a"));
    let ctx = world.context();
    for name in ["a", "b", "c"] {
        let metadata = json!({"namespace": "default", "name": name, "labels": {"name": name}});
        world.create_object(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}));
    }
    let client = ctx.client();
    client.bind(&key("a"), "node-1")?;
    assert_eq!(client.get(&POD, &key("a"))?.get_string("/spec/nodeName")?.as_deref(), Some("node-1"));
    client.evict(&key("a"))?;
    assert!(client.get(&POD, &key("a")).unwrap_err().is_not_found());
    world.set_pod_log(&key("b"), "one\ntwo\nthree\n");
    let tail = LogOptions { tail_lines: Some(2), ..LogOptions::default() };
    assert_eq!(client.pod_log(&key("b"), &tail)?, b"two\nthree\n");
    let c_only =
        ListOptions { label_selector: Some("name=c".to_owned()), ..ListOptions::in_namespace("default") };
    client.delete_collection(&POD, &c_only, &DeleteOptions::default())?;
    assert!(client.get_opt(&POD, &key("c"))?.is_none() && client.get_opt(&POD, &key("b"))?.is_some());

    let account = json!({"namespace": "default", "name": "robot"});
    world.create_object(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}));
    assert_eq!(client.token(&key("robot"), &[], Duration::from_secs(600))?, "token-of-default/robot");
    let web = json!({"namespace": "default", "name": "web"});
    let deployment = Kind::new("apps", "v1", "Deployment");
    world.create_object(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": web, "spec": {"replicas": 1}}),
    );
    client.scale(&deployment, &key("web"), 4)?;
    let scale = client.get_subresource(&deployment, &key("web"), "scale")?;
    assert_eq!(scale.get_int("/spec/replicas")?, Some(4));
    Ok(())
}

#[test]
fn lists_have_pages_and_dry_runs_store_nothing() -> Result<(), Failure> {
    let world = open_world(Descriptor::new("a"));
    let ctx = world.context();
    for n in 0..5 {
        world.create_object(map(&format!("m{n}"), json!({})));
    }
    let by_two = ListOptions { limit: Some(2), ..ListOptions::default() };
    let pages: Vec<usize> = ctx
        .client()
        .list(&CONFIG_MAP, &by_two)
        .pages()
        .map(|page| page.map(|page| page.items.len()))
        .collect::<Result<_, _>>()?;
    assert_eq!(pages, [2, 2, 1]);
    assert_eq!(ctx.client().list(&CONFIG_MAP, &by_two).count(), 5);

    let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
    ctx.client().create(&CONFIG_MAP, &map("dry", json!({})), &dry)?;
    assert!(world.get_object(&CONFIG_MAP, &key("dry")).is_none());
    let again = ctx.client().create(&CONFIG_MAP, &map("m0", json!({})), &WriteOptions::default());
    assert!(again.unwrap_err().is_already_exists());
    Ok(())
}

#[test]
fn projected_objects_lack_fields_and_cannot_be_written_back() -> Result<(), Failure> {
    let descriptor = Descriptor::new("a")
        .watch(Watch::new(POD))
        .index(Index::by_path(POD, "by-image", "/spec/containers/[*]/image"))
        .projection(Projection::new(POD, ["/status/phase"]));
    let world = open_world(descriptor);
    world.create_object(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "a"},
        "spec": {"nodeName": "n", "containers": [{"name": "x", "image": "i"}, {"name": "y", "image": "j"}]},
        "status": {"phase": "Running", "podIP": "1.2.3.4"},
    }));
    let ctx = world.context();
    let pod = ctx.cache().get(&POD, &key("a"))?.unwrap();
    assert!(pod.is_partial());
    assert_eq!(pod.get_string("/status/phase")?.as_deref(), Some("Running"));
    assert!(!pod.exists("/status/podIP")? && !pod.exists("/spec/nodeName")?);
    assert_eq!(pod.get::<Vec<String>>("/spec/containers/[*]/image")?, Some(vec!["i".into(), "j".into()]));
    let written = ctx.client().update(&POD, &pod.parse::<Value>()?, &WriteOptions::default());
    assert!(written.unwrap_err().is_invalid());
    assert_eq!(ctx.cache().by_index(&POD, "by-image", "j")?.remaining(), 1);
    let values: Vec<String> = ctx.cache().index_values(&POD, "by-image")?.collect::<Result<_, _>>()?;
    assert_eq!(values, ["i", "j"]);
    Ok(())
}

#[test]
fn other_servers_are_asked_only_if_they_are_granted() {
    let world = World::new(&Descriptor::new("a").outgoing_host("search:9200"));
    world.on_http(|request| {
        let body = format!("{} {} {}", request.method, request.url, request.body.len());
        Ok(http::Response::new(200, body).with_header("Retry-After", "3"))
    });
    let ctx = world.context();
    let response = http::Request::post("http://search:9200/_bulk").body("abc").send(&ctx).unwrap();
    assert_eq!((response.status, &*response.text()), (200, "POST http://search:9200/_bulk 3"));
    assert_eq!(response.retry_after(), Some(Duration::from_secs(3)));
    assert!(http::Request::get("http://other/").send(&ctx).unwrap_err().is_denied());
}

static SEEN: Counter<1> = Counter::new("seen_total", "Things.", ["what"]);
static LEVEL: Gauge = Gauge::new("level", "A level.", []);
static SIZES: Histogram = Histogram::new("sizes", "Sizes.", [], &[1.0, 2.0]);
static WRONG: Gauge = Gauge::new("seen_total", "Another kind.", []);

#[test]
fn metrics_have_bounds_and_a_refusal_is_logged_once() {
    let world = World::new(&Descriptor::new("a"));
    let ctx = world.context();
    SEEN.inc(&ctx, ["x"]);
    SEEN.add(&ctx, ["x"], 2.0);
    LEVEL.set(&ctx, [], 5.0);
    LEVEL.add(&ctx, [], -2.0);
    SIZES.observe(&ctx, [], 1.5);
    assert_eq!(world.metric("seen_total", &["x"]), Some(3.0));
    assert_eq!(world.metric("level", &[]), Some(3.0));
    assert_eq!(world.observations("sizes", &[]), [1.5]);
    SEEN.remove(&ctx, ["x"]);
    assert_eq!(world.metric("seen_total", &["x"]), None);
    WRONG.set(&ctx, [], 1.0);
    WRONG.set(&ctx, [], 1.0);
    let lines = log(&world);
    assert!(lines.len() == 1 && lines[0].contains("another kind"), "{lines:?}");
    for n in 0..1_001 {
        SEEN.inc(&ctx, [&n.to_string()]);
    }
    let lines = log(&world);
    assert!(lines.len() == 1 && lines[0].contains("limits.metricSeries"), "{lines:?}");
}

#[test]
fn events_have_all_their_fields_and_need_a_permission() {
    let world = World::new(&Descriptor::new("a"));
    world.create_object(map("a", json!({})));
    let ctx = world.context();
    ctx.event((&CONFIG_MAP, &key("a")), "Synced", "done");
    assert!(world.take_events().is_empty());
    assert!(log(&world)[0].contains("events"), "the refusal says what is missing");
    world.grant(&Permission::new("", ["events"]).verbs(["create"]));
    let event =
        pilothouse_sdk::events::Event::new(pilothouse_sdk::events::EventType::Warning, "Odd", "a note");
    let about = (&CONFIG_MAP, &key("a"));
    let recorded: Result<(), Refusal> =
        event.action("Looking").related(about).field_path("data.k").annotation("n", "v").record(&ctx, about);
    recorded.unwrap();
    let events = world.take_events();
    assert_eq!(events[0].to_string(), "Warning Odd: a note");
    assert_eq!((events[0].action.as_str(), &events[0].related), ("Looking", &Some((CONFIG_MAP, key("a")))));
    let none = pilothouse_sdk::events::Event::new(pilothouse_sdk::events::EventType::Normal, "", "a note");
    let refusal = none.record(&ctx, (&CONFIG_MAP, &key("a"))).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::Invalid);
}
