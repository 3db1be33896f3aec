//! What one event costs a thousand plugins that watch its kind:
//! `cargo bench -p pilothouse-manager --features bench --bench dispatch`.
//!
//! Each row is measured twice: with the interests of the listeners, and with listeners that hide theirs, so that the informer
//! offers each change to each of them and each judges for itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures_util::StreamExt as _;
use futures_util::stream;
use parking_lot::Mutex;
use pilothouse_bench::{Better, Report, median};
use pilothouse_cache::{FnListerWatcher, InformerOptions, Listener, SharedInformer};
use pilothouse_client::{ApiResource, WatchEvent};
use pilothouse_manager::bench::MappedWatch;
use pilothouse_object::{Gvk, ListMeta, Object, ObjectKey};
use pilothouse_plugin::{Description, DescriptorLimits, Grants, Rule, World};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const RUNS: usize = 5;
const PLUGINS: usize = 1_000;
const EVENTS: usize = 200;
/// No event takes as long.
const PATIENCE: Duration = Duration::from_secs(60);

/// As the host's binary has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    pilothouse_bench::run(
        "pilothouse-manager-dispatch",
        "cargo bench -p pilothouse-manager --features bench --bench dispatch",
        &[("events", events)],
    )
}

/// The watches of some plugins, and who takes an event.
struct Scenario {
    name: &'static str,
    plugins: usize,
    /// The watch of a plugin, by its number.
    watch: fn(usize) -> Value,
    /// The value of the label `app`, and the node, of the pods that change.
    pod: (&'static str, &'static str),
    /// Plugins that get a key of each event.
    taking: usize,
    /// The most microseconds that an event may cost.
    aim: Option<f64>,
}

const SCENARIOS: &[Scenario] = &[
    Scenario { name: "no plugin", plugins: 0, watch: |_| json!({}), pod: ("web", "n"), taking: 0, aim: None },
    Scenario {
        name: "all filter by another namespace each",
        plugins: PLUGINS,
        watch: |n| json!({"namespaces": [format!("ns{n}")]}),
        pod: ("web", "n"),
        taking: 0,
        aim: Some(50.0),
    },
    Scenario {
        name: "all filter by another label each",
        plugins: PLUGINS,
        watch: |n| json!({"labelSelector": format!("app=v{n}")}),
        pod: ("web", "n"),
        taking: 0,
        aim: Some(50.0),
    },
    Scenario {
        name: "all filter by the same label, which is absent",
        plugins: PLUGINS,
        watch: |_| json!({"labelSelector": "tier=front"}),
        pod: ("web", "n"),
        taking: 0,
        aim: Some(50.0),
    },
    Scenario {
        name: "all filter by another value of a field each",
        plugins: PLUGINS,
        watch: |n| json!({"fieldSelector": format!("spec.nodeName=n{n}")}),
        pod: ("web", "n"),
        taking: 0,
        aim: None,
    },
    Scenario {
        name: "all filter by equal predicates",
        plugins: PLUGINS,
        watch: |_| json!({"predicates": [{"type": "fieldChanged", "path": "/spec/nodeName"}]}),
        pod: ("web", "n"),
        taking: 0,
        aim: None,
    },
    Scenario {
        name: "all filter by another predicate each",
        plugins: PLUGINS,
        watch: |n| json!({"predicates": [{"type": "field", "path": "/spec/nodeName", "equals": format!("n{n}")}]}),
        pod: ("web", "n"),
        taking: 0,
        aim: None,
    },
    Scenario {
        name: "one takes it, the others filter by another label each",
        plugins: PLUGINS,
        watch: |n| json!({"labelSelector": format!("app=v{n}")}),
        pod: ("v7", "n"),
        taking: 1,
        aim: None,
    },
    Scenario {
        name: "all take it",
        plugins: PLUGINS,
        watch: |_| json!({}),
        pod: ("web", "n"),
        taking: PLUGINS,
        aim: Some(5.0 * PLUGINS as f64),
    },
    Scenario {
        name: "all take it and map a field",
        plugins: PLUGINS,
        watch: |_| json!({"map": {"type": "field", "path": "/spec/nodeName", "sameNamespace": true}}),
        pod: ("web", "n"),
        taking: PLUGINS,
        aim: Some(5.0 * PLUGINS as f64),
    },
];

fn events(report: &mut Report) -> anyhow::Result<()> {
    for scenario in SCENARIOS {
        let run = |is_offered| (0..RUNS).map(move |_| microseconds(scenario, is_offered));
        let mut looked_up = run(false).collect::<anyhow::Result<Vec<f64>>>()?;
        let offered = run(true).collect::<anyhow::Result<Vec<f64>>>()?;
        let aim = scenario.aim.map_or(pilothouse_bench::Aim::Shown, pilothouse_bench::Aim::Value);
        let title = format!("{} plugins: {}", scenario.plugins, scenario.name);
        let peers = vec![("each judges for itself", offered)];
        report.versus(&title, "us an event", Better::Lower, &mut looked_up, peers, aim);
    }
    Ok(())
}

/// Hides the interest of a listener.
struct Offered(Arc<dyn Listener>);

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

    fn took(&self, time: Duration) {
        self.0.took(time);
    }
}

/// Counts updates; it joins last, so all others have been called by then.
struct Last(AtomicUsize);

impl Listener for Last {
    fn on_add(&self, _: &Object, _: bool) {}

    fn on_update(&self, _: &Object, _: &Object, _: bool) {
        self.0.fetch_add(1, Relaxed);
    }

    fn on_delete(&self, _: &ObjectKey, _: Option<&Object>, _: bool) {}
}

fn pods() -> ApiResource {
    ApiResource::new(Gvk::new("", "v1", "Pod"), "pods", true)
}

/// A pod of about 5 KB, in the order of fields in which the API server writes them.
fn pod(version: usize, (app, node): (&str, &str)) -> anyhow::Result<Object> {
    let env: Vec<Value> = (0..40)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value {n} of a setting")}))
        .collect();
    let conditions: Vec<Value> = ["Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .iter()
        .map(|kind| json!({"lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z", "status": "True", "type": kind}))
        .collect();
    let body = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "annotations": {"example.com/note": "x".repeat(600)},
            "labels": {"app": app, "pod-template-hash": "5d4f8c7b9", "release": "stable"},
            "name": "web-5d4f8c7b9-abcde", "namespace": "other", "resourceVersion": version.to_string(), "uid": "u",
        },
        "spec": {
            "containers": [{"env": env, "image": "registry.example.com/web:1", "name": "web"}],
            "dnsPolicy": "ClusterFirst", "nodeName": node, "restartPolicy": "Always",
        },
        "status": {"conditions": conditions, "message": "m".repeat(600), "phase": "Running", "podIP": format!("10.0.0.{version}")},
    });
    Ok(Object::decode(body.to_string().as_bytes())?)
}

fn mapped_watch(mut watch: Value) -> anyhow::Result<MappedWatch> {
    watch["version"] = json!("v1");
    watch["kind"] = json!("Pod");
    let document =
        json!({"apiVersion": "pilothouse.dev/describe/v1alpha1", "name": "plugin", "watches": [watch]});
    let limits = DescriptorLimits::default();
    let description = Description::parse(document.to_string().as_bytes(), World::Reconciler, &limits)?;
    let grants = Grants::new(vec![Rule {
        groups: vec![String::new()],
        resources: vec!["pods".into()],
        verbs: vec!["list".into(), "watch".into()],
        namespaces: vec!["*".into()],
        names: Vec::new(),
    }]);
    let watch = description.watches.first().context("a watch")?;
    Ok(MappedWatch::new(watch, &grants, "pods"))
}

/// Microseconds from an event at the watch until all listeners have been called for it.
fn microseconds(scenario: &Scenario, is_offered: bool) -> anyhow::Result<f64> {
    let (send, events) = mpsc::unbounded_channel::<WatchEvent>();
    let (events, first) = (Mutex::new(Some(events)), pod(1, scenario.pod)?);
    let list = move |_: &_| {
        Ok((vec![first.clone()], ListMeta { resource_version: "1".into(), ..ListMeta::default() }))
    };
    let watch = move |_: &_| match events.lock().take() {
        Some(events) => {
            let next = async |mut events: mpsc::UnboundedReceiver<WatchEvent>| {
                events.recv().await.map(|event| (Ok(event), events))
            };
            Ok(stream::unfold(events, next).boxed())
        }
        None => Ok(stream::pending().boxed()),
    };
    let source = Arc::new(FnListerWatcher::new(list, watch));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let informer = SharedInformer::new(source, pods(), None, InformerOptions::default());
        let watches: Vec<MappedWatch> = (0..scenario.plugins)
            .map(|n| mapped_watch((scenario.watch)(n)))
            .collect::<anyhow::Result<_>>()?;
        let mut registrations = Vec::new();
        for watch in &watches {
            let listener = watch.listener();
            let listener: Arc<dyn Listener> = if is_offered { Arc::new(Offered(listener)) } else { listener };
            registrations.push(informer.add_listener(listener, None)?);
        }
        let last = Arc::new(Last(AtomicUsize::new(0)));
        registrations.push(informer.add_listener(Arc::clone(&last) as Arc<dyn Listener>, None)?);
        let cancel = CancellationToken::new();
        let run = tokio::spawn({
            let (informer, cancel) = (informer.clone(), cancel.clone());
            async move { informer.run(cancel).await }
        });
        ensure!(informer.wait_synced().await, "the informer has ended");
        let mut times = Vec::new();
        for number in 0..EVENTS {
            let event = WatchEvent::Modified(pod(2 + number, scenario.pod)?);
            let began = Instant::now();
            send.send(event).ok().context("the watch is gone")?;
            while last.0.load(Relaxed) <= number {
                ensure!(began.elapsed() < PATIENCE, "the event was not delivered");
                tokio::task::yield_now().await;
            }
            times.push(began.elapsed().as_secs_f64() * 1e6);
            let keys: usize = watches.iter().map(MappedWatch::drain).sum();
            ensure!(keys == scenario.taking, "{keys} plugins took an event of {}", scenario.name);
        }
        cancel.cancel();
        run.await?;
        Ok(median(&mut times))
    })
}
