//! Events and schedules: what handlers are told of is a legal history of each key, in order and without gaps at the end;
//! keys that handlers put on the queue are reconciled; and schedules call on time.
//!
//! A legal history: an add, then updates that each begin where the one before has ended, then a delete; then perhaps an
//! add again. Updates may be merged, but the last state is always told.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::loglines::{self, Line};
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{ControlPlane, Host, Stage};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(
    a_handler_is_told_the_history_of_each_key_in_order,
    what_happens_while_no_host_runs_is_told_at_the_next_start,
    keys_that_handlers_put_on_the_queue_are_reconciled,
    schedules_call_on_time,
);

fn reader(stage: &Stage, guest: &str, resource: &str) -> Manifest {
    Manifest::new(guest).reads(&[resource], stage.namespace)
}

/// What a guest has said so far.
fn said(stage: &Stage, plugin: &str) -> Vec<Line> {
    let mut lines = loglines::of_plugin(&stage.host, plugin);
    lines.retain(|line| line.target == "guest");
    lines
}

/// Waits until a guest has said something that begins so.
fn wait_for(stage: &Stage, plugin: &str, words: &str) -> Result<Line> {
    stage.host.wait_for(&format!("{plugin} to say {words:?}"), SOON, || {
        said(stage, plugin).into_iter().find(|line| line.message.starts_with(words))
    })
}

/// What a handler was told of one key.
#[derive(Debug, PartialEq)]
enum Told {
    Add { version: String, initial: bool },
    Update { old: String, new: String },
    Delete { version: String },
}

/// What `events-only` was told, by the names of the objects, each in order.
fn histories(lines: &[Line]) -> Result<BTreeMap<String, Vec<Told>>> {
    let mut histories: BTreeMap<String, Vec<Told>> = BTreeMap::new();
    let mut calls: BTreeMap<Option<u64>, usize> = BTreeMap::new();
    lines.iter().for_each(|line| *calls.entry(line.call).or_default() += 1);
    for line in lines {
        let (what, key) = line.message.split_once(' ').with_context(|| format!("not an event: {line:?}"))?;
        // A call of many events is of no key.
        let is_of_many = line.call.is_some() && calls[&line.call] > 1;
        let of_call = if is_of_many { "" } else { key };
        ensure!(line.key == of_call, "the host says {:?}, the guest {key}", line.key);
        let version = line.field("resource_version").to_owned();
        let told = match what {
            "add" => Told::Add { version, initial: line.field("initial") == "true" },
            "update" => Told::Update { old: line.field("old").to_owned(), new: version },
            "delete" => Told::Delete { version },
            _ => bail!("not an event: {line:?}"),
        };
        let name = key.rsplit('/').next().unwrap_or(key);
        histories.entry(name.to_owned()).or_default().push(told);
    }
    Ok(histories)
}

/// The version in which a legal history leaves its object, `None` for one that is gone.
fn follow(history: &[Told]) -> Result<Option<String>> {
    let mut now: Option<String> = None;
    for told in history {
        now = match (told, now) {
            (Told::Add { version, .. }, None) => Some(version.clone()),
            (Told::Update { old, new }, Some(before)) if *old == before && *new != before => {
                Some(new.clone())
            }
            // A delete comes with the last state, whose version is that of the deletion.
            (Told::Delete { .. }, Some(_)) => None,
            (told, now) => bail!("{told:?} after {now:?} in {history:?}"),
        };
    }
    Ok(now)
}

fn version(object: &Value) -> Result<String> {
    Ok(object["metadata"]["resourceVersion"].as_str().context("an object without a version")?.to_owned())
}

fn a_handler_is_told_the_history_of_each_key_in_order(server: Server) -> Result<()> {
    const KEYS: usize = 15;
    const TURNS: usize = 6;

    let stage = Stage::new(server, "events")?;
    let (cluster, namespace) = (&stage.cluster, stage.namespace);
    cluster.config_map(namespace, "early")?;
    stage.install("events-only", "events-only", &reader(&stage, "events-only", "configmaps"))?;

    // Interleaved; every third is deleted, and every sixth made again.
    let name = |key: usize| format!("key-{key}");
    let mut last = BTreeMap::new();
    for key in 0..KEYS {
        last.insert(name(key), Some(version(&cluster.config_map(namespace, &name(key))?)?));
    }
    for turn in 0..TURNS {
        for key in 0..KEYS {
            let changed = cluster.change(namespace, &name(key), &format!("{turn}"))?;
            last.insert(name(key), Some(version(&changed)?));
        }
    }
    for key in (0..KEYS).step_by(3) {
        cluster.delete("v1/ConfigMap", namespace, &name(key))?;
        last.insert(name(key), None);
        if key % 6 == 0 {
            last.insert(name(key), Some(version(&cluster.config_map(namespace, &name(key))?)?));
        }
    }
    last.insert("early".to_owned(), Some(version(&cluster.change(namespace, "early", "late")?)?));

    let told = stage.host.wait_for("the last state of each key", SOON, || {
        let histories = histories(&said(&stage, "events-only"))?;
        let mut seen = BTreeMap::new();
        for (name, history) in &histories {
            seen.insert(name.clone(), follow(history).with_context(|| name.clone())?);
        }
        ensure!(seen == last, "it ends with {seen:?}, and should with {last:?}");
        anyhow::Ok(Some(histories))
    })?;
    for (name, history) in &told {
        let initial = matches!(history[0], Told::Add { initial: true, .. });
        assert_eq!(initial, name == "early", "{name}: {history:?}");
    }
    // One that is deleted and made again is another object: both ends are told, never an update across them.
    for key in (0..KEYS).step_by(6) {
        let history = &told[&name(key)];
        assert!(
            matches!(history[..], [Told::Add { .. }, .., Told::Delete { .. }, Told::Add { .. }]),
            "{history:?}"
        );
    }
    let count = told.values().map(Vec::len).sum::<usize>();
    stage.host.wait_for("all events to be counted", SOON, || {
        let labels = [("controller", "events-only")];
        let handled = stage.host.metrics()?.sum("pilothouse_events_handled_total", &labels);
        ensure!(handled == Some(count as f64), "{handled:?}, not {count}");
        anyhow::Ok(true)
    })?;
    // Some events came together; and the guest was told of the end of the first list.
    let calls = plugins::status(&stage.host, "events-only")?.calls;
    assert!((1..=count as u64 + 1).contains(&calls), "{calls} calls for {count} events");
    Ok(())
}

fn what_happens_while_no_host_runs_is_told_at_the_next_start(server: Server) -> Result<()> {
    let stage = Stage::new(server, "absent")?;
    let (cluster, namespace) = (&stage.cluster, stage.namespace);
    for name in ["stays", "goes"] {
        cluster.config_map(namespace, name)?;
    }
    stage.install("events-only", "events-only", &reader(&stage, "events-only", "configmaps"))?;
    for name in ["stays", "goes"] {
        wait_for(&stage, "events-only", &format!("add {namespace}/{name}"))?;
    }
    let Stage { host, cluster, .. } = stage;
    drop(host);
    cluster.delete("v1/ConfigMap", namespace, "goes")?;
    cluster.config_map(namespace, "comes")?;

    let host = Host::start(HostOptions::new(ControlPlane::shared(server)?.kubeconfig()))?;
    let stage = Stage { host, cluster, namespace: "absent" };
    stage.install("events-only", "events-only", &reader(&stage, "events-only", "configmaps"))?;
    for name in ["stays", "comes"] {
        let line = wait_for(&stage, "events-only", &format!("add {namespace}/{name}"))?;
        assert_eq!(line.field("initial"), "true", "{line:?}");
    }
    stage.cluster.config_map(namespace, "last")?;
    wait_for(&stage, "events-only", "add absent/last")?;
    assert!(
        !histories(&said(&stage, "events-only"))?.contains_key("goes"),
        "it is told of what it never saw"
    );
    Ok(())
}

fn keys_that_handlers_put_on_the_queue_are_reconciled(server: Server) -> Result<()> {
    let stage = Stage::new(server, "handlers")?;
    let (cluster, namespace) = (&stage.cluster, stage.namespace);
    cluster.config_map(namespace, "one")?;
    stage.install("handlers", "handlers", &reader(&stage, "handlers", "configmaps"))?;
    let events = || {
        let lines = said(&stage, "handlers").into_iter().map(|line| line.message);
        lines.filter(|message| message.ends_with(" handlers/one")).collect::<Vec<_>>()
    };
    let follow = |event: &str| {
        stage.host.wait_for(&format!("the reconcile after the {event}"), SOON, || {
            let events = events();
            let last = events.iter().rposition(|message| message.starts_with(event))?;
            events[last..].iter().any(|message| message.starts_with("reconcile")).then_some(())
        })
    };
    follow("add")?;
    cluster.change(namespace, "one", "other")?;
    follow("update")?;
    cluster.delete("v1/ConfigMap", namespace, "one")?;
    follow("delete")?;
    let wanted: Vec<String> = ["add", "reconcile", "update", "reconcile", "delete", "reconcile"]
        .iter()
        .map(|event| format!("{event} handlers/one"))
        .collect();
    assert_eq!(events(), wanted);

    // Many events of one key are one reconcile at least, and none is lost behind the last event.
    for turn in 0..20 {
        cluster.config_map(namespace, &format!("many-{turn}"))?;
    }
    stage.host.wait_for("all keys to be reconciled", SOON, || {
        let lines = said(&stage, "handlers");
        (0..20).all(|turn| lines.iter().any(|line| line.message == format!("reconcile handlers/many-{turn}")))
    })?;
    let status = plugins::status(&stage.host, "handlers")?;
    assert_eq!((status.queue_depth, status.last_error), (0, None));
    Ok(())
}

fn schedules_call_on_time(server: Server) -> Result<()> {
    const EVERY: f64 = 0.3;

    let stage = Stage::new(server, "schedules")?;
    let config =
        json!({"namespaces": ["schedules"], "schedule": {"every": "300ms", "key": "schedules/tick"}});
    stage.install("probe", "probe", &reader(&stage, "probe", "configmaps").config(config.clone()))?;
    let begins = || loglines::said(&stage.host, "probe", "begin");
    let calls = stage.host.wait_for("ten scheduled calls", SOON, || {
        let calls = begins();
        (calls.len() >= 10).then_some(calls)
    })?;
    for call in &calls {
        assert_eq!((call.key.as_str(), call.field("reasons")), ("schedules/tick", "scheduled"), "{call:?}");
    }
    // A tick may be late, but the rate is kept: the nth is never before its time.
    for (tick, call) in calls.iter().enumerate() {
        let passed = call.seconds_since(&calls[0]);
        let due = EVERY * tick as f64;
        assert!(passed > due - EVERY, "tick {tick} came {passed} s after the first, due after {due} s");
    }

    // A new generation brings its own schedule; the old one is not heard of again.
    let mut config = config;
    config["schedule"]["key"] = json!("schedules/tock");
    stage
        .host
        .install_manifest("probe", &reader(&stage, "probe", "configmaps").config(config).to_string())?;
    let tocks = || begins().into_iter().filter(|line| line.key == "schedules/tock").count();
    stage.host.wait_for("the new schedule", SOON, || tocks() >= 5)?;
    let calls = begins();
    let first = calls.iter().position(|line| line.key == "schedules/tock").context("no tock")?;
    let late = calls[first..].iter().filter(|line| line.key == "schedules/tick").count();
    // One may have been on the queue already.
    assert!(late <= 1, "the old schedule went on {late} times");
    Ok(())
}
