//! `pilothouse rbac`: a real API server grants what it prints, and a host with these rights and no others is never refused
//! anything. Its audit log says which rules were needed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::paths;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::Manifest;
use pilothouse_tests::rbac::{self, needed_rules, refused};
use pilothouse_tests::{Audit, Cluster, ControlPlane, Host, Signal, cli, guests};
use serde_json::json;

pilothouse_tests::on_the_real_server!(
    a_host_with_the_printed_rights_is_refused_nothing_and_needs_every_rule_of_them,
    a_right_for_some_names_is_for_no_other_object,
);
pilothouse_tests::on_both_servers!(the_printed_command_removes_what_is_not_needed_any_more,);

/// Where the host is, and where its plugins work.
const HOST: &str = "rbac-host";
const WORK: &str = "rbac-work";
const ACCOUNT: &str = "pilothouse";

/// Fills a plugin directory: examples, and a plugin for each other thing that a host does for one.
fn fill(folder: &Path) -> Result<Vec<String>> {
    fs::create_dir_all(folder)?;
    let mut names = Vec::new();
    for name in ["deployment-watcher", "pods-per-node"] {
        let manifest = paths::repository().join(format!("examples/{name}/{name}.yaml"));
        fs::copy(manifest, folder.join(format!("{name}.yaml")))?;
        let component = name.replace('-', "_");
        fs::copy(guests::wasm(&component)?, folder.join(format!("{component}.wasm")))?;
        names.push(name.to_owned());
    }
    let reads = |name: &str| Manifest::new(name).reads(&["configmaps"], WORK);
    let write = json!({"mode": "write", "namespaces": [WORK], "targetKind": "v1/ConfigMap", "targetKey": format!("{WORK}/written")});
    let custom = json!({"kind": "example.org/v1/Foo", "namespaces": [WORK]});
    let foos = json!([{"groups": ["example.org"], "resources": ["foos"], "verbs": ["list", "watch"], "namespaces": [WORK]}]);
    for (name, guest, manifest) in [
        // Live calls by impersonation.
        (
            "robot",
            "probe",
            reads("robot")
                .grant(&["configmaps"], &["patch"], &[WORK])
                .config(write)
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
        fs::copy(guests::wasm(guest)?, folder.join(format!("{name}.wasm")))?;
        fs::write(folder.join(format!("{name}.yaml")), manifest.to_string())?;
        names.push(name.to_owned());
    }
    Ok(names)
}

#[test]
fn a_directory_that_a_host_would_not_run_has_no_rights() -> Result<()> {
    let dir = tempfile::Builder::new().prefix("rbac-").tempdir()?;
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
    let dir = tempfile::Builder::new().prefix("rbac-").tempdir()?;
    let plugins = dir.path().join("plugins");
    fs::create_dir(&plugins)?;
    fs::copy(guests::wasm(guest)?, plugins.join("p.wasm"))?;
    fs::write(plugins.join("p.yaml"), manifest.to_string())?;
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
    for namespace in [HOST, WORK] {
        cluster.namespace(namespace)?;
    }
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
    let audit = Audit::start(Server::Real)?;
    let (plane, cluster) = (audit.plane(), Cluster::of(audit.plane())?);
    let dir = tempfile::Builder::new().prefix("rbac-").tempdir()?;
    let dir = dir.path();
    let names = fill(&dir.join("plugins"))?;
    for namespace in [HOST, WORK] {
        cluster.namespace(namespace)?;
    }
    let lease = format!("{HOST}/elected");
    let args = ["rbac", "plugins", "--namespace", HOST, "--lease", &lease, "--cache-dir", "cache"];
    let printed = cli::run(dir, &args)?;
    ensure!(printed.status.success() && printed.stderr.is_empty(), "{printed:?}");
    ensure!(cli::run(dir, &args)?.stdout == printed.stdout, "another order");
    plane.kubectl_with(&["apply", "-f", "-"], &printed.stdout)?;

    // What plugins need beside that: the rights of the account, the configuration, and objects.
    plane.kubectl(&["create", "serviceaccount", "robot", "-n", WORK])?;
    let verbs = "--verb=get,list,watch,patch";
    plane.kubectl(&["create", "role", "robot", verbs, "--resource=configmaps", "-n", WORK])?;
    let subject = format!("--serviceaccount={WORK}:robot");
    plane.kubectl(&["create", "rolebinding", "robot", "--role=robot", &subject, "-n", WORK])?;
    cluster.create(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": WORK, "name": "settings"},
        "stringData": {"password": "of the secret"},
    }))?;
    cluster.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "rbac-node"}}))?;
    for name in ["seen", "written"] {
        cluster.config_map(WORK, name)?;
    }

    rbac::kubeconfig(plane, (HOST, ACCOUNT), &dir.join("kubeconfig"))?;
    let mut options = HostOptions::new(dir.join("kubeconfig"));
    options.dir = Some(dir.to_owned());
    options.args = ["--leader-elect", "--lease", &lease, "--listen", "0.0.0.0:0"].map(str::to_owned).into();
    let pod = [
        ("POD_NAME", "host-0"),
        ("POD_NAMESPACE", HOST),
        ("POD_UID", "00000000-0000-4000-8000-000000000000"),
    ];
    options.env = pod.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
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
    host.wait_for("a write of the account", SOON, || {
        let written = cluster.get("v1/ConfigMap", WORK, "written")?.context("it is gone")?;
        anyhow::Ok(written.pointer("/metadata/labels/probe").is_some())
    })?;
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
    host.signal(Signal::TERM)?;
    ensure!(host.wait_exit(SOON)?.success());
    standby.wait_for("the standby to lead", SOON, || said("leader_elected"))?;
    standby.signal(Signal::TERM)?;
    ensure!(standby.wait_exit(SOON)?.success());

    let events = rbac::requests(&audit, HOST, ACCOUNT)?;
    ensure!(refused(&events).is_empty(), "{:#?}", refused(&events));
    ensure!(needed_rules(plane, &format!("{HOST}:{ACCOUNT}"), &events)?.len() > 10);
    Ok(())
}
