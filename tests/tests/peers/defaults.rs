//! What becomes of objects of built-in kinds as they are read: random objects by the server's own code (`controlplane objects`)
//! and by the development server. Of all kinds, both read an object or neither does; of those that controllers write, its
//! canonical form and its defaults are the same.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use pilothouse_devserver::read_builtin;
use pilothouse_testkit::{full, paths};
use pilothouse_tests::go_program::CONTROLPLANE;
use serde::Deserialize;
use serde_json::{Map, Value};

pilothouse_tests::on_the_real_server!(random_objects_are_read_as_by_the_real_server);

/// About forty of each kind.
const OBJECTS: usize = 8000;

/// What is compared as it was read.
const WRITTEN: &[(&str, &[&str])] = &[
    (
        "v1",
        &[
            "ConfigMap",
            "Event",
            "Namespace",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ReplicationController",
        ],
    ),
    ("v1", &["Secret", "Service", "ServiceAccount"]),
    ("apps/v1", &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("batch/v1", &["CronJob", "Job"]),
    ("autoscaling/v2", &["HorizontalPodAutoscaler"]),
    ("policy/v1", &["PodDisruptionBudget"]),
    ("networking.k8s.io/v1", &["Ingress", "NetworkPolicy"]),
    ("discovery.k8s.io/v1", &["EndpointSlice"]),
    ("rbac.authorization.k8s.io/v1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("coordination.k8s.io/v1", &["Lease"]),
    ("events.k8s.io/v1", &["Event"]),
    ("apiextensions.k8s.io/v1", &["CustomResourceDefinition"]),
];

/// How many differences are shown.
const SHOWN: usize = 20;

#[derive(Deserialize)]
struct Answer {
    sent: Map<String, Value>,
    read: Option<Map<String, Value>>,
    error: Option<String>,
}

fn random_objects_are_read_as_by_the_real_server() -> Result<()> {
    let seed = full::seed(36)?;
    let tables = paths::repository().join("host/devserver/src/tables");
    let mut oracle = Command::new(CONTROLPLANE.built()?)
        .args(["objects", "--random", &OBJECTS.to_string(), "--seed", &seed.to_string(), "--tables"])
        .arg(tables)
        .stdout(Stdio::piped())
        .spawn()?;
    let answers = BufReader::new(oracle.stdout.take().context("no output")?);
    let (mut compared, mut written, mut different, mut differences) = (0, 0, 0, String::new());
    for line in answers.lines() {
        let line = line?;
        let Answer { sent, read, error } = serde_json::from_str(&line).with_context(|| line.clone())?;
        let (version, kind) = (sent["apiVersion"].as_str(), sent["kind"].as_str());
        let of = |list: &[&str]| list.iter().any(|one| kind == Some(*one));
        let is_written = WRITTEN.iter().any(|(group, kinds)| version == Some(*group) && of(kinds));
        if is_left_out(&sent) {
            continue;
        }
        let mut ours = sent;
        let outcome = read_builtin(&mut ours);
        compared += 1;
        let same = match (&read, &outcome) {
            (Some(read), Ok(())) if is_written => {
                written += 1;
                without_now(read.clone().into()) == without_now(ours.clone().into())
            }
            (read, outcome) => read.is_some() == outcome.is_ok(),
        };
        if !same {
            different += 1;
            if different <= SHOWN {
                let ours = outcome.map(|()| Value::from(ours));
                let _ = writeln!(differences, "\n{line}\n--- ours\n{ours:?} {}", error.unwrap_or_default());
            }
        }
    }
    ensure!(oracle.wait()?.success(), "the oracle failed");
    eprintln!("{compared} objects, {written} of which are compared as they were read");
    ensure!(written > OBJECTS / 20, "only {written} of {compared} objects were compared");
    ensure!(
        different == 0,
        "{different} of {compared} objects are read otherwise, with {}={seed}:\n{differences}",
        full::SEED
    );
    Ok(())
}

/// What cannot be compared.
fn is_left_out(object: &Map<String, Value>) -> bool {
    let (version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
    match (version, kind) {
        // Versions that are off by default.
        (Some(version), _) if version.contains("alpha") || version.contains("beta") => true,
        // Options have no internal form, so the oracle cannot convert them.
        (Some("v1"), Some("DeleteOptions")) => true,
        // Not served here.
        (Some("autoscaling/v1"), Some("HorizontalPodAutoscaler")) => true,
        // Resources of a whole Pod: the real server adds up those of its containers.
        (Some("v1"), Some("Pod")) => object.get("spec").and_then(|spec| spec.get("resources")).is_some(),
        _ => false,
    }
}

/// An object without what no two readers share: the time of a taint is now, and the generation of a DaemonSet's template is
/// counted as it is stored.
fn without_now(mut value: Value) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(object) => {
                object.remove("timeAdded");
                if let Some(Value::Object(annotations)) = object.get_mut("annotations") {
                    annotations.remove("deprecated.daemonset.template.generation");
                    if annotations.is_empty() {
                        object.remove("annotations");
                    }
                }
                object.values_mut().for_each(walk);
            }
            Value::Array(list) => list.iter_mut().for_each(walk),
            _ => {}
        }
    }
    walk(&mut value);
    value
}
