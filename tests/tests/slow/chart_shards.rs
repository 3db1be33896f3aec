//! What Helm makes of the chart's value `shards`, and of the values that docs/install.md adds to those of an installation. With a
//! real API server: hosts with the arguments of such a release, under its account. At full length only, since Helm is built for it.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::paths::repository;
use pilothouse_testkit::poll::SOON;
use pilothouse_testkit::process;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::helm::{self, refuses, template};
use pilothouse_tests::install::{self, NAME, NAMESPACE, Overlay, arguments, container, objects};
use pilothouse_tests::rbac::{self, SPARE_OF_PODS_PER_NODE};
use pilothouse_tests::tutorial::{self, Step};
use pilothouse_tests::{Audit, Cluster, ControlPlane, Host, Signal, full, or_skip, plugins};
use serde_json::{Value, json};

pilothouse_tests::on_the_real_server!(
    full: hosts_of_a_release_with_shards_are_refused_nothing_and_need_every_verb_on_leases
);

/// The verbs on Leases that hosts with shards need, in the order of `pilothouse rbac`.
const VERBS: [&str; 6] = ["get", "list", "watch", "create", "update", "delete"];

/// The object of one template, with `rbac.yaml`.
fn rendered(overlay: &Overlay, template_name: &str, more: &[&str]) -> Result<Value> {
    let only = format!("templates/{template_name}.yaml");
    let shown = ["--show-only", only.as_str()];
    let finished = template(overlay, &[&shown, more].concat())?;
    ensure!(finished.status.success(), "{more:?}: {finished:?}");
    objects(finished.stdout.trim_start_matches("---\n"))?.pop().with_context(|| format!("no object: {only}"))
}

/// What the page writes, adds and runs.
fn page() -> Result<Vec<Step>> {
    tutorial::steps(&fs::read_to_string(repository().join("docs/install.md"))?)
}

/// Adds to the end of a file in the reader's folder what the page adds to it.
fn add_to(overlay: &Overlay, file: &str) -> Result<()> {
    let path = overlay.dir().join(file);
    let mut text = fs::read_to_string(&path)?;
    let before = text.len();
    for step in page()? {
        if let Step::Append { path, text: added } = step
            && path == file
        {
            text += &added;
        }
    }
    ensure!(text.len() > before, "the page adds nothing to {file}");
    Ok(fs::write(path, text)?)
}

#[test]
fn hosts_have_shards_only_where_the_value_is_set() -> Result<()> {
    full::only(|| or_skip(shards_in_arguments))
}

fn shards_in_arguments() -> Result<()> {
    let overlay = Overlay::new()?;
    overlay.write_rbac(&["--shards"])?;
    let of = |more: &[&str]| arguments(&rendered(&overlay, "deployment", more)?);
    let alone = of(&[])?;
    ensure!(!alone.iter().any(|arg| arg.starts_with("--shard")), "{alone:?}");
    ensure!(of(&["--set", "shards=0"])? == alone);

    let at = alone.iter().position(|arg| arg == "--leader-elect").context("no --leader-elect")?;
    let with = |shards: &str| {
        let mut wanted = alone.clone();
        wanted.insert(at + 1, format!("--shards={shards}"));
        wanted
    };
    ensure!(of(&["--set", "shards=16"])? == with("16"));
    // Numbers of a file are of another type than those of the command line.
    fs::write(overlay.dir().join("more.yaml"), "shards: 256\n")?;
    ensure!(of(&["--values", "more.yaml"])? == with("256"));
    // The flag that belongs to it is an argument like others.
    fs::write(overlay.dir().join("more.yaml"), "shards: 1\nextraArgs: [--shard-join-delay=1m]\n")?;
    let mut wanted = with("1");
    wanted.push("--shard-join-delay=1m".to_owned());
    ensure!(of(&["--values", "more.yaml"])? == wanted);
    Ok(())
}

#[test]
fn a_number_of_shards_that_hosts_would_refuse_is_no_value() -> Result<()> {
    full::only(|| or_skip(wrong_shards))
}

fn wrong_shards() -> Result<()> {
    let overlay = Overlay::new()?;
    overlay.write_rbac(&["--shards"])?;
    for wrong in ["-1", "257", "1.5", "sixteen", "true"] {
        refuses(&overlay, &["--set", &format!("shards={wrong}")], "at '/shards'")?;
    }
    // Nothing would check the permissions.
    for flag in ["--shards", "--shards=16"] {
        fs::write(overlay.dir().join("more.yaml"), format!("extraArgs: [{flag}]\n"))?;
        let wanted = format!("extraArgs has {flag}: set the value shards in its place");
        refuses(&overlay, &["--values", "more.yaml"], &wanted)?;
    }
    Ok(())
}

#[test]
fn shards_without_their_permissions_are_refused_with_the_command_that_prints_them() -> Result<()> {
    full::only(|| or_skip(permissions_of_shards))
}

fn permissions_of_shards() -> Result<()> {
    let overlay = Overlay::new()?;
    let (shared, elsewhere) = (["--set", "shards=16"], ["--set", "shards=16,lease=hosts/shared"]);
    overlay.write_rbac(&[])?;
    refuses(
        &overlay,
        &shared,
        "rbac lacks get, list, watch, update, delete on leases in the namespace pilothouse",
    )?;
    let command = "pilothouse rbac DIR --namespace pilothouse --service-account pilothouse";
    refuses(&overlay, &shared, &format!("run `{command} --shards > rbac.yaml`"))?;
    // It is the whole command of this release: one without a flag would take permissions away.
    let set = ["shards=16", "plugins.volume=null", "plugins.fromCluster={shop,tools}"];
    let of_cluster = set.map(|value| ["--set", value]).concat();
    let command = "pilothouse rbac --namespace pilothouse --service-account pilothouse \
                   --plugins-from-cluster shop,tools --shards > rbac.yaml";
    refuses(&overlay, &of_cluster, &format!("run `{command}`"))?;

    overlay.write_rbac(&["--shards"])?;
    let path = overlay.dir().join("rbac.yaml");
    let printed = fs::read_to_string(&path)?;
    rendered(&overlay, "deployment", &shared)?;
    let of_all = [
        "get, list, watch, create, update, delete on leases in the namespace hosts",
        "--lease hosts/shared --shards >",
    ];
    for wanted in of_all {
        refuses(&overlay, &elsewhere, wanted)?;
    }
    // The file with another rule on Leases.
    let with_rule = |rule: &str| -> Result<String> {
        let rest = format!("resources: [leases]\n    verbs: [{}]\n", VERBS.join(", "));
        ensure!(printed.matches(&rest).count() == 1, "no such rule: {printed}");
        Ok(printed.replace(&rest, rule))
    };
    for verb in VERBS {
        let left: Vec<&str> = VERBS.into_iter().filter(|other| *other != verb).collect();
        fs::write(&path, with_rule(&format!("resources: [leases]\n    verbs: [{}]\n", left.join(", ")))?)?;
        refuses(&overlay, &shared, &format!("rbac lacks {verb} on leases"))?;
    }
    // Shards have Leases of their own.
    let of_one =
        format!("resources: [leases]\n    resourceNames: [pilothouse]\n    verbs: [{}]\n", VERBS.join(", "));
    fs::write(&path, with_rule(&of_one)?)?;
    refuses(&overlay, &shared, "rbac lacks get, list, watch, create, update, delete on leases")?;
    // What a wider rule gives is not given again by a rule on Leases.
    let wide = format!(
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: wide\nrules:\n  \
         - apiGroups: [\"*\"]\n    resources: [\"*\"]\n    verbs: [{}]\n",
        VERBS.join(", ")
    );
    fs::write(&path, with_rule(&of_one)? + &wide)?;
    rendered(&overlay, "deployment", &shared)?;
    fs::write(&path, with_rule("resources: [leases]\n    verbs: [\"*\"]\n")?)?;
    rendered(&overlay, "deployment", &shared)?;

    overlay.write_rbac(&["--shards", "--lease", "hosts/shared"])?;
    let given = arguments(&rendered(&overlay, "deployment", &elsewhere)?)?;
    for wanted in ["--lease=hosts/shared", "--shards=16"] {
        ensure!(given.iter().any(|arg| arg == wanted), "{given:?}");
    }
    Ok(())
}

#[test]
fn the_values_that_the_page_adds_reach_the_pods() -> Result<()> {
    full::only(|| or_skip(values_of_the_page))
}

fn values_of_the_page() -> Result<()> {
    let overlay = Overlay::new()?;
    overlay.write_rbac(&["--shards"])?;
    add_to(&overlay, "values.yaml")?;
    let deployment = rendered(&overlay, "deployment", &[])?;
    let (pod, container) = (&deployment["spec"]["template"]["spec"], container(&deployment)?);
    ensure!(deployment["spec"]["replicas"] == 3);
    ensure!(arguments(&deployment)?.iter().any(|arg| arg == "--shards=16"), "{container}");
    ensure!(pod["imagePullSecrets"] == json!([{"name": "registry"}]), "{pod}");
    let has = |list: &Value, wanted: &Value| list.as_array().is_some_and(|entries| entries.contains(wanted));
    for wanted in [
        json!({"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}),
        json!({"name": "NO_PROXY", "value": "10.96.0.1"}),
        json!({"name": "SSL_CERT_FILE", "value": "/etc/certificates/ca.crt"}),
    ] {
        ensure!(has(&container["env"], &wanted), "no {wanted} in {container}");
    }
    let mount = json!({"name": "certificates", "mountPath": "/etc/certificates", "readOnly": true});
    ensure!(has(&container["volumeMounts"], &mount), "{container}");
    let volume = json!({"name": "certificates", "configMap": {"name": "certificates"}});
    ensure!(has(&pod["volumes"], &volume), "{pod}");
    let beside = json!({"name": "proxy", "image": "registry.example/proxy:1"});
    let before =
        json!({"name": "collector", "image": "registry.example/collector:1", "restartPolicy": "Always"});
    let more = ["--set-json", &format!("extraContainers=[{beside}]")].map(str::to_owned);
    let more_before = ["--set-json", &format!("extraInitContainers=[{before}]")].map(str::to_owned);
    let more: Vec<&str> = more.iter().chain(&more_before).map(String::as_str).collect();
    let with_containers = rendered(&overlay, "deployment", &more)?;
    let of_pod = &with_containers["spec"]["template"]["spec"];
    ensure!(of_pod["containers"][0]["name"] == "pilothouse" && of_pod["containers"][1] == beside, "{of_pod}");
    ensure!(of_pod["initContainers"] == json!([before]), "{of_pod}");
    ensure!(
        pod.get("initContainers").is_none() && pod["containers"].as_array().is_some_and(|all| all.len() == 1)
    );
    // The cluster chooses the user, and what is not added stays.
    ensure!(pod["securityContext"].get("runAsUser").is_none(), "{pod}");
    ensure!(pod["securityContext"]["runAsNonRoot"] == true, "{pod}");
    let policy = rendered(&overlay, "networkpolicy", &[])?;
    let dns = [(53, "UDP"), (53, "TCP"), (5353, "UDP"), (5353, "TCP")]
        .map(|(port, protocol)| json!({"port": port, "protocol": protocol}));
    ensure!(policy["spec"]["egress"][0]["ports"] == json!(dns), "{policy}");
    ensure!(policy["spec"]["egress"][1]["ports"] == json!([{"port": 443}, {"port": 6443}]), "{policy}");
    Ok(())
}

#[test]
fn the_patches_that_the_page_adds_are_those_of_the_values() -> Result<()> {
    full::only(|| or_skip(patches_of_the_page))
}

fn patches_of_the_page() -> Result<()> {
    let overlay = Overlay::new()?;
    overlay.write_rbac(&["--shards"])?;
    add_to(&overlay, "kustomization.yaml")?;
    let plane = ControlPlane::shared(Server::Development)?;
    let built = plane.kubectl(&["kustomize", &overlay.dir().to_string_lossy()])?;
    let built = objects(&built)?;
    let deployment = built.iter().find(|object| object["kind"] == "Deployment").context("no Deployment")?;
    ensure!(deployment["spec"]["replicas"] == 3, "{deployment}");
    let given = arguments(deployment)?;
    ensure!(given.iter().filter(|arg| arg.starts_with("--shards")).eq(["--shards=16"]), "{given:?}");
    Ok(())
}

#[test]
fn labels_and_values_of_the_pods_change_no_selector() -> Result<()> {
    full::only(|| or_skip(labels_and_pods))
}

fn labels_and_pods() -> Result<()> {
    let overlay = Overlay::new()?;
    overlay.write_rbac(&[])?;
    let spread = json!([{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "pilothouse"}},
    }]);
    let values = json!({
        "commonLabels": {"example.com/team": "shops"},
        "terminationGracePeriodSeconds": 90,
        "topologySpreadConstraints": spread,
    });
    // JSON is YAML.
    fs::write(overlay.dir().join("more.yaml"), values.to_string())?;
    let more = ["--values", "more.yaml"];
    for template in ["deployment", "service", "poddisruptionbudget", "networkpolicy"] {
        let (before, after) = (rendered(&overlay, template, &[])?, rendered(&overlay, template, &more)?);
        ensure!(after["metadata"]["labels"]["example.com/team"] == "shops", "{after}");
        for selector in ["selector", "podSelector"] {
            ensure!(after["spec"][selector] == before["spec"][selector], "{after}");
        }
    }
    let deployment = rendered(&overlay, "deployment", &more)?;
    let template = &deployment["spec"]["template"];
    ensure!(template["metadata"]["labels"]["example.com/team"] == "shops", "{template}");
    ensure!(template["spec"]["terminationGracePeriodSeconds"] == 90, "{template}");
    ensure!(template["spec"]["topologySpreadConstraints"] == spread, "{template}");
    // Each would make an object that no API server takes, or a policy that allows everything.
    for (wrong, place) in [
        ("imagePullSecrets: [registry]\n", "at '/imagePullSecrets/0'"),
        ("extraEnv: [{value: nameless}]\n", "at '/extraEnv/0'"),
        ("networkPolicy: {dnsPorts: []}\n", "at '/networkPolicy/dnsPorts'"),
        ("networkPolicy: {apiServerPorts: []}\n", "at '/networkPolicy/apiServerPorts'"),
    ] {
        fs::write(overlay.dir().join("more.yaml"), wrong)?;
        refuses(&overlay, &more, place)?;
    }
    Ok(())
}

#[test]
fn a_file_of_values_with_the_permissions_makes_the_same_as_the_flag() -> Result<()> {
    full::only(|| or_skip(rbac_in_a_file_of_values))
}

fn rbac_in_a_file_of_values() -> Result<()> {
    let overlay = Overlay::new()?;
    overlay.write_rbac(&[])?;
    let mut commands = page()?.into_iter().flat_map(|step| match step {
        Step::Shell(commands) => commands,
        _ => Vec::new(),
    });
    let wanted = commands.find(|(command, _)| command.ends_with("> rbac-values.yaml"));
    let (command, _) = wanted.context("the page has no command for rbac-values.yaml")?;
    let mut shell = Command::new("/bin/sh");
    shell.current_dir(overlay.dir()).args(["-c", &command]);
    let finished = process::run(&mut shell, "", SOON)?;
    ensure!(finished.status.success(), "{finished:?}");

    let flag = template(&overlay, &[])?;
    let file = helm::release(None, &overlay, "template", &["--values", "rbac-values.yaml"])?;
    ensure!(flag.status.success() && flag.stdout.contains("kind: RoleBinding"), "{flag:?}");
    ensure!(file.status.success() && file.stdout == flag.stdout, "{file:?}");
    Ok(())
}

/// How many shards each host has, by the Leases.
fn holders(cluster: &Cluster) -> Result<BTreeMap<String, usize>> {
    let mut holders = BTreeMap::new();
    for lease in cluster.list("coordination.k8s.io/v1/Lease", NAMESPACE)? {
        let name = lease["metadata"]["name"].as_str().unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        if name.starts_with("pilothouse-shard-") && !holder.is_empty() {
            *holders.entry(holder.to_owned()).or_default() += 1;
        }
    }
    Ok(holders)
}

fn hosts_of_a_release_with_shards_are_refused_nothing_and_need_every_verb_on_leases() -> Result<()> {
    let audit = Audit::start(Server::Real)?;
    let (plane, cluster) = (audit.plane(), Cluster::of(audit.plane())?);
    let overlay = Overlay::new()?;
    let dir = overlay.dir();
    // Nobody asks the hosts for anything with a token.
    overlay.write_rbac(&["--shards", "--no-admin-tokens"])?;
    fs::write(dir.join("more.yaml"), "shards: 16\nextraArgs: [--shard-join-delay=100ms]\n")?;
    let deployment = rendered(&overlay, "deployment", &["--values", "more.yaml"])?;
    cluster.namespace(NAMESPACE)?;
    plane.kubectl(&["apply", "--server-side", "-f", &dir.join("rbac.yaml").to_string_lossy()])?;
    rbac::kubeconfig(plane, (NAMESPACE, NAME), &dir.join("kubeconfig"))?;
    let start = |pod: &str| {
        plugins::put_example(&dir.join(pod).join("plugins"), "pods-per-node")?;
        Host::start(install::host_options(&deployment, pod, dir.join("kubeconfig"), dir.join(pod))?)
    };
    let shared_by = |hosts: usize| {
        holders(&cluster).map(|held| held.len() == hosts && held.values().sum::<usize>() == 16)
    };

    let first = start("host-0")?;
    first.wait_for("the first host to have all shards", SOON, || shared_by(1))?;
    first.wait_for("an Event on its Pod", SOON, || cluster.has_event(NAMESPACE, "host-0", "PluginLoaded"))?;
    let second = start("host-1")?;
    second.wait_for("the hosts to share the shards", SOON, || shared_by(2))?;
    // A host that is killed has its Lease read before another one takes its shards.
    drop(first);
    second.wait_for("the second host to have all shards", SOON, || shared_by(1))?;
    // One that ends gives its shards up and deletes its own Lease.
    second.signal(Signal::TERM)?;
    ensure!(second.wait_exit(SOON)?.success());
    ensure!(holders(&cluster)?.is_empty());

    // There is no node to write about, and nothing is recorded twice on a Pod.
    let spare = [&SPARE_OF_PODS_PER_NODE[..], &["create configmaps", "patch events"]].concat();
    let needed = rbac::check(&audit, (NAMESPACE, NAME), &spare)?;
    ensure!(needed.iter().any(|(_, asked)| asked.resource == "leases"), "{needed:#?}");
    Ok(())
}
