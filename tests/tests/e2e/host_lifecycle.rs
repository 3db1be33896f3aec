//! The host from start to end: a start without a cluster, the admin endpoints, `pilothouse status`, errors of the command
//! line, the compile cache over a restart, and SIGTERM.
//!
//! Each test has a host of its own, and a namespace where it needs one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, Proxy, Signal, cli, guests, loglines};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(
    calls_in_flight_end_and_none_begins_after_sigterm,
    a_call_that_does_not_end_is_cut_when_the_time_is_over,
    a_host_without_a_cluster_says_so_and_waits_for_it,
    the_admin_endpoints_show_what_operators_look_for,
    status_prints_a_table_or_json_and_top_prints_rates,
    a_run_that_cannot_start_says_why_in_one_line,
    a_second_start_compiles_nothing_and_trusts_nothing_that_is_damaged,
    a_plugin_whose_compiled_file_is_lost_is_loaded_again,
);

/// The event of a host that ends while calls go on.
const UNFINISHED: &str = "calls_unfinished";

/// The manifest of a probe for the ConfigMaps of a namespace.
fn probe(name: &str, namespace: &str, mut config: Value) -> Manifest {
    config["namespaces"] = json!([namespace]);
    Manifest::new(name).reads(&["configmaps"], namespace).config(config)
}

fn install(host: &Host, name: &str, manifest: &Manifest) -> Result<()> {
    host.install(name, &guests::wasm("probe")?, Some(&manifest.to_string()))?;
    plugins::wait_running(host, name).map(drop)
}

/// A cluster with a namespace that holds some ConfigMaps.
fn namespace(plane: &ControlPlane, name: &str, maps: usize) -> Result<Cluster> {
    let cluster = Cluster::of(plane)?;
    cluster.namespace(name)?;
    (0..maps).try_for_each(|number| cluster.config_map(name, &format!("map-{number}")).map(drop))?;
    Ok(cluster)
}

// SIGTERM.

fn calls_in_flight_end_and_none_begins_after_sigterm(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    namespace(plane, "sigterm", 20)?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let slow = json!({"mode": "slow", "milliseconds": 1500, "maxConcurrentReconciles": 3});
    let limits = json!({"callTimeout": "60s", "cpuPerCall": "60s"});
    install(&host, "slow", &probe("slow", "sigterm", slow).limits(limits))?;
    // All are at the beginning of a call that takes a while.
    let begins = || loglines::said(&host, "slow", "begin");
    host.wait_for("three calls", SOON, || begins().len() >= 3)?;

    host.signal(Signal::TERM)?;
    let status = host.wait_exit(SOON)?;
    assert_eq!(status.code(), Some(0), "{status}");
    let told = loglines::events(&host, "shutdown_started");
    let told = told.first().context("the log says nothing of the signal")?;
    let (begins, ends) = (begins(), loglines::said(&host, "slow", "end"));
    for begin in &begins {
        let ended = ends.iter().any(|end| end.call == begin.call);
        assert!(ended, "this call was cut: {begin:?}");
        assert!(begin.timestamp <= told.timestamp, "this call began after the signal: {begin:?}");
    }
    assert!(ends.iter().any(|end| end.timestamp > told.timestamp), "no call was in flight");
    assert!(begins.len() < 20, "nothing was left to do");
    assert_eq!(loglines::faults(&host, "slow"), []);
    assert_eq!(loglines::events(&host, UNFINISHED), []);
    Ok(())
}

fn a_call_that_does_not_end_is_cut_when_the_time_is_over(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    namespace(plane, "cut", 1)?;
    let proxy = Proxy::start(plane.address())?;
    let mut options = HostOptions::new(plane.kubeconfig_via(&proxy)?);
    options.args = ["--shutdown-timeout", "1"].map(str::to_owned).to_vec();
    let host = Host::start(options)?;
    let limits = json!({"callTimeout": "10m", "cpuPerCall": "10m"});
    // One waits for an API server that does not answer, one for nothing.
    let blocks = json!({
        "mode": "block", "targetKind": "v1/ConfigMap", "targetKey": "cut/map-0",
        "schedule": {"every": "100ms", "key": "cut/again"},
    });
    install(&host, "blocks", &probe("blocks", "cut", blocks).limits(limits.clone()))?;
    proxy.stall();
    // Its kind is watched already: it can be loaded without the API server.
    install(&host, "spins", &probe("spins", "cut", json!({"mode": "spin"})).limits(limits))?;
    host.wait_for("both to be busy", SOON, || {
        let open = |plugin| {
            loglines::said(&host, plugin, "begin").len() > loglines::said(&host, plugin, "end").len()
        };
        let metrics = host.metrics()?;
        let longest = metrics.sum("workqueue_longest_running_processor_seconds", &[("name", "blocks")]);
        anyhow::Ok(open("spins") && open("blocks") && longest.is_some_and(|seconds| seconds > 0.5))
    })?;

    let began = Instant::now();
    host.signal(Signal::TERM)?;
    let status = host.wait_exit(SOON)?;
    let took = began.elapsed();
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(took >= Duration::from_millis(900), "it took {took:?}");
    assert_eq!(loglines::events(&host, UNFINISHED).len(), 1);
    Ok(())
}

// No cluster.

fn a_host_without_a_cluster_says_so_and_waits_for_it(server: Server) -> Result<()> {
    let plane = ControlPlane::start(Options::on(server))?;
    namespace(&plane, "late", 1)?;
    plane.stop_apiserver(Signal::KILL)?;

    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    host.install("probe", &guests::wasm("probe")?, Some(&probe("probe", "late", json!({})).to_string()))?;
    let address = plane.address().to_string();
    let told = host.wait_for("the log to say so", SOON, || {
        let lines = loglines::events(&host, "api_server_unreachable");
        // It goes on trying. One request at a time probes the server, and chance picks whose: the host's or the plugin's.
        let tries = lines.len() + loglines::plugin_events(&host, "probe", "plugin_waiting").len();
        lines.into_iter().next().filter(|_| tries > 1)
    })?;
    assert!(told.level == "WARN" && told.message.contains(&address), "{told:?}");
    for (path, status, words) in
        [("/livez", 200, "ok"), ("/healthz", 200, "no API server yet"), ("/readyz", 503, &address)]
    {
        let answer = host.get(path)?;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.body.contains(words), "{path} says nothing of {words:?}: {}", answer.body);
    }
    let waiting = plugins::wait_until(&host, "probe", "waiting", |status| status.last_error.is_some())?;
    assert_eq!(waiting.state, "loading", "{waiting:?}");
    assert!(waiting.last_error.as_deref().is_some_and(|error| error.contains("ConfigMap")), "{waiting:?}");

    plane.start_apiserver()?;
    host.wait_for("the host to be ready", SOON, || host.get("/readyz").map(|answer| answer.status == 200))?;
    plugins::wait_running(&host, "probe")?;
    host.wait_for("the plugin to work", SOON, || !loglines::said(&host, "probe", "end").is_empty())?;
    host.wait_for("the log to say so", SOON, || loglines::events(&host, "connected").len() == 1)?;
    assert_eq!(host.get("/healthz")?.body, "ok\n");
    Ok(())
}

// What the host shows.

fn the_admin_endpoints_show_what_operators_look_for(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    namespace(plane, "admin", 3)?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    install(&host, "probe", &probe("probe", "admin", json!({})))?;
    host.install("broken", &guests::wasm("other-world")?, None)?;
    plugins::wait_until(&host, "broken", "failed", |status| status.state == "failed")?;
    let ended = || loglines::said(&host, "probe", "end").len() == 3;
    host.wait_for("the plugin to work", SOON, ended)?;

    // A plugin that cannot be loaded does not make the host unready.
    for path in ["/livez", "/readyz", "/healthz"] {
        let answer = host.get(path)?;
        assert_eq!((answer.status, answer.body.as_str()), (200, "ok\n"), "{path}");
    }
    assert_eq!(host.get("/nothing")?.status, 404);

    let shown = host.plugins()?;
    let probe = plugins::status(&host, "probe")?;
    assert!(probe.digest.starts_with("sha256:") && probe.digest.len() == 71, "{probe:?}");
    let wanted = json!({"plugins": [
        {"name": "broken", "generation": 0, "digest": "", "state": "failed",
            "lastError": plugins::status(&host, "broken")?.last_error, "calls": 0, "queueDepth": 0},
        {"name": "probe", "generation": 1, "digest": probe.digest, "state": "running", "lastError": null, "calls": 3,
            "queueDepth": 0},
    ]});
    assert_eq!(shown, wanted);

    let metrics = host.wait_for("the last call to be counted", SOON, || {
        let metrics = host.metrics()?;
        let done = [("controller", "probe"), ("result", "success")];
        anyhow::Ok((metrics.sum("controller_runtime_reconcile_total", &done) == Some(3.0)).then_some(metrics))
    })?;
    let here = |name: &str, labels: &[(&str, &str)]| metrics.sum(name, labels);
    assert_eq!(here("workqueue_depth", &[("name", "probe")]), Some(0.0));
    assert!(here("workqueue_adds_total", &[("name", "probe")]).is_some_and(|adds| adds >= 3.0));
    assert_eq!(
        here("controller_runtime_reconcile_time_seconds_count", &[("controller", "probe")]),
        Some(3.0)
    );
    assert_eq!(here("controller_runtime_reconcile_errors_total", &[("controller", "probe")]), Some(0.0));
    let host_label = plane.address().to_string();
    let requests =
        here("rest_client_requests_total", &[("code", "200"), ("method", "GET"), ("host", &host_label)]);
    assert!(requests.is_some_and(|requests| requests >= 2.0), "{requests:?} of {:?}", metrics.names());
    assert_eq!(
        here("reflector_watches_total", &[("namespace", "admin")]),
        Some(1.0),
        "one streaming list of the ConfigMaps, which is the watch too"
    );
    assert_eq!(here("reflector_lists_total", &[("namespace", "admin")]), Some(0.0));
    assert_eq!(here("pilothouse_cache_objects", &[("namespace", "admin")]), Some(3.0));
    assert!(here("process_resident_memory_bytes", &[]).is_some_and(|bytes| bytes > 1e6));
    Ok(())
}

fn status_prints_a_table_or_json_and_top_prints_rates(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    namespace(plane, "status", 2)?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    install(&host, "probe", &probe("probe", "status", json!({})))?;
    host.wait_for("the plugin to work", SOON, || {
        plugins::status(&host, "probe").map(|status| status.calls == 2)
    })?;

    let finished = cli::pilothouse(&host, &["status", "--admin", host.admin(), "-o", "json"])?;
    ensure!(finished.status.success(), "{finished:?}");
    assert_eq!(serde_json::from_str::<Value>(&finished.stdout)?, host.plugins()?);

    let finished = cli::pilothouse(&host, &["status", "--admin", host.admin()])?;
    ensure!(finished.status.success(), "{finished:?}");
    let rows: Vec<Vec<&str>> =
        finished.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let digest = plugins::status(&host, "probe")?.digest;
    assert_eq!(rows.len(), 2, "{}", finished.stdout);
    assert_eq!(rows[0], ["NAME", "GENERATION", "STATE", "CALLS", "QUEUE", "DIGEST", "LAST", "ERROR"]);
    assert_eq!(rows[1], ["probe", "1", "running", "2", "0", &digest["sha256:".len()..][..12]]);

    // Nothing happens meanwhile, or next to nothing, so what is shown is what the plugin uses.
    let once = ["top", "--admin", host.admin(), "--interval", "1", "--once"];
    let finished = cli::pilothouse(&host, &[&once[..], &["-o", "json"]].concat())?;
    ensure!(finished.status.success(), "{finished:?}");
    let rates: Value = serde_json::from_str(&finished.stdout)?;
    let plugin = &rates["plugins"][0];
    assert_eq!((&plugin["name"], &plugin["state"]), (&json!("probe"), &json!("running")), "{rates}");
    assert!(rates["seconds"].as_f64() >= Some(1.0) && plugin["memoryBytes"].as_u64() > Some(0), "{rates}");
    let finished = cli::pilothouse(&host, &[&once[..], &["--sort", "name"]].concat())?;
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert!(finished.status.success() && lines.len() == 3, "{finished:?}");
    assert!(
        lines[0].contains("1 of 1 plugins running") && lines[2].starts_with("probe  running  1"),
        "{lines:?}"
    );

    let top = ["top", "--admin", host.admin(), "--interval", "1"];
    ensure!(cli::left_by_its_reader(&host, &top, 0, || Ok(()))?.success());

    // Nobody there.
    let finished = cli::pilothouse(&host, &["status", "--admin", "127.0.0.1:1"])?;
    assert_eq!((finished.status.code(), finished.stdout.as_str()), (Some(1), ""));
    assert!(
        finished
            .stderr
            .starts_with("error: no host answers at 127.0.0.1:1: check that `pilothouse run` is running"),
        "{}",
        finished.stderr
    );
    Ok(())
}

// The command line.

fn a_run_that_cannot_start_says_why_in_one_line(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path");
    let (kubeconfig, plugins) = (text(plane.kubeconfig())?, text(&host.plugins_dir())?);
    let cache = text(&host.dir().join("other-cache"))?;
    let taken = host.admin().trim_start_matches("http://").to_owned();
    let (nowhere, file) = (text(&host.dir().join("nowhere"))?, kubeconfig.clone());

    type Given<'a> = [(&'a str, &'a str); 1];
    let cases: [(Given<'_>, &[&str]); 7] = [
        ([("--plugins", &nowhere)], &[&nowhere, "cannot be read", "--plugins"]),
        ([("--plugins", &file)], &[&file, "is not a directory", "--plugins"]),
        ([("--kubeconfig", &nowhere)], &[&nowhere, "kubeconfig"]),
        ([("--context", "elsewhere")], &["elsewhere", "context"]),
        ([("--listen", &taken)], &[&taken, "cannot listen", "--listen"]),
        ([("--health-addr", &taken)], &[&taken, "cannot listen", "--health-addr"]),
        ([("--cache-dir", &file)], &[&file, "--cache-dir"]),
    ];
    for (wrong, words) in cases {
        let mut flags = BTreeMap::from([
            ("--plugins", plugins.as_str()),
            ("--kubeconfig", &kubeconfig),
            ("--cache-dir", &cache),
            ("--listen", "127.0.0.1:0"),
        ]);
        flags.extend(wrong);
        let args: Vec<&str> = flags.into_iter().flat_map(|(flag, value)| [flag, value]).collect();
        let finished = cli::pilothouse(&host, &[&["run"], args.as_slice()].concat())?;
        let said = finished.stderr.trim_end();
        assert_eq!((finished.status.code(), finished.stdout.as_str()), (Some(1), ""), "{wrong:?}: {said}");
        assert!(said.starts_with("error: ") && said.lines().count() == 1, "{wrong:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{wrong:?} says nothing of {word:?}: {said}");
        }
    }

    // It leaves no recording in the way of the next one.
    let recording = text(&host.dir().join("calls.jsonl"))?;
    let args = ["run", "--plugins", &nowhere, "--kubeconfig", &kubeconfig, "--cache-dir", &cache];
    let finished =
        cli::pilothouse(&host, &[&args, &["--listen", "127.0.0.1:0", "--record", &recording][..]].concat())?;
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("recording_started"), "{finished:?}");
    assert!(!Path::new(&recording).exists());

    // An unknown option is clap's to tell.
    let finished = cli::pilothouse(&host, &["run", "--plugin", "x"])?;
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    assert!(finished.stderr.contains("--plugins"), "{finished:?}");
    Ok(())
}

// The compile cache.

/// The compiled components in the cache folder, with when they were written and what they hold.
fn compiled(dir: &Path) -> Result<BTreeMap<PathBuf, (SystemTime, Vec<u8>)>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir.join("cache/compiled"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "cwasm") {
            found.insert(path.clone(), (fs::metadata(&path)?.modified()?, fs::read(&path)?));
        }
    }
    Ok(found)
}

fn a_second_start_compiles_nothing_and_trusts_nothing_that_is_damaged(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    namespace(plane, "cached", 1)?;
    let folder = tempfile::tempdir()?;
    let options =
        || HostOptions { dir: Some(folder.path().to_owned()), ..HostOptions::new(plane.kubeconfig()) };
    let works = |host: &Host| -> Result<()> {
        plugins::wait_running(host, "probe")?;
        host.wait_for("the plugin to work", SOON, || !loglines::said(host, "probe", "end").is_empty())?;
        host.signal(Signal::TERM)?;
        ensure!(host.wait_exit(SOON)?.success());
        Ok(())
    };
    let host = Host::start(options())?;
    host.install("probe", &guests::wasm("probe")?, Some(&probe("probe", "cached", json!({})).to_string()))?;
    works(&host)?;
    let first = compiled(folder.path())?;
    assert_eq!(first.len(), 1, "one component, compiled once");

    works(&Host::start(options())?)?;
    assert!(compiled(folder.path())? == first, "the second start has compiled it again");

    // One bit of the machine code.
    let (path, (_, code)) = first.first_key_value().context("no entry")?;
    let mut damaged = code.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    fs::write(path, &damaged)?;
    let host = Host::start(options())?;
    works(&host)?;
    let told = loglines::events(&host, "compile_cache_entry_damaged");
    assert!(told.len() == 1 && told[0].level == "WARN", "{told:?}");
    let third = compiled(folder.path())?;
    assert_eq!(third.keys().collect::<Vec<_>>(), first.keys().collect::<Vec<_>>());
    assert!(third[path].1 != damaged, "the damaged entry is still there");

    // Nor is one trusted that is cut short, or whose sum is missing.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    fs::write(path, &third[path].1[..middle])?;
    let host = Host::start(options())?;
    works(&host)?;
    assert_eq!(loglines::events(&host, "compile_cache_entry_damaged").len(), 1);
    assert_eq!(compiled(folder.path())?[path].1.len(), third[path].1.len());
    Ok(())
}

fn a_plugin_whose_compiled_file_is_lost_is_loaded_again(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let cluster = namespace(plane, "lost-code", 1)?;
    let folder = tempfile::tempdir()?;
    // Each call has an instance of its own, so nothing is mapped between two calls.
    let args = ["--idle-ttl", "0"].map(str::to_owned).to_vec();
    let dir = Some(folder.path().to_owned());
    let host = Host::start(HostOptions { args, dir, ..HostOptions::new(plane.kubeconfig()) })?;
    install(&host, "probe", &probe("probe", "lost-code", json!({})))?;
    let ended = |name: &str| {
        let key = format!("lost-code/{name}");
        loglines::said(&host, "probe", "end").iter().any(|line| line.key == key)
    };
    host.wait_for("the first call", SOON, || ended("map-0"))?;
    compiled(folder.path())?.keys().try_for_each(fs::remove_file)?;
    cluster.config_map("lost-code", "later")?;
    host.wait_for("a call of the plugin that was loaded again", SOON, || ended("later"))?;
    let status = plugins::status(&host, "probe")?;
    assert_eq!((status.generation, status.last_error), (2, None));
    assert_eq!(loglines::events(&host, "code_lost").len(), 1);
    assert_eq!(compiled(folder.path())?.len(), 1, "it was compiled again");
    Ok(())
}
