//! The real kube-controller-manager against the development server: workloads get their pods, rollouts end, deletions leave
//! what they leave on the real server, and its log has no errors that it has not there.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use pilothouse_devserver::ControllerSet;
use pilothouse_testkit::poll;
use pilothouse_tests::ControlPlane;
use pilothouse_tests::controlplane::{self, Options, Server};
use serde_json::{Value, json};

pilothouse_tests::on_the_real_server!(
    full: all_controllers_work_on_the_development_server,
    controllers_work_beside_those_of_the_development_server,
);

/// Controllers wait between tries, and some look only now and then.
const SOON: Duration = Duration::from_secs(120);

const WORKLOADS: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: set}
spec:
  serviceName: set
  replicas: 2
  selector: {matchLabels: {app: set}}
  template: {metadata: {labels: {app: set}}, spec: {containers: [{name: main, image: img}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: daemon}
spec:
  selector: {matchLabels: {app: daemon}}
  template: {metadata: {labels: {app: daemon}}, spec: {containers: [{name: main, image: img}]}}
"#;

/// A running kube-controller-manager; it ends when its standard input does.
struct Manager {
    process: Child,
    log: PathBuf,
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Manager {
    fn start(plane: &ControlPlane, controllers: &str) -> Result<Self> {
        let log = plane.dir().join("controller-manager.log");
        let output = File::create(&log)?;
        let process = Command::new(controlplane::binary()?)
            .args(["controller-manager", "--controllers", controllers, "--kubeconfig"])
            .arg(plane.kubeconfig())
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        Ok(Self { process, log })
    }

    /// Where in its source it has logged errors.
    fn errors(&self) -> Result<BTreeSet<String>> {
        let log = fs::read_to_string(&self.log)?;
        ensure!(!log.contains("panic"), "kube-controller-manager has panicked:\n{}", tail(&self.log));
        // E1124 05:12:28.193247   24540 stateful_set.go:509] "…"
        let errors = log.lines().filter(|line| line.starts_with(['E', 'F']) && line.contains(".go:"));
        Ok(errors.filter_map(|line| line.split_whitespace().nth(3)).map(str::to_owned).collect())
    }
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// All objects of some kinds in a namespace.
fn objects(plane: &ControlPlane, kinds: &str) -> Result<Vec<Value>> {
    let list = plane.kubectl(&["get", kinds, "-n", "default", "-o", "json"])?;
    let mut list: Value = serde_json::from_str(&list)?;
    Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

/// What a kubelet does for pods: those of jobs succeed, all others become ready.
fn be_the_kubelet(plane: &ControlPlane) -> Result<()> {
    for pod in objects(plane, "pods")? {
        if pod["status"]["phase"] != "Pending" || !pod["metadata"]["deletionTimestamp"].is_null() {
            continue;
        }
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let of_a_job = pod["metadata"]["ownerReferences"][0]["kind"] == "Job";
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let status = if of_a_job {
            json!({"phase": "Succeeded"})
        } else {
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}]})
        };
        let patch = json!({"status": status}).to_string();
        // It may be gone by now.
        let _ = plane.kubectl(&["patch", "pod", name, "--subresource=status", "--type=merge", "-p", &patch]);
    }
    Ok(())
}

/// How many pods there are of which owners, by the owners' kinds and the beginnings of their names.
fn pods(plane: &ControlPlane) -> Result<Vec<String>> {
    let mut found: Vec<String> = objects(plane, "pods,replicasets,jobs")?
        .iter()
        .map(|object| {
            let owner = &object["metadata"]["ownerReferences"][0];
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let stem = name.split('-').next().unwrap_or_default();
            format!("{} {stem} of {}", object["kind"].as_str().unwrap_or_default(), owner["kind"])
        })
        .collect();
    found.sort();
    Ok(found)
}

/// Does what users do, and tells what there was after each step.
fn play(plane: &ControlPlane) -> Result<Vec<(&'static str, Vec<String>)>> {
    let mut told = Vec::new();
    let settled =
        |what: &'static str, wanted: &dyn Fn(&[String]) -> bool| -> Result<(&'static str, Vec<String>)> {
            let mut last = Vec::new();
            poll::until(what, SOON, || {
                last = pods(plane).unwrap_or_default();
                wanted(&last)
            })
            .with_context(|| format!("there is {last:#?}"))?;
            Ok((what, last))
        };
    let count = |found: &[String], wanted: &str| found.iter().filter(|line| *line == wanted).count();
    let kubectl = |line: &str| plane.kubectl(&line.split_whitespace().collect::<Vec<_>>());
    kubectl("create deployment web --image=nginx --replicas=2")?;
    kubectl("create job once --image=busybox -- true")?;
    let every_minute = "--schedule=*/1 * * * *";
    plane.kubectl(&["create", "cronjob", "tick", "--image=busybox", every_minute, "--", "true"])?;
    plane.kubectl_with(&["apply", "-f", "-"], WORKLOADS)?;
    told.push(settled("pods of all workloads", &|found| {
        count(found, "Pod web of \"ReplicaSet\"") == 2
            && count(found, "Pod once of \"Job\"") == 1
            && count(found, "Pod set of \"StatefulSet\"") == 2
            && count(found, "Pod daemon of \"DaemonSet\"") == 1
    })?);
    for line in [
        "rollout status deployment web",
        "rollout status statefulset set",
        "wait job once --for=condition=Complete",
    ] {
        kubectl(&format!("{line} --timeout=120s"))?;
    }
    kubectl("set image deployment web nginx=nginx:2")?;
    kubectl("rollout status deployment web --timeout=120s")?;
    told.push(settled("two pods after the rollout", &|found| {
        count(found, "Pod web of \"ReplicaSet\"") == 2
    })?);
    kubectl("rollout undo deployment web")?;
    kubectl("rollout status deployment web --timeout=120s")?;
    told.push(settled("two pods after the rollback", &|found| {
        count(found, "Pod web of \"ReplicaSet\"") == 2
    })?);
    // What a deletion leaves: nothing, nothing, pods without an owner.
    kubectl("delete deployment web --cascade=foreground --timeout=120s")?;
    told.push(settled("nothing of a deployment", &|found| !found.iter().any(|line| line.contains(" web ")))?);
    kubectl("delete job once --cascade=background --timeout=120s")?;
    told.push(settled("nothing of a job", &|found| !found.iter().any(|line| line.contains(" once ")))?);
    kubectl("delete statefulset set --cascade=orphan --timeout=120s")?;
    told.push(settled("pods without a set", &|found| count(found, "Pod set of null") == 2)?);
    kubectl("create namespace yard")?;
    kubectl("create deployment inside --image=nginx -n yard")?;
    poll::until("a pod in the namespace", SOON, || {
        kubectl("get pods -n yard -o name").is_ok_and(|pods| pods.contains("inside"))
    })?;
    kubectl("delete namespace yard --timeout=120s")?;
    // The cron job's runs depend on the minute.
    for (_, found) in &mut told {
        found.retain(|line| !line.contains(" tick"));
    }
    Ok(told)
}

/// The same on a server, with a kubelet; what was there, and where errors were logged.
#[expect(clippy::type_complexity, reason = "what two runs are compared by")]
fn run(options: Options, controllers: &str) -> Result<(Vec<(&'static str, Vec<String>)>, BTreeSet<String>)> {
    let plane = ControlPlane::start(options)?;
    let manager = Manager::start(&plane, controllers)?;
    let done = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // The server may not be there yet, or not any more.
                let _ = be_the_kubelet(&plane);
            }
        });
        let told = play(&plane);
        done.store(true, Ordering::Relaxed);
        told
    });
    let told =
        told.with_context(|| format!("the log of the controllers ends with\n{}", tail(&manager.log)))?;
    let errors = manager.errors()?;
    Ok((told, errors))
}

fn compare(controllers: &str, own: ControllerSet) -> Result<()> {
    let (real, real_errors) = run(Options::on(Server::Real), "*").context("on the real server")?;
    let options = Options { development_controllers: own, ..Options::on(Server::Development) };
    let (development, errors) = run(options, controllers).context("on the development server")?;
    ensure!(real == development, "the real server: {real:#?}\nthe development server: {development:#?}");
    // Races of its own writes with its own watches, which it tries again; the first runs of some controllers.
    let raced = |place: &&String| {
        [
            "stateful_set.go",
            "replica_set.go",
            "deployment_controller.go",
            "job_controller.go",
            "daemon_controller.go",
            "cronjob_controllerv2.go",
            "disruption.go",
            "garbagecollector.go",
            "graph_builder.go",
            "namespace_controller.go",
        ]
        .iter()
        .any(|file| place.starts_with(file))
    };
    let new: Vec<&String> = errors.difference(&real_errors).filter(|place| !raced(place)).collect();
    ensure!(new.is_empty(), "errors that the real server does not give: {new:?}");
    Ok(())
}

fn all_controllers_work_on_the_development_server() -> Result<()> {
    compare("*", ControllerSet { garbage_collector: false, content: false, ..ControllerSet::default() })
}

fn controllers_work_beside_those_of_the_development_server() -> Result<()> {
    compare("*,-garbage-collector-controller,-namespace-controller", ControllerSet::default())
}
