//! The installation of docs/install.md with kustomize, on a real API server: it is admitted under Pod Security `restricted`,
//! its hosts are refused nothing and pass their probes, and each rule of their roles is needed. The same with Helm is in
//! `slow`. Without a real server: names and ports agree, the manifests are of this chart, the systemd unit starts a host.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use pilothouse_testkit::http;
use pilothouse_testkit::paths::repository;
use pilothouse_testkit::poll::{self, SOON};
use pilothouse_testkit::process::{self, Finished};
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::install::{self, NAME, NAMESPACE, Overlay, container, objects};
use pilothouse_tests::rbac::{self, Asked, Rule, SPARE_OF_PODS_PER_NODE};
use pilothouse_tests::{Audit, Cluster, ControlPlane, Host, Signal, loglines};
use serde_json::{Value, json};

pilothouse_tests::on_the_real_server!(the_documented_installation_is_refused_nothing_and_needs_every_rule);

/// Of the namespace that is let in to the metrics, and the account of Prometheus there.
const MONITORING: &str = "monitoring";
const PROMETHEUS: &str = "prometheus-k8s";

/// Whether the authorizer allows this to the host.
fn is_allowed(plane: &ControlPlane, asked: &Asked) -> Result<bool> {
    let (resource, subresource) = asked.resource.split_once('/').unwrap_or((&asked.resource, ""));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": format!("system:serviceaccount:{NAMESPACE}:{NAME}"), "resourceAttributes": {
            "verb": asked.verb, "group": asked.group, "resource": resource, "subresource": subresource,
            "namespace": asked.namespace, "name": asked.name,
        }},
    });
    let args = ["create", "-f", "-", "-o", "jsonpath={.status.allowed}"];
    match plane.kubectl_with(&args, &review.to_string())?.trim() {
        "true" => Ok(true),
        "false" => Ok(false),
        other => bail!("the review of {asked:?} says {other:?}"),
    }
}

/// Takes a rule away, and gives it back: meanwhile the authorizer refuses what the host asked of it.
fn remove_and_restore(plane: &ControlPlane, rule: &Rule, asked: &Asked) -> Result<()> {
    let role = format!("{NAMESPACE}:{NAME}");
    let of = match &*rule.namespace {
        "" => vec!["clusterrole", &role],
        namespace => vec!["role", &role, "-n", namespace],
    };
    let kubectl = |verb: &[&str], more: &[&str]| plane.kubectl(&[verb, &of[..], more].concat());
    let shown: Value = serde_json::from_str(&kubectl(&["get"], &["-o", "json"])?)?;
    let all = shown["rules"].as_array().context("no rules")?;
    let set = |rules: &[Value]| {
        kubectl(&["patch"], &["--type=merge", "--patch", &json!({"rules": rules}).to_string()]).map(drop)
    };
    let mut others = all.clone();
    others.remove(rule.index);
    set(&others)?;
    poll::until(&format!("{asked:?} to be refused"), SOON, || is_allowed(plane, asked).map(|is| !is))?;
    set(all)?;
    poll::until(&format!("{asked:?} to be allowed"), SOON, || is_allowed(plane, asked))
}

/// Checks that the policy, as the server has it, lets hosts out to the port of the API server's Service.
fn allows_the_api_server(plane: &ControlPlane) -> Result<()> {
    let policy = plane.kubectl(&["get", "networkpolicy", NAME, "-n", NAMESPACE, "-o", "json"])?;
    let policy: Value = serde_json::from_str(&policy)?;
    // The server makes it after its own start.
    let path = "jsonpath={.spec.ports[0].port}";
    let port = poll::until("the Service of the API server", SOON, || {
        plane.kubectl(&["get", "service", "kubernetes", "-n", "default", "-o", path]).map(Some)
    })?;
    let allowed = egress(&policy)?;
    ensure!(allowed.contains(&(port.trim().to_owned(), "TCP".to_owned())), "{port} is not in {allowed:?}");
    Ok(())
}

/// The ports and protocols that a policy lets out.
fn egress(policy: &Value) -> Result<BTreeSet<(String, String)>> {
    let rules = policy["spec"]["egress"].as_array().context("no egress")?;
    let ports = rules.iter().filter_map(|rule| rule["ports"].as_array()).flatten();
    let named =
        ports.map(|port| (port["port"].to_string(), port["protocol"].as_str().unwrap_or("TCP").to_owned()));
    Ok(named.collect())
}

/// Creates a Pod of the Deployment's template, and nothing: a dry run.
fn admit(plane: &ControlPlane, template: &Value) -> Result<String> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "admitted", "namespace": NAMESPACE},
        "spec": template["spec"],
    });
    plane.kubectl_with(&["create", "--dry-run=server", "-f", "-"], &pod.to_string())
}

fn the_documented_installation_is_refused_nothing_and_needs_every_rule() -> Result<()> {
    let audit = Audit::start(Server::Real)?;
    let (plane, cluster) = (audit.plane(), Cluster::of(audit.plane())?);
    let overlay = Overlay::new()?;
    overlay.write_rbac(&[])?;
    let (dir, kustomization) = (overlay.dir(), repository().join("deploy/monitoring"));
    plane.kubectl(&["apply", "--server-side", "-k", &dir.to_string_lossy()])?;
    cluster.namespace(MONITORING)?;
    // The role of Prometheus; the definitions of its operator are not here.
    let monitoring = plane.kubectl(&["kustomize", &kustomization.to_string_lossy()])?;
    for object in objects(&monitoring)? {
        if object["apiVersion"] == "rbac.authorization.k8s.io/v1" {
            plane.kubectl_with(&["apply", "--server-side", "-f", "-"], &object.to_string())?;
        }
    }

    let deployment = cluster.get("apps/v1/Deployment", NAMESPACE, NAME)?.context("no Deployment")?;
    ensure!(deployment["spec"]["replicas"] == 2);
    let template = &deployment["spec"]["template"];
    admit(plane, template)?;
    let mut privileged = template.clone();
    privileged["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
    let denied = format!("{:#}", admit(plane, &privileged).err().context("the level is not enforced")?);
    ensure!(denied.contains("violates PodSecurity \"restricted"), "{denied}");
    // The level does not ask for it.
    let container = container(&deployment)?;
    ensure!(container["securityContext"]["readOnlyRootFilesystem"] == true, "{container}");

    // Two hosts, as kubelets start them.
    cluster.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "install-node"}}))?;
    rbac::kubeconfig(plane, (NAMESPACE, NAME), &dir.join("kubeconfig"))?;
    let files = cluster.get("v1/ConfigMap", NAMESPACE, "pilothouse-plugins")?.context("no plugins")?;
    let start = |pod: &str| {
        let at = dir.join(pod);
        install::mount_config_map(&files, &at.join("plugins"))?;
        Host::start(install::host_options(&deployment, pod, dir.join("kubeconfig"), at)?)
    };
    let logged =
        |host: &Host, event: &str| !host.log().matching(&format!("\"event\":\"{event}\"")).is_empty();
    let leader = start("host-0")?;
    leader.wait_for("the first host to lead", SOON, || logged(&leader, "leader_elected"))?;
    leader.wait_for("a write of the plugin", SOON, || {
        anyhow::Ok(cluster.get("v1/ConfigMap", "default", "pods-on-install-node")?.is_some())
    })?;
    leader
        .wait_for("an Event on its Pod", SOON, || cluster.has_event(NAMESPACE, "host-0", "PluginLoaded"))?;
    let standby = start("host-1")?;
    standby.wait_for("the second host to stand by", SOON, || logged(&standby, "standby"))?;
    standby.wait_for("its plugin to be loaded", SOON, || logged(&standby, "plugin_running"))?;
    // Both are ready, so that a rollout goes on.
    for host in [&leader, &standby] {
        install::wait_probed(host, container)?;
    }
    allows_the_api_server(plane)?;

    // Prometheus reads /metrics with its own token and nothing else, and no other account of its namespace reads them.
    let admin = leader.admin().replace("0.0.0.0", "127.0.0.1");
    let scrape = |account: &str, path: &str| -> Result<http::Response> {
        plane.kubectl(&["create", "serviceaccount", account, "-n", MONITORING]).ok();
        let token = plane.kubectl(&["create", "token", account, "-n", MONITORING])?;
        http::request_as(token.trim(), "GET", &admin, path, SOON)
    };
    let metrics = scrape(PROMETHEUS, "/metrics")?.ok()?;
    ensure!(metrics.contains("leader_election_master_status{name=\"pilothouse/pilothouse\"} 1"), "{metrics}");
    ensure!(scrape(PROMETHEUS, "/plugins")?.status == 403);
    ensure!(scrape("other", "/metrics")?.status == 403);

    // A rollout ends the leader, and the standby takes over.
    leader.signal(Signal::TERM)?;
    ensure!(leader.wait_exit(SOON)?.success());
    standby.wait_for("the second host to lead", SOON, || logged(&standby, "leader_elected"))?;
    standby.signal(Signal::TERM)?;
    ensure!(standby.wait_exit(SOON)?.success());

    // Nothing is recorded twice on its Pod.
    let spare = [&SPARE_OF_PODS_PER_NODE[..], &["patch events"]].concat();
    let needed = rbac::check(&audit, (NAMESPACE, NAME), &spare)?;
    ensure!(needed.len() > 6, "{needed:#?}");
    for (rule, asked) in &needed {
        remove_and_restore(plane, rule, asked)?;
    }

    // Uninstalled, nothing of it is left but what the namespace takes along.
    plane.kubectl(&["delete", "--wait=false", "-k", &dir.to_string_lossy()])?;
    for kind in ["clusterroles", "clusterrolebindings", "roles", "rolebindings"] {
        let left = plane.kubectl(&[
            "get",
            kind,
            "-A",
            "-l",
            "app.kubernetes.io/managed-by=pilothouse-rbac",
            "-o",
            "name",
        ])?;
        ensure!(left.is_empty(), "{kind}: {left}");
    }
    ensure!(cluster.get("apps/v1/Deployment", NAMESPACE, NAME)?.is_none());
    Ok(())
}

/// The objects of a folder of `deploy`.
fn rendered(file: &str) -> Result<Vec<Value>> {
    objects(&fs::read_to_string(repository().join("deploy").join(file))?)
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Result<&'a Value> {
    objects.iter().find(|object| object["kind"] == kind).with_context(|| format!("no {kind}"))
}

#[test]
fn names_of_ports_and_labels_agree() -> Result<()> {
    let (base, monitoring) = (rendered("base/pilothouse.yaml")?, rendered("monitoring/monitoring.yaml")?);
    let [deployment, service, budget, policy] =
        ["Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"].map(|kind| of_kind(&base, kind));
    let monitor = of_kind(&monitoring, "ServiceMonitor")?;
    let (deployment, service, policy) = (deployment?, service?, policy?);
    let (pod, container) = (&deployment["spec"]["template"], container(deployment)?);
    let includes = |labels: &Value, selector: &Value| {
        let selector = selector.as_object().context("no selector")?;
        let of_all = selector.iter().all(|(name, value)| labels[name] == *value);
        ensure!(!selector.is_empty() && of_all, "{selector:?} does not select {labels}");
        anyhow::Ok(())
    };
    let labels = &pod["metadata"]["labels"];
    includes(labels, &service["spec"]["selector"])?;
    includes(labels, &policy["spec"]["podSelector"]["matchLabels"])?;
    for selecting in [deployment, budget?] {
        includes(labels, &selecting["spec"]["selector"]["matchLabels"])?;
    }
    includes(&service["metadata"]["labels"], &monitor["spec"]["selector"]["matchLabels"])?;
    ensure!(
        service["metadata"]["labels"]["app.kubernetes.io/name"] == "pilothouse",
        "alerts select this job"
    );

    let names = |list: &Value, field: &str| -> BTreeSet<String> {
        let entries = list.as_array().into_iter().flatten();
        entries.filter_map(|entry| entry[field].as_str()).map(str::to_owned).collect()
    };
    let ports = names(&container["ports"], "name");
    ensure!(names(&service["spec"]["ports"], "targetPort").is_subset(&ports), "{ports:?}");
    ensure!(names(&monitor["spec"]["endpoints"], "port") == names(&service["spec"]["ports"], "name"));
    for probe in ["livenessProbe", "readinessProbe"] {
        ensure!(container[probe]["httpGet"]["port"] == "health", "{probe}");
    }
    // Kubelets are let in to the probes from anywhere, and the namespace of Prometheus to the metrics.
    let prometheus = &of_kind(&monitoring, "ClusterRoleBinding")?["subjects"][0]["namespace"];
    let [probes, scrapes] = policy["spec"]["ingress"].as_array().context("no ingress")?.as_slice() else {
        bail!("not two rules: {policy}")
    };
    let ports_of = |rule: &Value| names(&rule["ports"], "port");
    ensure!(
        ports_of(probes) == BTreeSet::from(["health".to_owned()]) && probes["from"].is_null(),
        "{probes}"
    );
    ensure!(ports_of(scrapes) == names(&service["spec"]["ports"], "targetPort"), "{scrapes}");
    let from = scrapes.pointer("/from/0/namespaceSelector/matchLabels/kubernetes.io~1metadata.name");
    ensure!(from == Some(prometheus), "{scrapes} does not let {prometheus} in");
    // DNS, and the API server by its Service and behind it.
    let wanted = [("53", "UDP"), ("53", "TCP"), ("443", "TCP"), ("6443", "TCP")];
    let wanted = wanted.map(|(port, protocol)| (port.to_owned(), protocol.to_owned()));
    ensure!(egress(policy)? == BTreeSet::from(wanted), "{}", policy["spec"]["egress"]);
    let args = install::arguments(deployment)?;
    for (flag, port) in [("--listen", "metrics"), ("--health-addr", "health")] {
        let number = container["ports"].as_array().into_iter().flatten().find(|entry| entry["name"] == port);
        let number = number.map(|entry| &entry["containerPort"]).context(port)?;
        ensure!(args.contains(&format!("{flag}=0.0.0.0:{number}")), "{flag}: {args:?}");
    }
    Ok(())
}

/// Runs `deploy/render.sh` of a copy of the repository, or of the repository, with a Helm that fails.
fn render(repository: &Path, arg: &Path) -> Result<Finished> {
    let mut command = Command::new("/bin/sh");
    command.arg(repository.join("deploy/render.sh")).arg(arg).env("HELM", "false");
    process::run(&mut command, "", SOON)
}

/// The digest of what the manifests for kustomize are made from.
fn inputs(repository: &Path) -> Result<String> {
    let printed = render(repository, Path::new("--inputs"))?;
    ensure!(printed.status.success() && printed.stdout.trim().len() == 64, "{printed:?}");
    Ok(printed.stdout.trim().to_owned())
}

/// Without Helm; at full length they are compared with what it makes.
#[test]
fn the_manifests_for_kustomize_are_of_this_chart() -> Result<()> {
    let inputs = inputs(repository())?;
    for file in ["base/pilothouse.yaml", "monitoring/monitoring.yaml"] {
        let text = fs::read_to_string(repository().join("deploy").join(file))?;
        let found = text.lines().find_map(|line| line.strip_prefix("# Inputs: sha256:"));
        ensure!(
            found == Some(&*inputs),
            "deploy/{file} is of another chart: run deploy/render.sh ({found:?}, {inputs})"
        );
    }
    Ok(())
}

#[test]
fn each_file_of_the_chart_is_an_input_of_the_manifests() -> Result<()> {
    let copy = tempfile::Builder::new().prefix("render-").tempdir()?;
    let mut files = vec!["deploy/render.sh".into()];
    for folder in ["charts/pilothouse", "charts/pilothouse/files", "charts/pilothouse/templates"] {
        fs::create_dir_all(copy.path().join(folder))?;
        for entry in fs::read_dir(repository().join(folder))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                files.push(Path::new(folder).join(entry.file_name()));
            }
        }
    }
    fs::create_dir_all(copy.path().join("deploy"))?;
    for file in &files {
        fs::copy(repository().join(file), copy.path().join(file))?;
    }
    let mut seen = BTreeSet::from([inputs(repository())?]);
    ensure!(seen.contains(&inputs(copy.path())?), "the place of the repository is an input");
    for file in &files {
        let (file, text) = (copy.path().join(file), fs::read_to_string(copy.path().join(file))?);
        fs::write(&file, text + "# changed\n")?;
        ensure!(seen.insert(inputs(copy.path())?), "{} is no input", file.display());
    }
    Ok(())
}

#[test]
fn nothing_is_written_where_helm_fails() -> Result<()> {
    let out = tempfile::Builder::new().prefix("render-").tempdir()?;
    let finished = render(repository(), out.path())?;
    ensure!(!finished.status.success(), "{finished:?}");
    for folder in ["base", "monitoring"] {
        let left: Vec<_> = fs::read_dir(out.path().join(folder))?.collect::<Result<_, _>>()?;
        ensure!(left.is_empty(), "{left:?}");
    }
    Ok(())
}

#[test]
fn the_systemd_unit_starts_a_host_that_leads() -> Result<()> {
    let plane = ControlPlane::start(Options::on(Server::Development))?;
    let cluster = Cluster::of(&plane)?;
    cluster.namespace(NAMESPACE)?;
    let folder = tempfile::Builder::new().prefix("unit-").tempdir()?;
    let unit = fs::read_to_string(repository().join("deploy/pilothouse.service"))?;
    let kubeconfig = plane.kubeconfig().to_owned();
    let host = Host::start(install::unit_options(&unit, kubeconfig, folder.path().to_owned())?)?;
    host.wait_for("the host to lead", SOON, || !loglines::events(&host, "leader_elected").is_empty())?;
    let lease = cluster.get("coordination.k8s.io/v1/Lease", NAMESPACE, NAME)?.context("no Lease")?;
    ensure!(lease["spec"]["holderIdentity"].is_string(), "{lease}");
    host.signal(Signal::TERM)?;
    ensure!(host.wait_exit(SOON)?.success(), "{}", host.log().tail(20));
    Ok(())
}
