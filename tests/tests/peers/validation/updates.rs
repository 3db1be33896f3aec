//! Updates: skeletons are made on both servers, and broken objects are sent to take their place.

use anyhow::{Context as _, Result, ensure};
use pilothouse_client::Client;
use pilothouse_testkit::full;
use pilothouse_tests::ControlPlane;
use pilothouse_tests::controlplane::Server;
use serde_json::Value;

use super::breaks::{Random, broken, each_broken};
use super::skeletons::{Skeleton, updated};
use super::{AT_A_TIME, Report, Verdict, answered, read, start};

/// How often each skeleton is broken.
const SAMPLE: usize = 40;
const FULL: usize = 700;

/// An object that is to take the place of another one, by the number of its skeleton.
type Update = (usize, Value);

pub(super) fn check() -> Result<()> {
    let seed = full::seed(37)?;
    let mut random = Random(seed);
    let mut skeletons = updated();
    // These the real server writes itself, or deletes after a while.
    skeletons.retain(|one| !["APIService", "LeaseCandidate"].iter().any(|kind| one.object["kind"] == *kind));
    let count = full::or_sample(FULL, SAMPLE);
    let mut updates: Vec<Update> = Vec::new();
    for (number, Skeleton { object, .. }) in skeletons.iter().enumerate() {
        updates.push((number, object.clone()));
        updates.extend(each_broken(object).into_iter().map(|object| (number, object)));
        updates.extend((0..count).map(|_| (number, broken(object, &mut random))));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ask = |server| -> Result<Vec<Result<Verdict>>> {
        let plane = start(server)?;
        runtime.block_on(verdicts(&plane, &skeletons, &updates))
    };
    let real = ask(Server::Real).context("on the real server")?;
    let ours = ask(Server::Development)?.into_iter().collect::<Result<Vec<_>>>();
    let ours = ours.context("on the development server")?;
    let real = answered(real)?;
    let mut report = Report::default();
    for (((_, object), real), ours) in updates.iter().zip(&real).zip(&ours) {
        report.compare(object, real, ours);
    }
    report.judge(seed, 15)
}

/// Makes the skeletons and asks what a server would say of updates of them.
async fn verdicts(
    plane: &ControlPlane,
    skeletons: &[Skeleton],
    updates: &[Update],
) -> Result<Vec<Result<Verdict>>> {
    let client = plane.client().await?.without_rate_limit();
    let mut made = Vec::with_capacity(skeletons.len());
    for Skeleton { path, object } in skeletons {
        let request = client.rest("", "v1").post().absolute_path(path).json(object);
        let answer = request.send_any().await?;
        let body: Value = answer.json()?;
        ensure!(answer.status().as_u16() == 201, "{object} is refused: {body}");
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        made.push((format!("{path}/{name}"), body["metadata"]["resourceVersion"].clone()));
    }
    let mut verdicts = Vec::with_capacity(updates.len());
    for some in updates.chunks(AT_A_TIME) {
        let asked: Vec<_> = some
            .iter()
            .map(|(number, object)| {
                let (path, version) = made[*number].clone();
                tokio::spawn(verdict(client.clone(), path, version, object.clone()))
            })
            .collect();
        for one in asked {
            verdicts.push(one.await?);
        }
    }
    Ok(verdicts)
}

async fn verdict(client: Client, path: String, version: Value, mut object: Value) -> Result<Verdict> {
    object["metadata"]["resourceVersion"] = version;
    let request = client.rest("", "v1").put().absolute_path(&path).param("dryRun", "All").json(&object);
    let mut verdict = read(&request.send_any().await.with_context(|| format!("{path}: {object}"))?)?;
    // What was a structure of Go, and what differs between two of them, is left out.
    // A priority has been filled in by the real server only.
    let said = verdict
        .causes
        .iter()
        .filter(|cause| !cause.ends_with("spec.priority: Invalid value: null: field is immutable"));
    verdict.causes = said.map(|cause| without_structures(cause)).collect();
    if verdict.causes.is_empty() && verdict.code == 422 {
        verdict.code = 200;
    }
    Ok(verdict)
}

fn without_structures(cause: &str) -> String {
    let cause = cause.lines().next().unwrap_or_default();
    match cause.split_once(": Invalid value: ") {
        Some((place, rest)) if rest.ends_with(": field is immutable") => {
            format!("{place}: field is immutable")
        }
        _ => cause.replace("nodeSelector: Invalid value: {}:", "nodeSelector: Invalid value: null:"),
    }
}
