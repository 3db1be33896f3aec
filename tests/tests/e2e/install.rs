//! The installation of docs/install.md with kustomize, on a real API server: it is admitted under Pod Security `restricted`,
//! its hosts are refused nothing, and each rule of their roles is needed. The same with Helm is in `slow`.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail, ensure};
use pilothouse_testkit::http;
use pilothouse_testkit::paths::repository;
use pilothouse_testkit::poll::{self, SOON};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::install::{self, NAME, NAMESPACE, Overlay, container, objects};
use pilothouse_tests::plugins::Manifest;
use pilothouse_tests::rbac::{self, Asked, Rule, SPARE_OF_PODS_PER_NODE};
use pilothouse_tests::{Audit, Cluster, ControlPlane, Host, Signal, Stage};
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
    for rule in policy["spec"]["ingress"].as_array().context("no ingress")? {
        ensure!(names(&rule["ports"], "port").is_subset(&ports), "{rule}");
    }
    let args = container["args"].as_array().context("no arguments")?;
    for (flag, port) in [("--listen", "metrics"), ("--health-addr", "health")] {
        let number = container["ports"].as_array().into_iter().flatten().find(|entry| entry["name"] == port);
        let number = number.map(|entry| &entry["containerPort"]).context(port)?;
        ensure!(args.contains(&json!(format!("{flag}=0.0.0.0:{number}"))), "{flag}: {args:?}");
    }
    Ok(())
}

/// The names of metrics in an expression.
fn metrics_of(expression: &str) -> BTreeSet<String> {
    // Before `{`: a selector follows the name of a metric, and nothing else.
    let before = expression.match_indices('{').map(|(at, _)| &expression[..at]);
    let name = |text: &str| {
        let start = text.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
        text[start..].to_owned()
    };
    before.map(name).filter(|name| !name.is_empty()).collect()
}

#[test]
fn the_dashboard_and_the_alerts_name_metrics_that_a_host_has() -> Result<()> {
    let plane = ControlPlane::shared(Server::Development)?;
    let mut options = HostOptions::new(plane.kubeconfig());
    options.args = ["--leader-elect", "--lease", "install-metrics/hosts"].map(str::to_owned).into();
    let stage = Stage::with(plane, "install-metrics", options)?;
    let manifest = Manifest::new("trap").reads(&["configmaps"], stage.namespace);
    stage.install(
        "trap",
        "probe",
        &manifest.config(json!({"mode": "trap", "namespaces": [stage.namespace]})),
    )?;
    stage.cluster.config_map(stage.namespace, "one")?;
    // A host has series of faults once there was one.
    let metrics = stage.host.wait_for("a fault", SOON, || {
        let metrics = stage.host.metrics()?;
        anyhow::Ok(metrics.sum("pilothouse_guest_faults_total", &[]).map(|_| metrics))
    })?;
    // One that shares plugins has those of shards.
    let args =
        ["--leader-elect", "--shards=1", "--lease", "install-metrics/shards"].map(str::to_owned).into();
    let sharing = Host::start(HostOptions { args, ..HostOptions::new(plane.kubeconfig()) })?.metrics()?;
    let exported: BTreeSet<&str> = metrics.names().into_iter().chain(sharing.names()).collect();

    let files = repository().join("charts/pilothouse/files");
    let alerts: Value = serde_saphyr::from_str(&fs::read_to_string(files.join("alerts.yaml"))?)?;
    let dashboard: Value = serde_json::from_slice(&fs::read(files.join("dashboard.json"))?)?;
    let rules = alerts["groups"][0]["rules"].as_array().context("no rules")?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let expressions =
        rules.iter().chain(targets).map(|entry| entry["expr"].as_str().context("no expression"));
    let mut named = BTreeSet::new();
    for expression in expressions {
        let names = metrics_of(expression?);
        ensure!(!names.is_empty(), "no metric in an expression of {alerts}");
        named.extend(names);
    }
    // Prometheus makes it.
    ensure!(named.remove("up"), "{named:?}");
    ensure!(named.len() > 25, "{named:?}");
    let unknown: Vec<&String> = named.iter().filter(|name| !exported.contains(&name.as_str())).collect();
    ensure!(unknown.is_empty(), "{unknown:?} are not in {exported:?}");
    Ok(())
}

#[test]
fn each_alert_has_a_runbook() -> Result<()> {
    let alerts: Value = serde_saphyr::from_str(&fs::read_to_string(
        repository().join("charts/pilothouse/files/alerts.yaml"),
    )?)?;
    let page = fs::read_to_string(repository().join("docs/operations.md"))?;
    let documented: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("### Pilothouse")).collect();
    let rules = alerts["groups"][0]["rules"].as_array().context("no rules")?;
    let mut names = BTreeSet::new();
    for rule in rules {
        let name = rule["alert"].as_str().context("no name")?;
        let runbook = format!("docs/operations.md#{}", name.to_lowercase());
        ensure!(rule["annotations"]["runbook"] == runbook.as_str(), "{name}: {}", rule["annotations"]);
        ensure!(
            rule["labels"]["severity"].is_string() && rule["annotations"]["summary"].is_string(),
            "{name}"
        );
        names.extend(name.strip_prefix("Pilothouse"));
    }
    ensure!(names == documented, "left: alerts; right: docs/operations.md: {names:?} {documented:?}");
    Ok(())
}
