//! `pilothouse rbac`: a real API server grants what it prints, and a host with these rights and no others is never refused
//! anything, however it runs: with leader election, with shards, with Plugins of the cluster, in several clusters. The audit log says
//! that each right was needed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::poll::{self, SOON};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::rbac::{self, SPARE_OF_PODS_PER_NODE, allow};
use pilothouse_tests::{Audit, Cluster, ControlPlane, Host, Signal, cli, guests, loglines};
use serde_json::{Value, json};

pilothouse_tests::on_the_real_server!(
    a_host_with_the_printed_rights_is_refused_nothing_and_needs_every_rule_of_them,
    hosts_that_share_plugins_are_refused_nothing_and_need_every_right,
    a_host_of_plugins_of_the_cluster_is_refused_nothing_and_needs_every_right,
    a_host_of_several_clusters_is_refused_nothing_in_each_and_needs_every_right,
    a_right_for_some_names_is_for_no_other_object,
);
pilothouse_tests::on_both_servers!(the_printed_command_removes_what_is_not_needed_any_more,);

/// Where the host is, and where its plugins work.
const HOST: &str = "rbac-host";
const WORK: &str = "rbac-work";
const ACCOUNT: &str = "pilothouse";

/// Fills the plugin directory of a host: examples, and a plugin for each other thing that a host does for one.
fn fill(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for name in ["deployment-watcher", "pods-per-node"] {
        plugins::put_example(&dir.join("plugins"), name)?;
        names.push(name.to_owned());
    }
    let reads = |name: &str| Manifest::new(name).reads(&["configmaps"], WORK);
    let custom = json!({"kind": "example.org/v1/Foo", "namespaces": [WORK]});
    let foos = json!([{"groups": ["example.org"], "resources": ["foos"], "verbs": ["list", "watch"], "namespaces": [WORK]}]);
    for (name, guest, manifest) in [
        // Live calls by impersonation.
        (
            "robot",
            "probe",
            reads("robot")
                .grant(&["configmaps"], &["patch"], &[WORK])
                .config(writes_to("written"))
                .with("serviceAccount", json!({"namespace": WORK, "name": "robot"})),
        ),
        // Events.
        (
            "teller",
            "recorder",
            reads("teller")
                .grant(&["events"], &["create"], &[WORK])
                .config(json!({"events": [{"reason": "Seen", "note": "it is there"}]})),
        ),
        // A configuration on the cluster, and one name.
        (
            "configured",
            "configured",
            reads("configured")
                .with("configFrom", json!([{"secretRef": {"namespace": WORK, "name": "settings"}}]))
                .config(json!({"namespace": WORK})),
        ),
        // A kind that comes later.
        ("custom", "probe", Manifest::new("custom").config(custom).with("permissions", foos)),
    ] {
        add(dir, name, guest, &manifest)?;
        names.push(name.to_owned());
    }
    Ok(names)
}

/// A folder for the files of a host.
fn folder() -> std::io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("rbac-").tempdir()
}

#[test]
fn a_directory_that_a_host_would_not_run_has_no_rights() -> Result<()> {
    let dir = folder()?;
    let dir = dir.path();
    let component = guests::wasm("noop")?;
    let good = Manifest::new("noop").reads(&["configmaps"], WORK).to_string();
    for (number, (manifest, component, wanted)) in [
        (good.replace("permissions", "permission"), Some(&component), "noop.yaml: line "),
        (good.clone(), None, "noop.yaml: its component noop.wasm is not in the directory"),
        (
            Manifest::new("noop").to_string(),
            Some(&component),
            "noop.yaml: a host refuses it: cannot watch v1/ConfigMap",
        ),
        (good, Some(&guests::wasm("other_world")?), "noop.yaml: a component of another world"),
    ]
    .into_iter()
    .enumerate()
    {
        let folder = dir.join(number.to_string());
        fs::create_dir(&folder)?;
        fs::write(folder.join("noop.yaml"), manifest)?;
        component.map(|component| fs::copy(component, folder.join("noop.wasm"))).transpose()?;
        let printed = cli::run(dir, &["rbac", &number.to_string()])?;
        let wanted = format!("error: {number}/{wanted}");
        ensure!(
            printed.status.code() == Some(1) && printed.stderr.starts_with(&wanted),
            "{wanted}: {printed:?}"
        );
        ensure!(printed.stdout.is_empty(), "{printed:?}");
    }
    let printed = cli::run(dir, &["rbac", "nowhere"])?;
    ensure!(
        printed.stderr.contains("nowhere cannot be read") && printed.status.code() == Some(1),
        "{printed:?}"
    );
    Ok(())
}

/// What a directory with one plugin needs, printed for an account in the namespace `host`.
fn printed(manifest: &Manifest, guest: &str, host: &str, account: &str) -> Result<String> {
    let dir = folder()?;
    add(dir.path(), "p", guest, manifest)?;
    let printed =
        cli::run(dir.path(), &["rbac", "plugins", "--namespace", host, "--service-account", account])?;
    ensure!(printed.status.success() && printed.stderr.is_empty(), "{printed:?}");
    Ok(printed.stdout)
}

fn the_printed_command_removes_what_is_not_needed_any_more(server: Server) -> Result<()> {
    const PLACES: [&str; 3] = ["rbac-before", "rbac-after", "rbac-home"];
    let plane = ControlPlane::shared(server)?;
    let cluster = Cluster::of(plane)?;
    for namespace in PLACES {
        cluster.namespace(namespace)?;
    }
    let [before, after, home] = PLACES;
    let needs = |namespace: &str, account: &str| {
        printed(&Manifest::new("p").reads(&["configmaps"], namespace), "noop", home, account)
    };
    let roles = |kind: &str| -> Result<Vec<String>> {
        let path = "{range .items[*]}{.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}";
        let listed = plane.kubectl(&["get", kind, "-A", "-o", &format!("jsonpath={path}")])?;
        let ours = |line: &&str| PLACES.iter().any(|place| line.starts_with(&format!("{place}/")));
        Ok(listed.lines().filter(ours).map(str::to_owned).collect())
    };
    // Another host, which nothing is taken from.
    plane.kubectl_with(&["apply", "-f", "-"], &needs(before, "other")?)?;
    plane.kubectl_with(&["apply", "-f", "-"], &needs(before, "moves")?)?;
    let second = needs(after, "moves")?;
    plane.kubectl_with(&["apply", "-f", "-"], &second)?;
    let stale = format!("{before}/{home}:moves");
    for kind in ["roles", "rolebindings"] {
        ensure!(roles(kind)?.contains(&stale), "applying removed it by itself");
    }
    let line = second.lines().find_map(|line| line.strip_prefix("# kubectl ")).context("no command")?;
    let removed = plane.kubectl_line(line, "")?;
    ensure!(removed.lines().count() == 2, "{removed}");
    for kind in ["roles", "rolebindings"] {
        let left = roles(kind)?;
        let wanted = [
            format!("{after}/{home}:moves"),
            format!("{before}/{home}:other"),
            format!("{home}/{home}:moves"),
            format!("{home}/{home}:other"),
        ];
        ensure!(left == wanted, "{kind}: {left:?}");
    }
    for kind in ["clusterrole", "clusterrolebinding"] {
        plane.kubectl(&["get", kind, &format!("{home}:moves"), &format!("{home}:other")])?;
    }
    // Once more, and there is nothing to remove.
    ensure!(plane.kubectl_line(line, "")?.lines().all(|line| !line.contains("deleted")));
    Ok(())
}

fn a_right_for_some_names_is_for_no_other_object() -> Result<()> {
    let audit = Audit::start(Server::Real)?;
    let (plane, cluster) = (audit.plane(), Cluster::of(audit.plane())?);
    [HOST, WORK].into_iter().try_for_each(|namespace| cluster.namespace(namespace))?;
    let permissions = json!([
        {"groups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"], "namespaces": [WORK]},
        {"groups": [""], "resources": ["serviceaccounts/token", "pods/eviction"], "verbs": ["create"], "namespaces": [WORK], "names": ["robot"]},
        {"groups": [""], "resources": ["secrets"], "verbs": ["create", "delete"], "namespaces": [WORK], "names": ["robot"]},
    ]);
    let manifest = Manifest::new("p").config(json!({"namespaces": [WORK]})).with("permissions", permissions);
    plane.kubectl_with(&["apply", "-f", "-"], &printed(&manifest, "probe", HOST, ACCOUNT)?)?;
    let user = format!("--as=system:serviceaccount:{HOST}:{ACCOUNT}");
    for (verb, object, subresource, wanted) in [
        ("create", "serviceaccounts/robot", "token", true),
        ("create", "serviceaccounts/other", "token", false),
        ("create", "serviceaccounts", "token", false),
        ("create", "pods/robot", "eviction", true),
        ("create", "pods/other", "eviction", false),
        ("delete", "secrets/robot", "", true),
        ("delete", "secrets/other", "", false),
        // The name of a new object is not known to RBAC.
        ("create", "secrets", "", true),
    ] {
        let subresource = format!("--subresource={subresource}");
        let args = ["auth", "can-i", verb, object, &subresource, &user, "-n", WORK];
        // It ends with code 1 for a no.
        let answer = plane.kubectl_command(&args)?.output()?;
        let answer = String::from_utf8_lossy(&answer.stdout);
        ensure!(
            answer.trim() == if wanted { "yes" } else { "no" },
            "{verb} {object} {subresource}: {answer}"
        );
    }
    Ok(())
}

fn a_host_with_the_printed_rights_is_refused_nothing_and_needs_every_rule_of_them() -> Result<()> {
    let (audit, dir) = (Audit::start(Server::Real)?, folder()?);
    let (plane, cluster, dir) = (audit.plane(), Cluster::of(audit.plane())?, dir.path());
    let names = fill(dir)?;
    [HOST, WORK].into_iter().try_for_each(|namespace| cluster.namespace(namespace))?;
    let lease = format!("{HOST}/elected");
    let kubeconfig = rbac::grant(plane, dir, (HOST, ACCOUNT), &["plugins", "--lease", &lease])?;

    // What plugins need beside that: the rights of the account, the configuration, and objects.
    plane.kubectl(&["create", "serviceaccount", "robot", "-n", WORK])?;
    allow(plane, WORK, "robot", (WORK, "robot"), &["--verb=get,list,watch,patch", "--resource=configmaps"])?;
    cluster.create(&settings(WORK))?;
    cluster.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "rbac-node"}}))?;
    for name in ["seen", "written"] {
        cluster.config_map(WORK, name)?;
    }

    let args = ["--leader-elect", "--lease", &lease, "--listen", "0.0.0.0:0"];
    let options = options(&kubeconfig, dir, "host-0", &args);
    let host = Host::start(options.clone())?;
    // Its log, since the admin endpoints ask for a token where others can reach them.
    let logged = |event: &str, plugin: &str| {
        let line = format!("\"event\":\"{event}\",\"plugin\":\"{plugin}\"");
        !host.log().matching(&line).is_empty()
    };
    host.wait_for("a plugin to wait for its kind", SOON, || logged("plugin_waiting", "custom"))?;
    cluster.create(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.example.org"},
        "spec": {"group": "example.org", "scope": "Namespaced", "names": {"kind": "Foo", "plural": "foos"}, "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        }]},
    }))?;
    // Each plugin does what it is for.
    for name in &names {
        host.wait_for(&format!("{name} to run"), SOON, || logged("plugin_running", name))?;
    }
    ensure!(host.log().matching("permissions_missing").is_empty());
    host.wait_for("a write of the host", SOON, || {
        Ok::<_, anyhow::Error>(cluster.get("v1/ConfigMap", "default", "pods-on-rbac-node")?.is_some())
    })?;
    // A write of the account.
    wait_written(&host, &cluster, "written")?;
    for (namespace, reason) in [(WORK, "Seen"), (HOST, "PluginLoaded")] {
        host.wait_for(&format!("the event {reason}"), SOON, || {
            let events = cluster.list("v1/Event", namespace)?;
            anyhow::Ok(events.iter().any(|event| event["reason"] == reason))
        })?;
    }
    // A token of a user whom nobody lets in, who is known all the same.
    let token = plane.kubectl(&["create", "token", "robot", "-n", WORK])?;
    fs::write(dir.join("token"), token)?;
    let admin = host.admin().replace("0.0.0.0", "127.0.0.1");
    let status = cli::pilothouse(
        &host,
        &["status", "--admin", &admin, "--token-file", &dir.join("token").to_string_lossy()],
    )?;
    ensure!(status.stderr.contains("403"), "{status:?}");
    // A standby, which watches the Lease and takes over.
    let standby = Host::start(options)?;
    let said = |event: &str| !standby.log().matching(&format!("\"event\":\"{event}\"")).is_empty();
    standby.wait_for("a standby", SOON, || said("standby"))?;
    end(&host)?;
    standby.wait_for("the standby to lead", SOON, || said("leader_elected"))?;
    end(&standby)?;

    let spare = [&SPARE_OF_PODS_PER_NODE[..], &["get deployments", "patch events"]].concat();
    ensure!(rbac::check(&audit, (HOST, ACCOUNT), &spare)?.len() > 10);
    Ok(())
}

/// The options of a host in this folder, as those of a Pod of this name.
fn options(kubeconfig: &Path, dir: &Path, pod: &str, args: &[&str]) -> HostOptions {
    let pod =
        [("POD_NAME", pod), ("POD_NAMESPACE", HOST), ("POD_UID", "00000000-0000-4000-8000-000000000000")];
    HostOptions {
        dir: Some(dir.to_owned()),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: pod.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..HostOptions::new(kubeconfig)
    }
}

/// A Secret that the plugin `configured` is configured with.
fn settings(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": "settings"},
        "stringData": {"password": "of the secret"},
    })
}

/// Puts a plugin into the directory of a host that does not run yet.
fn add(dir: &Path, name: &str, guest: &str, manifest: &Manifest) -> Result<()> {
    plugins::put(&dir.join("plugins"), name, guest, manifest)
}

/// The configuration of a probe that writes to the ConfigMap of this name.
fn writes_to(name: &str) -> Value {
    json!({"mode": "write", "namespaces": [WORK], "targetKind": "v1/ConfigMap", "targetKey": format!("{WORK}/{name}")})
}

/// A probe that watches ConfigMaps, and writes to the one of this name.
fn writer(plugin: &str, name: &str) -> Manifest {
    Manifest::new(plugin).grant(&["configmaps"], &["list", "watch", "patch"], &[WORK]).config(writes_to(name))
}

fn wait_written(host: &Host, cluster: &Cluster, name: &str) -> Result<()> {
    host.wait_for(&format!("a write to {name}"), SOON, || {
        let written = cluster.get("v1/ConfigMap", WORK, name)?.context("it is gone")?;
        anyhow::Ok(written.pointer("/metadata/labels/probe").is_some())
    })
}

/// A plugin whose load fails twice, for the same reason: the host creates an Event in the namespace `events`, and counts it up.
fn fail_twice(host: &Host, cluster: &Cluster, events: &str) -> Result<()> {
    let failed = |count: u64| {
        host.wait_for(&format!("an Event of {count} failures"), SOON, || {
            let events = cluster.list("v1/Event", events)?;
            let is_of_load = |event: &&Value| {
                let message = event["message"].as_str().unwrap_or_default();
                // Not before the component is there.
                event["reason"] == "PluginFailed" && !message.contains("is not in the directory")
            };
            let failures = events.iter().filter(is_of_load);
            let counts: Vec<u64> = failures.filter_map(|event| event["count"].as_u64()).collect();
            ensure!(counts.iter().any(|found| *found >= count), "{counts:?}");
            Ok(true)
        })
    };
    let manifest = |again: bool| Manifest::new("broken").config(json!({"again": again})).to_string();
    host.install("broken", &guests::wasm("noop")?, Some(&manifest(false)))?;
    failed(1)?;
    host.install_manifest("broken", &manifest(true))?;
    failed(2)?;
    host.remove("broken")
}

/// Ends a host as a kubelet does.
fn end(host: &Host) -> Result<()> {
    host.signal(Signal::TERM)?;
    ensure!(host.wait_exit(SOON)?.success(), "{}", host.log().tail(20));
    Ok(())
}

fn hosts_that_share_plugins_are_refused_nothing_and_need_every_right() -> Result<()> {
    let (audit, dir) = (Audit::start(Server::Real)?, folder()?);
    let (plane, cluster, dir) = (audit.plane(), Cluster::of(audit.plane())?, dir.path());
    [HOST, WORK].into_iter().try_for_each(|namespace| cluster.namespace(namespace))?;
    cluster.config_map(WORK, "written")?;
    add(dir, "writer", "probe", &writer("writer", "written"))?;
    let lease = format!("{HOST}/hosts");
    let of_host = ["plugins", "--lease", &lease, "--shards", "--no-admin-tokens"];
    let kubeconfig = rbac::grant(plane, dir, (HOST, ACCOUNT), &of_host)?;
    let args = [
        "--leader-elect",
        "--lease",
        &lease,
        "--leader-elect-lease-duration=12s",
        "--leader-elect-renew-deadline=8s",
        "--leader-elect-retry-period=2s",
        "--shards",
        "--shard-join-delay=100ms",
    ];
    let start = |pod: &str| Host::start(options(&kubeconfig, dir, pod, &args));
    let wait_all = |host: &Host| {
        host.wait_for("the host to have all shards, alone", SOON, || {
            let body = host.get("/readyz")?.body;
            ensure!(body == "ok, 16 of 16 shards; hosts: 1\n", "{body}");
            Ok(true)
        })
    };
    let wait_some = |host: &Host| {
        host.wait_for("the host to be given shards", SOON, || {
            let body = host.get("/readyz")?.body;
            ensure!(body.ends_with(" of 16 shards; hosts: 2\n") && !body.starts_with("ok, 0 "), "{body}");
            Ok(true)
        })
    };
    let first = start("host-0")?;
    wait_all(&first)?;
    wait_written(&first, &cluster, "written")?;
    // It is given shards, and is killed with them: the first looks at its Lease before it takes them.
    let second = start("host-1")?;
    wait_some(&second)?;
    second.signal(Signal::KILL)?;
    second.wait_exit(SOON)?;
    wait_all(&first)?;
    fail_twice(&first, &cluster, HOST)?;
    // A rollout: all of the first one's shards are handed over, and its Lease goes.
    let third = start("host-2")?;
    wait_some(&third)?;
    end(&first)?;
    wait_all(&third)?;
    end(&third)?;
    ensure!(loglines::events(&first, "lease_not_released").is_empty());
    rbac::check(&audit, (HOST, ACCOUNT), &[]).map(drop)
}

/// The kind of Plugins of the cluster.
const PLUGIN: &str = "pilothouse.dev/v1alpha1/Plugin";
/// The namespaces of tenants.
const TENANTS: [&str; 2] = ["rbac-shop", "rbac-tools"];

fn a_host_of_plugins_of_the_cluster_is_refused_nothing_and_needs_every_right() -> Result<()> {
    let (audit, dir) = (Audit::start(Server::Real)?, folder()?);
    let (plane, cluster, dir) = (audit.plane(), Cluster::of(audit.plane())?, dir.path());
    for namespace in [HOST, TENANTS[0], TENANTS[1]] {
        cluster.namespace(namespace)?;
    }
    cluster.create(&serde_saphyr::from_str::<Value>(&cli::run(dir, &["crd", "--plugins"])?.stdout)?)?;
    let tenants = TENANTS.join(",");
    let [probe, configured] = ["probe", "configured"].map(|guest| -> Result<_> {
        let component = fs::read(guests::wasm(guest)?)?;
        let digest = plugins::digest(&component);
        Ok((plugins::serve(component)?, digest))
    });
    let (probe, configured) = (probe?, configured?);
    let hosts = format!("{},{}", probe.0, configured.0);
    let of_host = ["--plugins-from-cluster", &tenants, "--no-leader-election", "--no-admin-tokens"];
    let kubeconfig = rbac::grant(plane, dir, (HOST, ACCOUNT), &of_host)?;
    let host = Host::start(options(
        &kubeconfig,
        dir,
        "host-0",
        &["--plugins-from-cluster", &tenants, "--component-hosts", &hosts],
    ))?;
    host.wait_for("the host to be ready", SOON, || host.get("/readyz").map(|answer| answer.status == 200))?;

    for namespace in TENANTS {
        // What docs/plugins-from-cluster.md gives the account and the host beside the printed rights.
        plane.kubectl(&["create", "serviceaccount", "robot", "-n", namespace])?;
        let reads = ["--verb=get,list,watch,patch", "--resource=configmaps,secrets"];
        allow(plane, namespace, "robot", (namespace, "robot"), &reads)?;
        let of_settings = ["--verb=list,watch", "--resource=secrets", "--resource-name=settings"];
        allow(plane, namespace, "settings", (HOST, ACCOUNT), &of_settings)?;
        allow(plane, namespace, "watched", (HOST, ACCOUNT), &["--verb=list,watch", "--resource=configmaps"])?;
        let user = format!("--as=system:serviceaccount:{HOST}:{ACCOUNT}");
        poll::until("the last binding to count", SOON, || {
            plane.kubectl(&["auth", "can-i", "list", "configmaps", &user, "-n", namespace]).map(|_| true)
        })?;
        cluster.create(&settings(namespace))?;
        // A key to reconcile, and the object that the probe writes as its account.
        cluster.config_map(namespace, "one")?;
    }
    let [shop, tools] = TENANTS;
    let writes = |namespace: &str| {
        let mut config = writes_to("one");
        config["namespaces"] = json!([namespace]);
        config["targetKey"] = json!(format!("{namespace}/one"));
        json!({"config": config})
    };
    let configures = json!({
        "config": {"namespace": tools},
        "configFrom": [{"secretRef": {"namespace": tools, "name": "settings"}}],
    });
    for (namespace, guest, (server, digest), more) in [
        (shop, "probe", &probe, writes(shop)),
        (tools, "probe", &probe, writes(tools)),
        (tools, "configured", &configured, configures),
    ] {
        let mut spec = more;
        spec["source"] = json!({"url": format!("{server}/{guest}.wasm"), "digest": digest});
        spec["serviceAccount"] = json!({"namespace": namespace, "name": "robot"});
        spec["permissions"] = json!([
            {"groups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "patch"], "namespaces": [namespace]},
        ]);
        cluster.create(&json!({
            "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"namespace": namespace, "name": guest}, "spec": spec,
        }))?;
        host.wait_for(&format!("{namespace}/{guest} to be ready"), SOON, || {
            let status = cluster.get(PLUGIN, namespace, guest)?.context("it is gone")?["status"].clone();
            let conditions = status["conditions"].as_array().context("no conditions")?;
            let is_ready = |own: &Value| own["type"] == "Ready" && own["status"] == "True";
            ensure!(conditions.iter().any(is_ready) && status["digest"] == **digest, "{status}");
            Ok(true)
        })?;
    }
    for namespace in TENANTS {
        host.wait_for(&format!("a write in {namespace}"), SOON, || {
            let written = cluster.get("v1/ConfigMap", namespace, "one")?.context("it is gone")?;
            anyhow::Ok(written.pointer("/metadata/labels/probe").is_some())
        })?;
    }
    host.wait_for("the configuration of the Secret", SOON, || {
        let told = loglines::said(&host, &format!("{tools}/configured"), "configured");
        told.iter().any(|line| line.field("name") == "password")
    })?;
    fail_twice(&host, &cluster, HOST)?;
    end(&host)?;
    rbac::check(&audit, (HOST, ACCOUNT), &[]).map(drop)
}

/// The host's account in the other cluster.
const ELSEWHERE: &str = "elsewhere";

/// Home and the other cluster are one server here, with an account for each. Permissions and requests of an account are those of
/// its cluster, as on two servers.
fn a_host_of_several_clusters_is_refused_nothing_in_each_and_needs_every_right() -> Result<()> {
    let (audit, dir) = (Audit::start(Server::Real)?, folder()?);
    let (plane, cluster, dir) = (audit.plane(), Cluster::of(audit.plane())?, dir.path());
    [HOST, WORK].into_iter().try_for_each(|namespace| cluster.namespace(namespace))?;
    let targets = ["target-home", "target-east", "reached"];
    for name in targets {
        cluster.config_map(WORK, name)?;
    }
    // A run in each cluster, whose live calls are those of an account.
    let account = json!({"namespace": WORK, "name": "robot"});
    let both = writer("both", "target-$(cluster)").with("clusters", json!(["home", "east"]));
    add(dir, "both", "probe", &both.with("serviceAccount", account))?;
    // A run at home, which makes live calls elsewhere as the host.
    let patches =
        json!([{"groups": [""], "resources": ["configmaps"], "verbs": ["patch"], "namespaces": [WORK]}]);
    let mut config = writes_to("reached");
    config["remoteCluster"] = json!("east");
    let reaches = Manifest::new("reaches")
        .grant(&["configmaps"], &["list", "watch"], &[WORK])
        .with("remoteClusters", json!([{"clusters": ["east"], "permissions": patches}]));
    add(dir, "reaches", "probe", &reaches.config(config))?;
    // A run elsewhere with a configuration at home.
    let distant = Manifest::new("distant")
        .grant(&["configmaps"], &["list", "watch"], &[WORK])
        .with("clusters", json!(["east"]))
        .with("configFrom", json!([{"secretRef": {"namespace": WORK, "name": "settings"}}]));
    add(dir, "distant", "configured", &distant.config(json!({"namespace": WORK})))?;
    cluster.create(&settings(WORK))?;

    let at_home = ["plugins", "--no-leader-election", "--no-admin-tokens", "--no-pod"];
    let home = rbac::grant(plane, dir, (HOST, ACCOUNT), &at_home)?;
    let east = rbac::grant(plane, dir, (HOST, ELSEWHERE), &["plugins", "--cluster", "east"])?;
    plane.kubectl(&["create", "serviceaccount", "robot", "-n", WORK])?;
    allow(plane, WORK, "robot", (WORK, "robot"), &["--verb=list,watch,patch", "--resource=configmaps"])?;
    let context = plane.kubectl(&["config", "current-context"])?;
    let (clusters, east) = (format!("east={}", context.trim()), east.to_string_lossy().into_owned());
    let args = ["--clusters", &clusters, "--clusters-kubeconfig", &east].map(str::to_owned).into();
    // Outside a Pod: its Events are about a Namespace.
    let host = Host::start(HostOptions { dir: Some(dir.to_owned()), args, ..HostOptions::new(home) })?;
    for name in targets {
        wait_written(&host, &cluster, name)?;
    }
    host.wait_for("the configuration of home in the run elsewhere", SOON, || {
        !loglines::said(&host, "distant@east", "configured").is_empty()
    })?;
    fail_twice(&host, &cluster, "default")?;
    end(&host)?;
    for account in [ACCOUNT, ELSEWHERE] {
        rbac::check(&audit, (HOST, account), &[]).with_context(|| format!("the account {account}"))?;
    }
    Ok(())
}
