//! What a descriptor, a manifest and the objects of a cluster may cost the host: each is refused or cut at its limit, by the
//! name of the limit, and a neighbour goes on. And least privilege: a host whose own identity may read two namespaces, or one
//! name, runs plugins that may read these.

use std::fs;

use anyhow::{Context, Result};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::{self, Manifest, Status};
use pilothouse_tests::{Cluster, ControlPlane, Host, Stage, guests, loglines};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(
    a_greedy_descriptor_is_refused_by_the_name_of_the_limit_and_harms_no_neighbour,
    what_is_asked_for_and_not_granted_is_one_line,
    an_object_with_100_000_values_costs_its_own_place_in_the_index_and_nothing_else,
    a_limits_file_sets_the_ceilings_of_manifests,
    plugins_that_sleep_in_describe_stop_no_load,
    a_plugin_that_takes_memory_in_its_calls_is_stopped_at_the_bound_of_the_host,
);

pilothouse_tests::on_the_real_server!(a_host_that_may_read_two_namespaces_and_one_name_needs_no_more);

/// The manifest of a probe of the ConfigMaps of a namespace.
fn probe(name: &str, namespace: &str, mut config: Value) -> Manifest {
    config["namespaces"] = json!([namespace]);
    Manifest::new(name).reads(&["configmaps"], namespace).config(config)
}

fn neighbour(stage: &Stage) -> Result<()> {
    stage.install("neighbour", "probe", &probe("neighbour", stage.namespace, json!({})))
}

/// Creates a ConfigMap and waits until a plugin was called with it.
fn is_called(stage: &Stage, plugin: &str, name: &str) -> Result<()> {
    let key =
        stage.cluster.config_map(stage.namespace, name).map(|_| format!("{}/{name}", stage.namespace))?;
    called_with(&stage.host, plugin, &key)
}

fn called_with(host: &Host, plugin: &str, key: &str) -> Result<()> {
    host.wait_for(&format!("{plugin} to be called with {key}"), SOON, || {
        loglines::said(host, plugin, "end").into_iter().find(|line| line.key == key).map(drop)
    })
}

/// Installs a probe that cannot be loaded; its status.
fn failed(stage: &Stage, manifest: &Manifest, name: &str) -> Result<Status> {
    stage.host.install(name, &guests::wasm("probe")?, Some(&manifest.to_string()))?;
    // Between two looks at the directory a failed load may have no error.
    let has_failed = |status: &Status| status.state == "failed" && status.last_error.is_some();
    plugins::wait_until(&stage.host, name, "failed", has_failed)
}

fn a_greedy_descriptor_is_refused_by_the_name_of_the_limit_and_harms_no_neighbour(
    server: Server,
) -> Result<()> {
    let stage = Stage::new(server, "greedy")?;
    neighbour(&stage)?;
    let long = json!({"descriptorBytes": "8Mi", "cpuPerCall": "10s"});
    for (name, asks, limits, said) in [
        // A million accesses in ten kilobytes.
        (
            "rules",
            json!({"rules": 101, "resources": 10}),
            json!({}),
            "permissions: there are 101, and 100 are allowed",
        ),
        (
            "product",
            json!({"rules": 1, "resources": 10_001}),
            json!({}),
            "there are 10001, and 10000 are allowed; split the plugin, or raise limits.ruleCombinations",
        ),
        ("bytes", json!({"indexes": 20_000}), json!({"cpuPerCall": "10s"}), "raise limits.descriptorBytes"),
        ("indexes", json!({"indexes": 20_000}), long, "indexes: there are 20000, and 64 are allowed"),
    ] {
        let manifest = probe(name, stage.namespace, json!({"asks": asks})).limits(limits);
        let error = failed(&stage, &manifest, name)?.last_error.context("no error")?;
        assert!(error.contains(said), "{name}: {error}");
        is_called(&stage, "neighbour", name)?;
    }
    // The manifest cannot raise it without end.
    let manifest = probe("beyond", stage.namespace, json!({})).limits(json!({"indexes": 257}));
    let error = failed(&stage, &manifest, "beyond")?.last_error.context("no error")?;
    assert!(
        error.contains("spec.limits.indexes: 257 is out of bounds; write a value from 0 to 256"),
        "{error}"
    );
    Ok(())
}

fn what_is_asked_for_and_not_granted_is_one_line(server: Server) -> Result<()> {
    let stage = Stage::new(server, "asking")?;
    let manifest = probe("asks", stage.namespace, json!({"asks": {"rules": 90, "resources": 100}}));
    stage.install("asks", "probe", &manifest)?;
    let status = plugins::status(&stage.host, "asks")?;
    let [warning] = &status.warnings[..] else { panic!("{status:?}") };
    assert!(
        warning.starts_with("9000 permissions not granted; to grant, add to spec.permissions"),
        "{warning}"
    );
    assert!(warning.ends_with(" and 8997 more"), "{warning}");
    let lines = loglines::plugin_events(&stage.host, "asks", "permissions_missing");
    assert_eq!(lines.len(), 1, "{lines:?}");
    is_called(&stage, "asks", "go")
}

fn an_object_with_100_000_values_costs_its_own_place_in_the_index_and_nothing_else(
    server: Server,
) -> Result<()> {
    let stage = Stage::new(server, "values")?;
    neighbour(&stage)?;
    let index = json!({"index": {"name": "by-ref", "path": "/data/refs"}});
    for (name, limits) in [("values", json!({"splitBytes": "2Mi"})), ("bytes", json!({}))] {
        stage.install(name, "probe", &probe(name, stage.namespace, index.clone()).limits(limits))?;
    }
    let refs: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
    stage.cluster.create(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": stage.namespace, "name": "many"},
        "data": {"refs": refs.join(",")},
    }))?;
    for (name, limit, most) in [("values", "indexValues", "1000"), ("bytes", "splitBytes", "65536")] {
        // The object is reconciled like any other one.
        called_with(&stage.host, name, "values/many")?;
        let warned =
            plugins::wait_until(&stage.host, name, "warned of", |status| !status.warnings.is_empty())?;
        let wanted = format!(
            "index by-ref of v1/ConfigMap: object values/many exceeds limits.{limit} ({most}): the index does not find it"
        );
        assert_eq!(warned.warnings, [wanted]);
        let counted = stage
            .host
            .metrics()?
            .sum("pilothouse_data_limit_exceeded_total", &[("plugin", name), ("limit", limit)]);
        assert!(counted >= Some(1.0), "{counted:?}");
        assert_eq!(loglines::plugin_events(&stage.host, name, "data_limit_exceeded").len(), 1);
    }
    is_called(&stage, "neighbour", "go")
}

fn a_limits_file_sets_the_ceilings_of_manifests(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("limits.yaml");
    let text = "apiVersion: pilothouse.dev/v1alpha1\nkind: Limits\nplugins: { memory: 32Mi, indexes: 1 }\nhost: { maxConnections: 2 }\n";
    fs::write(&file, text)?;
    let args = vec!["--limits".to_owned(), file.display().to_string()];
    let options = HostOptions { args: args.clone(), ..HostOptions::new(plane.kubeconfig()) };
    let stage = Stage::with(plane, "ceilings", options)?;
    let manifest = |limits| probe("above", stage.namespace, json!({})).limits(limits);
    let error =
        failed(&stage, &manifest(json!({"memory": "64Mi"})), "above")?.last_error.context("no error")?;
    let wanted =
        format!("\"64Mi\" is above the ceiling of this host, 32Mi (plugins.memory in {})", file.display());
    assert!(error.contains(&wanted), "{error}");
    // What the manifest does not name is narrowed.
    let two = probe("two", stage.namespace, json!({"asks": {"indexes": 2}}));
    let error = failed(&stage, &two, "two")?.last_error.context("no error")?;
    assert!(error.contains("indexes: there are 2, and 1 are allowed"), "{error}");
    stage.install("above", "probe", &manifest(json!({"memory": "16Mi"})))?;
    is_called(&stage, "above", "go")?;
    // A bad file ends the host at start, with the place.
    fs::write(&file, text.replace("32Mi", "32MB"))?;
    let options = HostOptions { args, ..HostOptions::new(plane.kubeconfig()) };
    let error = Host::start(options).map(drop).expect_err("the host took a bad limits file");
    let error = format!("{error:#}");
    assert!(error.contains("limits.yaml: line 3, column 20: plugins.memory: \"32MB\""), "{error}");
    Ok(())
}

fn plugins_that_sleep_in_describe_stop_no_load(server: Server) -> Result<()> {
    let stage = Stage::new(server, "asleep")?;
    let asleep: Vec<String> = (0..12).map(|n| format!("asleep-{n}")).collect();
    for name in &asleep {
        let manifest = probe(name, stage.namespace, json!({"mode": "describe-sleep"}));
        let manifest = manifest.limits(json!({"callTimeout": "10m"}));
        stage.host.install(name, &guests::wasm("probe")?, Some(&manifest.to_string()))?;
    }
    // They have all turns to load, or wait for one.
    let took_long = |status: &Status| {
        status.waiting_for.as_deref().is_some_and(|reason| reason.contains("took longer than 5s"))
    };
    plugins::wait_until(&stage.host, &asleep[0], "late in describe", took_long)?;
    neighbour(&stage)?;
    is_called(&stage, "neighbour", "go")
}

fn a_plugin_that_takes_memory_in_its_calls_is_stopped_at_the_bound_of_the_host(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("limits.yaml");
    fs::write(&file, "apiVersion: pilothouse.dev/v1alpha1\nkind: Limits\nhost: { guestMemory: 64Mi }\n")?;
    let args = vec!["--limits".to_owned(), file.display().to_string()];
    let stage = Stage::with(plane, "hungry", HostOptions { args, ..HostOptions::new(plane.kubeconfig()) })?;
    neighbour(&stage)?;
    // Four calls at once of 20 MiB, each within its own limit.
    let names = ["a", "b", "c", "d"];
    names.iter().try_for_each(|name| stage.cluster.config_map(stage.namespace, name).map(drop))?;
    let config = json!({"mode": "sleep", "milliseconds": 3000, "hold": 20, "maxConcurrentReconciles": 4});
    stage.install("hungry", "probe", &probe("hungry", stage.namespace, config))?;
    let faults = |kind: &str| -> Result<f64> {
        let labels = [("plugin", "hungry"), ("kind", kind)];
        Ok(stage.host.metrics()?.sum("pilothouse_guest_faults_total", &labels).unwrap_or_default())
    };
    stage.host.wait_for("memory to be refused", SOON, || faults("host-busy").map(|count| count >= 1.0))?;
    // Nobody is blamed, what was refused comes again, and the memory is there for others.
    let called =
        |plugin: &str, name: &str| called_with(&stage.host, plugin, &format!("{}/{name}", stage.namespace));
    names.iter().try_for_each(|name| called("hungry", name))?;
    assert_eq!(faults("memory")?, 0.0);
    assert_eq!(plugins::status(&stage.host, "hungry")?.state, "running");
    is_called(&stage, "neighbour", "two")?;
    // One that wants more than any instance may have is blamed itself, although its own limit is above that.
    let greedy = probe("greedy", stage.namespace, json!({"mode": "hog"})).limits(json!({"memory": "1Gi"}));
    stage.install("greedy", "probe", &greedy)?;
    let blamed = |status: &Status| {
        status.last_error.as_deref().is_some_and(|error| error.contains("one may have 58720256 on this host"))
    };
    plugins::wait_until(&stage.host, "greedy", "blamed", blamed)?;
    is_called(&stage, "neighbour", "three")
}

/// The host acts as a user with Roles in two namespaces, and one for a single name: any wider list or watch is refused.
fn a_host_that_may_read_two_namespaces_and_one_name_needs_no_more() -> Result<()> {
    let plane = ControlPlane::shared(Server::Real)?;
    let cluster = Cluster::of(plane)?;
    for namespace in ["fenced-a", "fenced-b", "fenced-c"] {
        cluster.namespace(namespace)?;
    }
    let bind = |namespace: &str, role: &[&str]| -> Result<()> {
        let create = [&["create", "role", "reads", "--verb=get,list,watch", "-n", namespace], role].concat();
        plane.kubectl(&create)?;
        let bind = ["create", "rolebinding", "reads", "--role=reads", "--user=fenced-host", "-n", namespace];
        plane.kubectl(&bind).map(drop)
    };
    bind("fenced-a", &["--resource=configmaps"])?;
    bind("fenced-b", &["--resource=configmaps"])?;
    bind("fenced-c", &["--resource=secrets", "--resource-name=tls"])?;
    let dir = tempfile::tempdir()?;
    let kubeconfig = dir.path().join("kubeconfig");
    let mut config: Value =
        serde_json::from_str(&plane.kubectl(&["config", "view", "--raw", "-o", "json"])?)?;
    config["users"][0]["user"]["as"] = json!("fenced-host");
    fs::write(&kubeconfig, config.to_string())?;
    let stage = Stage::with(plane, "fenced", HostOptions::new(kubeconfig))?;

    let reads = json!({
        "groups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"],
        "namespaces": ["fenced-a", "fenced-b"],
    });
    stage.install("spaces", "probe", &Manifest::new("spaces").with("permissions", json!([reads])))?;
    let tls = json!({
        "groups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"], "namespaces": ["fenced-c"],
        "names": ["tls"],
    });
    let manifest =
        Manifest::new("named").with("permissions", json!([tls])).config(json!({"kind": "v1/Secret"}));
    stage.install("named", "probe", &manifest)?;

    for namespace in ["fenced-c", "fenced-b", "fenced-a"] {
        cluster.config_map(namespace, "x")?;
    }
    for name in ["other", "tls"] {
        cluster.create(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "fenced-c", "name": name},
        }))?;
    }
    for (plugin, key) in [("spaces", "fenced-a/x"), ("spaces", "fenced-b/x"), ("named", "fenced-c/tls")] {
        called_with(&stage.host, plugin, key)?;
    }
    for (plugin, hidden) in [("spaces", "fenced-c/"), ("named", "fenced-c/other")] {
        let lines = loglines::said(&stage.host, plugin, "begin");
        assert!(!lines.iter().any(|line| line.key.starts_with(hidden)), "{plugin}: {lines:?}");
    }
    Ok(())
}
