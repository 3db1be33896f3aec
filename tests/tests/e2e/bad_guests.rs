//! Guests that misbehave in a call: each is cut, told of and tried again later and later, its neighbours are called
//! meanwhile, and nothing of it stays behind in the host.
//!
//! Each test has a host and a namespace of its own. All guests are probes; in those that are bad, only keys that begin
//! with `bad` are treated badly. What a guest may not do at all is in `grants.rs`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::loglines::{self, Line};
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{ControlPlane, Proxy, Stage, guests};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(
    each_fault_is_named_and_tried_again_later_and_later,
    a_guest_that_floods_its_queue_is_refused_at_the_queues_depth,
    a_neighbour_is_called_while_guests_spin,
    a_hog_leaves_no_memory_behind,
    faults_of_several_keys_are_quarantined_until_a_good_version_comes,
    the_fault_of_a_replaced_generation_is_not_blamed_on_the_next,
    a_call_that_waits_for_the_server_is_cut_at_its_deadline,
    a_write_that_outlives_its_call_is_finished_and_told,
);

/// The rate limiter's first delay, unless the descriptor has another.
const FIRST_DELAY: f64 = 0.005;
/// Timers and the clock of the log need not agree on the last millisecond.
const TOLERANCE: f64 = 0.002;

/// Installs a probe and waits until it runs.
fn install(stage: &Stage, name: &str, config: Value, limits: Value) -> Result<()> {
    let manifest = manifest(stage, name, config, limits).to_string();
    stage.host.install(name, &guests::wasm("probe")?, Some(&manifest))?;
    plugins::wait_until(&stage.host, name, "running", |status| status.generation > 0).map(drop)
}

fn manifest(stage: &Stage, name: &str, mut config: Value, limits: Value) -> Manifest {
    config["namespaces"] = json!([stage.namespace]);
    let verbs = ["get", "list", "watch", "patch"];
    Manifest::new(name).grant(&["configmaps"], &verbs, &[stage.namespace]).config(config).limits(limits)
}

fn wait_for_faults(stage: &Stage, name: &str, count: usize) -> Result<Vec<Line>> {
    stage.host.wait_for(&format!("{count} faults of {name}"), SOON, || {
        let faults = loglines::faults(&stage.host, name);
        (faults.len() >= count).then_some(faults)
    })
}

/// Calls that ended because of the host or the API server.
fn wait_for_unanswered(stage: &Stage, name: &str, count: usize) -> Result<Vec<Line>> {
    stage.host.wait_for(&format!("{count} calls of {name} without an answer"), SOON, || {
        let lines = loglines::plugin_events(&stage.host, name, "call_not_answered");
        (lines.len() >= count).then_some(lines)
    })
}

/// Makes an object that nobody treats badly, and waits until a plugin is called for it.
fn reach(stage: &Stage, plugin: &str, name: &str) -> Result<()> {
    let begins = || loglines::said(&stage.host, plugin, "begin").into_iter();
    let key = format!("{}/{name}", stage.namespace);
    let count = || begins().filter(|line| line.key == key).count();
    let before = count();
    stage.cluster.config_map(stage.namespace, name)?;
    stage.host.wait_for(&format!("{plugin} to be called for {name}"), SOON, || count() > before)
}

/// `begin` lines of one key.
fn begins(stage: &Stage, plugin: &str, name: &str) -> Vec<Line> {
    let key = format!("{}/{name}", stage.namespace);
    loglines::said(&stage.host, plugin, "begin").into_iter().filter(|line| line.key == key).collect()
}

fn each_fault_is_named_and_tried_again_later_and_later(server: Server) -> Result<()> {
    let stage = Stage::new(server, "faults")?;
    stage.cluster.config_map(stage.namespace, "bad")?;
    let bad = |mode| json!({"mode": mode, "onlyPrefix": "bad"});
    install(&stage, "trap", bad("trap"), json!({}))?;
    install(&stage, "spin", bad("spin"), json!({"cpuPerCall": "200ms"}))?;
    install(&stage, "hog", bad("hog"), json!({"memory": "32Mi"}))?;
    install(&stage, "neighbour", json!({}), json!({}))?;

    let cases = [
        ("trap", "trap", "trapped"),
        ("spin", "cpu", "exceeded its CPU budget of 200ms (limits.cpuPerCall)"),
        ("hog", "memory", "the limit is 33554432 (limits.memory)"),
    ];
    for (plugin, kind, words) in cases {
        let faults = wait_for_faults(&stage, plugin, 8)?;
        for fault in &faults {
            assert_eq!((fault.fault.as_str(), fault.level.as_str()), (kind, "ERROR"), "{fault:?}");
            assert!(fault.message.contains(words) && fault.key == "faults/bad", "{fault:?}");
        }
        let counted =
            stage.host.metrics()?.sum("pilothouse_guest_faults_total", &[("plugin", plugin), ("kind", kind)]);
        assert!(counted.is_some_and(|count| count >= 8.0), "{plugin}: {counted:?}");
        let status = plugins::status(&stage.host, plugin)?;
        assert!(status.last_error.as_deref().is_some_and(|error| error.contains(words)), "{status:?}");

        // One try after the other, each with a number of its own, after twice the wait.
        let begins = begins(&stage, plugin, "bad");
        for (at, pair) in faults.windows(2).enumerate() {
            let begin = begins.get(at + 1).context("a fault without a call")?;
            assert_eq!(begin.field("attempt"), (at + 1).to_string(), "{plugin}");
            assert_eq!(begin.call, pair[1].call, "{plugin}");
            let (waited, wanted) = (begin.seconds_since(&pair[0]), FIRST_DELAY * f64::from(1 << at));
            assert!(
                waited >= wanted - TOLERANCE,
                "{plugin}: try {} came after {waited} s, not {wanted}",
                at + 1
            );
        }
    }
    let panicked = loglines::of_plugin(&stage.host, "trap");
    assert!(
        panicked.iter().any(|line| line.message.contains("told to panic at faults/bad")),
        "no panic message"
    );
    for fault in loglines::faults(&stage.host, "spin") {
        assert!(fault.took() >= 0.2 - TOLERANCE, "cut too early: {fault:?}");
    }

    // Other plugins, and other keys of the bad ones, are as well as ever.
    for plugin in ["neighbour", "trap", "spin", "hog"] {
        reach(&stage, plugin, &format!("good-{plugin}"))?;
    }
    assert_eq!(loglines::faults(&stage.host, "neighbour"), []);
    Ok(())
}

fn a_guest_that_floods_its_queue_is_refused_at_the_queues_depth(server: Server) -> Result<()> {
    let stage = Stage::new(server, "floods")?;
    // The key in processing is one of those that the queue holds, and so are objects of the server's own.
    let flood = |count: u32| json!({"mode": "flood", "onlyPrefix": "bad", "count": count});
    install(&stage, "tame", flood(90), json!({"queueDepth": 100}))?;
    install(&stage, "wild", flood(200), json!({"queueDepth": 100}))?;
    stage.cluster.config_map(stage.namespace, "bad")?;

    // Again and again: keys that are in the queue already may be added.
    let failures = stage.host.wait_for("3 failures of wild", SOON, || {
        let lines = loglines::plugin_events(&stage.host, "wild", "reconcile_failed");
        (lines.len() >= 3).then_some(lines)
    })?;
    for failure in &failures {
        assert_eq!(failure.key, "floods/bad", "{failure:?}");
        for words in
            ["the queue is full: it may have 100 keys (limits.queueDepth)", "the plugin adds flood-9"]
        {
            assert!(failure.message.contains(words), "{failure:?}");
        }
    }
    assert_eq!(loglines::faults(&stage.host, "wild"), []);
    let tame = || loglines::said(&stage.host, "tame", "end").iter().any(|line| line.key == "floods/bad");
    stage.host.wait_for("the tame one to end its call", SOON, tame)?;
    assert_eq!(loglines::faults(&stage.host, "tame"), []);
    // Objects that change are no matter of the guest's.
    reach(&stage, "wild", "good-wild")?;
    reach(&stage, "tame", "good-tame")
}

fn a_neighbour_is_called_while_guests_spin(server: Server) -> Result<()> {
    let stage = Stage::new(server, "spinners")?;
    let keys = ["bad-1", "bad-2", "bad-3", "bad-4"];
    for key in keys {
        stage.cluster.config_map(stage.namespace, key)?;
    }
    install(&stage, "neighbour", json!({}), json!({}))?;
    // More spinners than cores.
    let spin = json!({"mode": "spin", "onlyPrefix": "bad", "maxConcurrentReconciles": keys.len()});
    install(&stage, "spin", spin, json!({"cpuPerCall": "30s", "callTimeout": "5m"}))?;
    let spinning = || loglines::said(&stage.host, "spin", "begin").len() == keys.len();
    stage.host.wait_for("all spinners to spin", SOON, spinning)?;

    for turn in 0..8 {
        reach(&stage, "neighbour", &format!("good-{turn}"))?;
    }
    // No spinner was cut before the neighbour's last call.
    assert_eq!(loglines::faults(&stage.host, "spin"), [], "they were to spin all the while");
    assert_eq!(stage.host.get("/livez")?.status, 200);
    Ok(())
}

fn a_hog_leaves_no_memory_behind(server: Server) -> Result<()> {
    const MEBIBYTE: u64 = 1 << 20;

    let stage = Stage::new(server, "hogs")?;
    stage.cluster.config_map(stage.namespace, "bad")?;
    install(&stage, "hog", json!({"mode": "hog"}), json!({"memory": "64Mi"}))?;
    let resident = || stage.host.process().resident_bytes();
    wait_for_faults(&stage, "hog", 3)?;
    let before = resident()?;
    wait_for_faults(&stage, "hog", 9)?;
    let most = before + 32 * MEBIBYTE;
    // Six tries took 384 MiB; one may be under way.
    stage.host.wait_for("its memory to be given back", SOON, || {
        let now = resident()?;
        ensure!(now <= most, "{} MiB, {} before", now / MEBIBYTE, before / MEBIBYTE);
        anyhow::Ok(true)
    })
}

fn faults_of_several_keys_are_quarantined_until_a_good_version_comes(server: Server) -> Result<()> {
    let stage = Stage::new(server, "quarantine")?;
    for key in 0..5 {
        stage.cluster.config_map(stage.namespace, &format!("bad-{key}"))?;
    }
    install(&stage, "trap", json!({"mode": "trap"}), json!({}))?;
    // From the third on, pauses of 1, 2 and 4 s with one call between them.
    let faults = wait_for_faults(&stage, "trap", 5)?;
    for (at, wanted) in [(2, 1.0), (3, 2.0)] {
        let rested = faults[at + 1].seconds_since(&faults[at]);
        assert!(rested >= wanted - TOLERANCE, "after fault {} it rested {rested} s", at + 1);
    }
    let status = plugins::status(&stage.host, "trap")?;
    assert_eq!(status.state, "quarantined", "{status:?}");
    assert!(status.last_error.as_deref().is_some_and(|error| error.contains("trapped")), "{status:?}");

    stage.host.install_manifest("trap", &manifest(&stage, "trap", json!({}), json!({})).to_string())?;
    let healed = plugins::wait_running(&stage.host, "trap")?;
    assert_eq!(healed.generation, 2);
    let done = || loglines::said(&stage.host, "trap", "end").len() >= 5;
    stage.host.wait_for("all keys to be reconciled", SOON, done)?;
    let begins = loglines::said(&stage.host, "trap", "begin");
    let first = begins.iter().find(|line| line.generation == Some(2)).context("no call of the new one")?;
    let rested_out = first.seconds_since(&faults[4]) >= 4.0;
    let of_bad = begins.iter().filter(|line| line.generation == Some(1)).count();
    assert!(of_bad == 5 || rested_out, "a call began on the bad generation when a good one ended its rest");
    assert_eq!(first.field("attempt"), "0", "the failures of the bad generation were not forgotten");
    Ok(())
}

fn the_fault_of_a_replaced_generation_is_not_blamed_on_the_next(server: Server) -> Result<()> {
    let stage = Stage::new(server, "replaced")?;
    stage.cluster.config_map(stage.namespace, "bad")?;
    // Time enough to be replaced in the middle of the call.
    install(&stage, "spin", json!({"mode": "spin"}), json!({"cpuPerCall": "5s", "callTimeout": "5m"}))?;
    stage.host.wait_for("the spinner to spin", SOON, || !begins(&stage, "spin", "bad").is_empty())?;
    stage.host.install_manifest("spin", &manifest(&stage, "spin", json!({}), json!({})).to_string())?;
    plugins::wait_until(&stage.host, "spin", "replaced", |status| status.generation == 2)?;
    assert_eq!(loglines::faults(&stage.host, "spin"), [], "it was replaced too late");

    let fault = wait_for_faults(&stage, "spin", 1)?.remove(0);
    assert_eq!((fault.fault.as_str(), fault.generation), ("cpu", Some(1)), "{fault:?}");
    // The key is the next one's from here on.
    let ended = || loglines::said(&stage.host, "spin", "end").iter().any(|line| line.generation == Some(2));
    stage.host.wait_for("the key to be reconciled", SOON, ended)?;
    let status = plugins::status(&stage.host, "spin")?;
    assert_eq!((status.state.as_str(), status.last_error), ("running", None));
    Ok(())
}

fn a_call_that_waits_for_the_server_is_cut_at_its_deadline(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let proxy = Proxy::start(plane.address())?;
    let stage = Stage::with(plane, "waiting", HostOptions::new(plane.kubeconfig_via(&proxy)?))?;
    stage.cluster.config_map(stage.namespace, "target")?;
    let schedule = |key| json!({"every": "200ms", "key": format!("waiting/{key}")});
    let target = json!({
        "mode": "block", "onlyPrefix": "bad", "targetKind": "v1/ConfigMap", "targetKey": "waiting/target",
        "schedule": schedule("bad"),
    });
    install(&stage, "waits", target, json!({"callTimeout": "1s"}))?;
    install(&stage, "neighbour", json!({"schedule": schedule("good")}), json!({}))?;
    let ends = |plugin| loglines::said(&stage.host, plugin, "end").len();
    stage.host.wait_for("calls to get through", SOON, || ends("waits") > 1 && ends("neighbour") > 1)?;
    assert_eq!(loglines::faults(&stage.host, "waits"), []);

    proxy.stall();
    wait_for_unanswered(&stage, "waits", 1)?;
    let neighbours = ends("neighbour");
    let faults = wait_for_unanswered(&stage, "waits", 4)?;
    let neighbours = ends("neighbour") - neighbours;
    for fault in &faults {
        assert_eq!((fault.fault.as_str(), fault.level.as_str()), ("waiting", "WARN"), "{fault:?}");
        assert!(fault.message.contains("exceeded callTimeout (1s)"), "{fault:?}");
        assert!(fault.took() >= 1.0 - TOLERANCE, "cut too early: {fault:?}");
    }
    let counted = stage
        .host
        .metrics()?
        .sum("pilothouse_guest_faults_total", &[("plugin", "waits"), ("kind", "waiting")]);
    assert!(counted.is_some_and(|count| count >= 4.0), "{counted:?}");
    let status = plugins::status(&stage.host, "waits")?;
    assert_eq!((status.state.as_str(), &status.last_error), ("running", &None), "{status:?}");
    assert!(status.host_condition.is_some_and(|condition| condition.contains("callTimeout")));
    // Three faults took three seconds, which are fifteen schedules.
    assert!(neighbours >= 5, "the neighbour was called {neighbours} times meanwhile");

    proxy.heal();
    let before = ends("waits");
    stage.host.wait_for("calls to get through again", SOON, || ends("waits") > before)?;
    assert_eq!(loglines::faults(&stage.host, "waits"), []);
    plugins::wait_until(&stage.host, "waits", "well", |status| status.host_condition.is_none()).map(drop)
}

fn a_write_that_outlives_its_call_is_finished_and_told(server: Server) -> Result<()> {
    const DELAY: Duration = Duration::from_millis(700);

    let plane = ControlPlane::shared(server)?;
    let proxy = Proxy::start(plane.address())?;
    let stage = Stage::with(plane, "outlived", HostOptions::new(plane.kubeconfig_via(&proxy)?))?;
    stage.cluster.config_map(stage.namespace, "target")?;
    let config = json!({
        "mode": "write", "onlyPrefix": "bad", "targetKind": "v1/ConfigMap", "targetKey": "outlived/target",
    });
    install(&stage, "writer", config, json!({"callTimeout": "1s"}))?;
    // The request passes before the deadline, the answer does not.
    proxy.delay(DELAY);
    stage.cluster.config_map(stage.namespace, "bad")?;
    let fault = wait_for_unanswered(&stage, "writer", 1)?.remove(0);
    assert_eq!((fault.fault.as_str(), fault.key.as_str()), ("waiting", "outlived/bad"), "{fault:?}");
    let told = stage.host.wait_for("the outcome of the write", SOON, || {
        let lines = loglines::plugin_events(&stage.host, "writer", "write_outlived_call");
        // Of the next tries too, in any order.
        lines.into_iter().find(|line| line.call == fault.call)
    })?;
    proxy.heal();
    assert_eq!(told.key, "outlived/bad", "{told:?}");
    for (field, value) in
        [("verb", "patch"), ("name", "target"), ("outcome", "done"), ("kind", "v1/ConfigMap")]
    {
        assert_eq!(told.more.get(field), Some(&json!(value)), "{field} of {told:?}");
    }
    let target = stage.cluster.get("v1/ConfigMap", stage.namespace, "target")?.context("no target")?;
    assert_eq!(target["metadata"]["labels"]["probe"], "was-here");
    Ok(())
}
