//! What becomes of objects of built-in kinds as they are read: random objects by the server's own code (`controlplane objects`)
//! and by the development server. Types, messages, canonical forms and defaults are all in it.

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

/// About twenty of each kind.
const OBJECTS: usize = 4000;

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
    let (mut compared, mut different, mut differences) = (0, 0, String::new());
    for line in answers.lines() {
        let line = line?;
        let Answer { sent, read, error } = serde_json::from_str(&line).with_context(|| line.clone())?;
        if is_left_out(&sent) {
            continue;
        }
        let mut ours = sent;
        let outcome = read_builtin(&mut ours);
        let ours = outcome.map(|()| without_now(ours.into()));
        let real = match (read, error) {
            (Some(read), None) => Ok(without_now(read.into())),
            (_, error) => Err(error.unwrap_or_default()),
        };
        compared += 1;
        if ours != real {
            different += 1;
            if different <= SHOWN {
                let _ = writeln!(differences, "\n{line}\n--- real\n{real:?}\n--- ours\n{ours:?}");
            }
        }
    }
    ensure!(oracle.wait()?.success(), "the oracle failed");
    ensure!(compared > OBJECTS * 9 / 10, "only {compared} objects were compared");
    ensure!(
        different == 0,
        "{different} of {compared} objects are read otherwise, with {}={seed}:\n{differences}",
        full::SEED
    );
    Ok(())
}

/// What cannot be compared, or is not done by the development server.
fn is_left_out(object: &Map<String, Value>) -> bool {
    let (version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
    match (version, kind) {
        // Options have no internal form, so the oracle cannot convert them.
        (Some("v1"), Some("DeleteOptions")) => true,
        // The real server keeps what v1 does not know in annotations; here v2 is stored.
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
