//! Mappers that an informer looks up queue what mappers queue to which it offers each change.

use std::time::Duration;

use pilothouse_cache::testing::{FakeControllerSource, config_maps};
use pilothouse_cache::{InformerOptions, SharedInformer};
use pilothouse_plugin::{Description, DescriptorLimits, Predicate, World};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::tests::{drain, selecting, visibility};
use super::*;
use crate::dispatch::mapping::Filter;
use crate::testing::settle;

/// Hides the interest of a mapper.
struct Offered(Arc<Mapper>);

impl Listener for Offered {
    fn on_add(&self, object: &Object, is_in_initial_list: bool) {
        self.0.on_add(object, is_in_initial_list);
    }

    fn on_update(&self, old: &Object, new: &Object, is_sync: bool) {
        self.0.on_update(old, new, is_sync);
    }

    fn on_delete(&self, key: &ObjectKey, object: Option<&Object>, final_state_unknown: bool) {
        self.0.on_delete(key, object, final_state_unknown);
    }
}

/// How a watch selects, and what it maps to.
#[derive(Debug, Clone)]
struct Watch {
    granted: &'static [&'static str],
    names: &'static [&'static str],
    namespaces: Vec<&'static str>,
    labels: &'static str,
    fields: &'static str,
    predicate: Option<&'static str>,
    map: usize,
}

const GRANTED: &[&[&str]] = &[&["*"], &["*"], &["a"], &["a", "b"]];

const NAMES: &[&[&str]] = &[&[], &[], &["x"], &["x", "y"]];

const PREDICATES: &[&str] = &[
    r#"{"type":"fieldChanged","path":"/data/n"}"#,
    r#"{"type":"field","path":"/data/n","equals":"1"}"#,
    r#"{"type":"not","of":{"type":"labelsChanged"}}"#,
    r#"{"type":"on","events":["add","delete"]}"#,
    r#"{"type":"field","path":"/data/none","exists":true}"#,
];

fn watch() -> impl Strategy<Value = Watch> {
    let granted = prop::sample::select(GRANTED);
    let names = prop::sample::select(NAMES);
    let namespaces = prop::sample::select(vec![vec![], vec!["a"], vec!["a", "b"]]);
    let labels = prop::sample::select(vec!["", "", "app=web", "app in (web,db)", "app!=web", "app"]);
    let fields = prop::sample::select(vec!["", "", "", "data.n=1", "data.n!=1"]);
    let predicate = prop::option::of(prop::sample::select(PREDICATES));
    (granted, names, namespaces, labels, fields, predicate, 0_usize..3).prop_map(
        |(granted, names, namespaces, labels, fields, predicate, map)| Watch {
            granted,
            names,
            namespaces,
            labels,
            fields,
            predicate,
            map,
        },
    )
}

impl Watch {
    fn selection(&self) -> Selection {
        let filter = Filter {
            visible: visibility(self.granted, self.names),
            rights: Default::default(),
            namespaces: self.namespaces.iter().map(|&name| name.to_owned()).collect(),
            labels: self.labels.parse().unwrap(),
            fields: self.fields.parse().unwrap(),
            elsewhere: Arc::default(),
        };
        let parsed = self.predicate.map(|text| serde_json::from_str::<Value>(text).unwrap());
        let document = json!({
            "apiVersion": "pilothouse.dev/describe/v1alpha1", "name": "p",
            "watches": [{"version": "v1", "kind": "ConfigMap", "predicates": Vec::from_iter(parsed)}],
        });
        let limits = DescriptorLimits::default();
        let description =
            Description::parse(document.to_string().as_bytes(), World::Reconciler, &limits).unwrap();
        let predicates: Vec<Predicate> = description.watches[0].predicates.clone();
        Selection { filter, predicates }
    }

    fn map(&self) -> KeyMap {
        match self.map {
            0 => KeyMap::Itself,
            1 => KeyMap::Label { name: "app".into(), same_namespace: true },
            _ => KeyMap::Field { path: "/data/n".parse().unwrap(), same_namespace: true },
        }
    }
}

/// A write of one of a few objects, or a resync.
#[derive(Debug, Clone)]
enum Step {
    Write { key: &'static str, deletes: bool, app: &'static str, number: u8 },
    Resync,
}

fn step() -> impl Strategy<Value = Step> {
    let key = prop::sample::select(vec!["a/x", "a/y", "b/x", "c/z"]);
    let app = prop::sample::select(vec!["web", "db", "other"]);
    prop_oneof![
        9 => (key, prop::bool::weighted(0.2), app, 0_u8..3)
            .prop_map(|(key, deletes, app, number)| Step::Write { key, deletes, app, number }),
        1 => Just(Step::Resync),
    ]
}

const RESYNC: Duration = Duration::from_secs(60);

async fn compare(watches: &[Watch], steps: &[Step]) {
    let server = FakeControllerSource::new(config_maps());
    server.create("a/x", json!({"metadata": {"labels": {"app": "web"}}, "data": {"n": "1"}}));
    let informer = SharedInformer::new(server.source(), config_maps(), None, InformerOptions::default());
    let (mut queues, mut registrations) = (Vec::new(), Vec::new());
    for (number, watch) in watches.iter().enumerate() {
        let both = [false, true].map(|is_offered| {
            let (mapper, queue) = selecting(watch.selection(), watch.map(), true, 1_000);
            let mapper = Arc::new(mapper);
            let listener: Arc<dyn Listener> = if is_offered { Arc::new(Offered(mapper)) } else { mapper };
            let resync = (number % 2 == 0).then_some(RESYNC);
            registrations.push(informer.add_listener(listener, resync).unwrap());
            queue
        });
        queues.push((watch, both));
    }
    let cancel = CancellationToken::new();
    let run = tokio::spawn({
        let (informer, cancel) = (informer.clone(), cancel.clone());
        async move { informer.run(cancel).await }
    });
    assert!(informer.wait_synced().await);
    for step in steps {
        match *step {
            Step::Write { key, deletes, app, number } => {
                let is_there = server.objects().iter().any(|object| object.key().as_str() == key);
                let body = json!({"metadata": {"labels": {"app": app}}, "data": {"n": number.to_string()}});
                match (is_there, deletes) {
                    (true, true) => drop(server.delete(key)),
                    (true, false) => drop(server.update(key, body)),
                    (false, _) => drop(server.create(key, body)),
                }
            }
            Step::Resync => tokio::time::sleep(RESYNC).await,
        }
        settle().await;
        for (watch, [looked_up, offered]) in &queues {
            assert_eq!(drain(looked_up), drain(offered), "{watch:?} after {step:?}");
        }
    }
    cancel.cancel();
    run.await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_mapper_that_is_looked_up_queues_what_one_queues_that_is_offered_each_change(
        watches in prop::collection::vec(watch(), 1..6),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(compare(&watches, &steps));
    }
}
