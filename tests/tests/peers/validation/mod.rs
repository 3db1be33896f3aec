//! What is refused of built-in kinds: objects with which nothing is wrong are broken at random and sent to both servers, as new
//! ones and as updates. Both accept an object, or both refuse it for the same causes, word by word; the order is left out, since
//! the real server has none in maps.

mod breaks;
mod skeletons;
mod updates;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use breaks::{Random, broken, each_broken};
use pilothouse_client::{Client, RestResponse};
use pilothouse_testkit::full;
use pilothouse_tests::ControlPlane;
use pilothouse_tests::controlplane::{Options, Server};
use serde_json::Value;
use skeletons::{Skeleton, all, wrong};

pilothouse_tests::on_the_real_server!(
    broken_objects_are_refused_for_the_same_causes,
    broken_updates_are_refused_for_the_same_causes,
);

/// How often each skeleton is broken.
const SAMPLE: usize = 60;
const FULL: usize = 1000;
/// How many objects are sent before an answer is waited for.
const AT_A_TIME: usize = 8;
/// How many objects of each kind are shown that differ.
const SHOWN: usize = 3;

/// What only a server says that fills in no service accounts, as this control plane's does not.
const NO_ACCOUNT: &str = "must not be specified when serviceAccountName is not set";

/// What only a server says that compiles expressions, looks up the namespace of a claim, or checks signatures of keys.
const NOT_SAID_HERE: [&str; 4] = [
    ": compilation failed: ",
    ": must evaluate to ",
    ": admin access to devices requires the `",
    ": could not verify proof-of-possession signature",
];

/// Without these the real server does not serve the kinds of alpha and beta versions, or drops some of their fields.
const PREVIEWS: [&str; 2] = [
    "--runtime-config=api/all=true",
    "--feature-gates=ClusterTrustBundle=true,PodCertificateRequest=true,StorageVersionMigrator=true,GenericWorkload=true,\
     TopologyAwareWorkloadScheduling=true,DRAWorkloadResourceClaims=true,WorkloadAwarePreemption=true,GangScheduling=true,\
     DRADeviceTaintRules=true,DRAResourcePoolStatus=true,CoordinatedLeaderElection=true",
];

/// A server with all kinds.
fn start(server: Server) -> Result<ControlPlane> {
    let apiserver_flags = PREVIEWS.map(str::to_owned).to_vec();
    ControlPlane::start(Options { apiserver_flags, ..Options::on(server) })
}

/// What a server says of an object: the code, and the causes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Verdict {
    code: u16,
    causes: BTreeSet<String>,
}

/// Asks a server what it would say of objects.
async fn verdicts(plane: &ControlPlane, objects: &[(&'static str, Value)]) -> Result<Vec<Result<Verdict>>> {
    let client = plane.client().await?.without_rate_limit();
    let mut verdicts = Vec::with_capacity(objects.len());
    for some in objects.chunks(AT_A_TIME) {
        let asked: Vec<_> = some
            .iter()
            .map(|(path, object)| tokio::spawn(verdict(client.clone(), path, object.clone())))
            .collect();
        for one in asked {
            verdicts.push(one.await?);
        }
    }
    Ok(verdicts)
}

async fn verdict(client: Client, path: &'static str, object: Value) -> Result<Verdict> {
    let request = client.rest("", "v1").post().absolute_path(path).param("dryRun", "All").json(&object);
    read(&request.send_any().await.with_context(|| format!("{path}: {object}"))?)
}

/// The verdict in an answer.
fn read(answer: &RestResponse) -> Result<Verdict> {
    let body: Value = answer.json()?;
    let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    let told = body["details"]["causes"].as_array().into_iter().flatten();
    let causes: BTreeSet<String> = told
        .filter(|cause| {
            let message = text(cause, "message");
            !message.ends_with(NO_ACCOUNT) && !NOT_SAID_HERE.iter().any(|what| message.contains(what))
        })
        .map(|cause| {
            let (reason, field, message) =
                (text(cause, "reason"), text(cause, "field"), text(cause, "message"));
            without_what_differs(&format!("{reason} {field}: {message}"))
        })
        .collect();
    let code = match answer.status().as_u16() {
        422 if causes.is_empty() => 201,
        code => code,
    };
    Ok(Verdict { code, causes })
}

/// The verdicts of the real server. It has a few panics, such as for a success policy without completions and for a capacity
/// in steps of nothing: then there is no answer, and the code is 0.
fn answered(verdicts: Vec<Result<Verdict>>) -> Result<Vec<Verdict>> {
    let silent = verdicts.iter().filter(|verdict| verdict.is_err()).count();
    ensure!(silent < verdicts.len() / 100, "{silent} objects were not answered by the real server");
    let none = |_| Verdict { code: 0, causes: BTreeSet::new() };
    Ok(verdicts.into_iter().map(|verdict| verdict.unwrap_or_else(none)).collect())
}

/// A text without what no two servers share, or what is lost when an object is read: the UIDs that each server makes itself, and
/// whether labels, a capacity or lists that are not there were written as `{}` or `[]`. Ports of nodes are given at random.
fn without_what_differs(text: &str) -> String {
    if let Some((place, _)) = text.split_once("nodePort: Duplicate value: ") {
        return place.to_owned();
    }
    let text = text
        .replace("Invalid value: {}: `selector` does", "Invalid value: null: `selector` does")
        .replace("spec.capacity: Unsupported value: {}:", "spec.capacity: Unsupported value: null:")
        .replace("Conditions: Invalid value: []: binding", "Conditions: Invalid value: null: binding")
        .replace(
            "Invalid value: []: either `defaultBackend`",
            "Invalid value: null: either `defaultBackend`",
        );
    let text = if text.contains("odeSelectorTerms") { text.replace("[]", "null") } else { text };
    // What is wrong with the form of a request, Go has other words for.
    if let Some((place, _)) = text.split_once(": asn1: ") {
        return place.to_owned();
    }
    let is_uid = |word: &str| {
        word.len() == 36
            && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
            && word.matches('-').count() == 4
    };
    text.split_inclusive(|c: char| !(c.is_ascii_hexdigit() || c == '-'))
        .map(|word| {
            let end = word.trim_end_matches(|c: char| !(c.is_ascii_hexdigit() || c == '-'));
            if is_uid(end) { word.replace(end, "UID") } else { word.to_owned() }
        })
        .collect()
}

fn broken_objects_are_refused_for_the_same_causes() -> Result<()> {
    let seed = full::seed(36)?;
    let mut random = Random(seed);
    let skeletons = all();
    let count = full::or_sample(FULL, SAMPLE);
    let mut objects: Vec<(&'static str, Value)> =
        skeletons.iter().map(|Skeleton { path, object }| (*path, object.clone())).collect();
    for Skeleton { path, object } in &skeletons {
        objects.extend(each_broken(object).into_iter().map(|object| (*path, object)));
        objects.extend((0..count).map(|_| (*path, broken(object, &mut random))));
    }
    objects.extend(wrong().into_iter().map(|Skeleton { path, object }| (path, object)));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ask = |server| -> Result<Vec<Result<Verdict>>> {
        let plane = start(server)?;
        runtime.block_on(verdicts(&plane, &objects))
    };
    let real = ask(Server::Real).context("on the real server")?;
    let ours = ask(Server::Development)?.into_iter().collect::<Result<Vec<_>>>();
    let ours = ours.context("on the development server")?;
    let real = answered(real)?;
    let wrong: Vec<&Value> = objects
        .iter()
        .zip(&real)
        .take(skeletons.len())
        .filter(|(_, real)| real.code != 201)
        .map(|((_, object), _)| object)
        .collect();
    let why: Vec<&Verdict> = real.iter().take(skeletons.len()).filter(|real| real.code != 201).collect();
    ensure!(wrong.is_empty(), "skeletons are refused: {wrong:?} {why:?}");

    let mut report = Report::default();
    for (((_, object), real), ours) in objects.iter().zip(&real).zip(&ours) {
        report.compare(object, real, ours);
    }
    report.judge(seed, 60)
}

fn broken_updates_are_refused_for_the_same_causes() -> Result<()> {
    updates::check()
}

/// What came of the comparison.
#[derive(Default)]
struct Report {
    refused: usize,
    compared: usize,
    different: usize,
    kinds: BTreeSet<String>,
    /// Each difference once, with how often there was one.
    differences: BTreeMap<String, usize>,
    example: String,
    shown: BTreeMap<String, usize>,
}

impl Report {
    fn compare(&mut self, object: &Value, real: &Verdict, ours: &Verdict) {
        // Admission looks up other objects, which is not what this is about; nor are objects that the real server gave no answer to.
        if matches!(real.code, 0 | 403) {
            return;
        }
        self.compared += 1;
        if real.code == 422 {
            self.refused += 1;
            self.kinds.insert(object["kind"].to_string());
        }
        if real == ours || real.causes == ours.causes && (real.code < 300) == (ours.code < 300) {
            return;
        }
        self.different += 1;
        let kind = object["kind"].as_str().unwrap_or_default();
        for cause in real.causes.difference(&ours.causes) {
            *self.differences.entry(format!("{kind}: not said: {cause}")).or_default() += 1;
        }
        for cause in ours.causes.difference(&real.causes) {
            *self.differences.entry(format!("{kind}: only said here: {cause}")).or_default() += 1;
        }
        if real.causes == ours.causes {
            *self.differences.entry(format!("{kind}: {} here {}", real.code, ours.code)).or_default() += 1;
        }
        let shown = self.shown.entry(kind.to_owned()).or_default();
        if *shown < SHOWN {
            *shown += 1;
            let _ = writeln!(self.example, "{object}\n--- real {real:?}\n--- ours {ours:?}\n");
        }
    }

    fn judge(self, seed: u64, least_kinds: usize) -> Result<()> {
        let Self { refused, compared, different, kinds, differences, example, .. } = self;
        eprintln!(
            "{compared} objects compared, {refused} refused, of {} kinds; {different} differ",
            kinds.len()
        );
        ensure!(refused > compared / 4 && kinds.len() >= least_kinds, "too little was refused");
        let list: Vec<String> = differences.iter().map(|(what, count)| format!("{count}x {what}")).collect();
        ensure!(
            different == 0,
            "{different} of {compared} objects differ, with {}={seed}:\n{}\n{example}",
            full::SEED,
            list.join("\n")
        );
        Ok(())
    }
}
