//! What is refused of the kinds that controllers write: objects with which nothing is wrong are broken and sent to both servers,
//! as new ones and as updates; new ones are broken at random too. Both servers accept an object, or both refuse it for the same
//! reason and the same fields.

mod breaks;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use breaks::{Random, broken, each_broken};
use pilothouse_testkit::full;
use serde::Deserialize;
use serde_json::{Value, json};

use super::sides::{Answer, Both, DEFINITIONS, NONE, Side, Verdict};

pilothouse_tests::on_the_real_server!(broken_objects_are_refused_for_the_same_fields);

/// How often each object is broken at random.
const SAMPLE: usize = 40;
const FULL: usize = 1000;
/// How many objects are sent before an answer is waited for.
const AT_A_TIME: usize = 8;
/// The group of the definition that is broken, and that of the one whose objects are.
const GROUPS: [&str; 2] = ["sky.example", "wind.example"];

/// What only a server says that fills in no service accounts, as this control plane's does not.
const NO_ACCOUNT: &str = "must not be specified when serviceAccountName is not set";

/// The objects of a collection.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Collection {
    kind: String,
    objects: BTreeMap<String, Value>,
}

/// An object with which nothing is wrong, and the path of the collection that it is made in.
struct Skeleton {
    path: String,
    object: Value,
}

/// An object that is sent, as a new one or to take the place of another.
struct Sent {
    path: String,
    is_update: bool,
    object: Value,
}

fn skeletons() -> Result<Vec<Skeleton>> {
    let collections: BTreeMap<String, Collection> =
        serde_saphyr::from_str(include_str!("validation/objects.yaml")).context("the objects")?;
    let mut skeletons = Vec::new();
    for (path, Collection { kind, objects }) in collections {
        let parts: Vec<&str> = path.split('/').collect();
        let version =
            if parts[1] == "api" { parts[2].to_owned() } else { format!("{}/{}", parts[2], parts[3]) };
        for (name, mut object) in objects {
            object["apiVersion"] = version.as_str().into();
            object["kind"] = kind.as_str().into();
            object["metadata"] = json!({
                "name": name, "labels": {"app": "a"}, "annotations": {"example.com/note": "b"},
            });
            skeletons.push(Skeleton { path: path.clone(), object });
        }
    }
    Ok(skeletons)
}

fn broken_objects_are_refused_for_the_same_fields() -> Result<()> {
    let seed = full::seed(36)?;
    let mut random = Random(seed);
    let skeletons = skeletons()?;
    let count = full::or_sample(FULL, SAMPLE);
    let mut sent = Vec::new();
    for is_update in [false, true] {
        for Skeleton { path, object } in &skeletons {
            let mut objects = vec![object.clone()];
            objects.extend(each_broken(object));
            if !is_update {
                objects.extend((0..count).map(|_| broken(object, &mut random)));
            }
            sent.extend(objects.into_iter().map(|object| Sent { path: path.clone(), is_update, object }));
        }
    }
    let both = Both::start()?;
    let (real, ours) = both.each(async |side| answers(side, &skeletons, &sent).await)?;
    let silent = real.iter().filter(|answer| answer.code == NONE).count();
    ensure!(silent < real.len() / 100, "{silent} objects were not answered by the real server");

    let mut report = Report::default();
    for ((sent, real), ours) in sent.iter().zip(&real).zip(&ours) {
        report.compare(sent, real, ours);
    }
    report.judge(seed)
}

/// What a server would say of objects.
async fn answers(side: &Side, skeletons: &[Skeleton], sent: &[Sent]) -> Result<Vec<Answer>> {
    let definition = skeletons.iter().find(|one| one.object["kind"] == "CustomResourceDefinition");
    let definition = &definition.context("no definition")?.object;
    let [broken, other] = GROUPS.map(|group| format!("/apis/{group}/v1/namespaces/default/kites"));
    let of_other = definition.to_string().replace(GROUPS[0], GROUPS[1]);
    side.define(&serde_json::from_str(&of_other)?, &other).await?;
    let (created, updated) = sent.split_at(sent.partition_point(|sent| !sent.is_update));
    let mut versions = BTreeMap::new();
    let mut answers = ask(side, created, &versions).await?;
    for Skeleton { path, object } in skeletons {
        let one = one(path, object);
        if path == DEFINITIONS {
            side.define(object, &broken).await?;
        } else {
            side.make(path, object).await?;
        }
        // That of a definition has changed until it is served.
        let version = side.get(&one).await?.version().to_owned();
        versions.insert(one, version);
    }
    answers.extend(ask(side, updated, &versions).await?);
    Ok(answers)
}

/// The path of an object.
fn one(path: &str, object: &Value) -> String {
    format!("{path}/{}", object["metadata"]["name"].as_str().unwrap_or_default())
}

/// Sends objects, as updates of these versions if they are some.
async fn ask(side: &Side, sent: &[Sent], versions: &BTreeMap<String, String>) -> Result<Vec<Answer>> {
    let mut answers = Vec::with_capacity(sent.len());
    for some in sent.chunks(AT_A_TIME) {
        let mut asked = Vec::with_capacity(AT_A_TIME);
        for Sent { path, is_update, object } in some {
            let (side, mut path, mut object) = (side.clone(), path.clone(), object.clone());
            let method = if *is_update { "PUT" } else { "POST" };
            if *is_update {
                path = one(&path, &object);
                object["metadata"]["resourceVersion"] = versions[&path].as_str().into();
            }
            asked.push(tokio::spawn(async move {
                side.write(method, &path, &[("dryRun", "All".to_owned())], &object).await
            }));
        }
        for one in asked {
            let mut answer = one.await??;
            // What was accepted is not compared, and would be much.
            if answer.object().is_some() {
                answer.body.take();
            }
            answers.push(answer);
        }
    }
    Ok(answers)
}

/// What a server with service accounts would have said. Of definitions, `schemas` compares the fields.
fn verdict(answer: &Answer) -> Verdict {
    let mut answer = answer.clone();
    if answer.body["details"]["kind"] == "CustomResourceDefinition" {
        answer.body["details"] = Value::Null;
    }
    if let Some(Value::Array(causes)) = answer.body.pointer_mut("/details/causes") {
        causes.retain(|cause| !cause["message"].as_str().is_some_and(|said| said.ends_with(NO_ACCOUNT)));
        if causes.is_empty() {
            return Verdict::Accepted;
        }
    }
    answer.verdict()
}

/// What came of the comparison.
#[derive(Default)]
struct Report {
    refused: usize,
    compared: usize,
    different: usize,
    kinds: BTreeSet<String>,
    /// Each difference once, with how often there was one, and the first.
    differences: BTreeMap<String, (usize, String)>,
}

impl Report {
    fn compare(&mut self, sent: &Sent, answer: &Answer, our_answer: &Answer) {
        // Admission looks up other objects, which is not what this is about.
        if matches!(answer.code, NONE | 403) {
            return;
        }
        self.compared += 1;
        let kind = sent.object["kind"].as_str().unwrap_or_default();
        if answer.code == 422 {
            self.refused += 1;
            self.kinds.insert(kind.to_owned());
        }
        let (real, ours) = (verdict(answer), verdict(our_answer));
        if real == ours {
            return;
        }
        self.different += 1;
        let update = if sent.is_update { "update of " } else { "" };
        let what = match (&real, &ours) {
            (Verdict::Refused { fields, .. }, Verdict::Refused { fields: our_fields, .. })
                if fields != our_fields =>
            {
                let missing: Vec<_> = fields.difference(our_fields).collect();
                let more: Vec<_> = our_fields.difference(fields).collect();
                format!("{update}{kind}: not said {missing:?}, only said here {more:?}")
            }
            _ => format!("{update}{kind}: {real:?} here {ours:?}"),
        };
        let (count, example) = self.differences.entry(what).or_default();
        *count += 1;
        if *count == 1 {
            let [real, ours] = [answer, our_answer].map(|answer| &answer.body["message"]);
            *example = format!("{}\n--- real {real}\n--- ours {ours}", sent.object);
        }
    }

    fn judge(self, seed: u64) -> Result<()> {
        let Self { refused, compared, different, kinds, differences } = self;
        eprintln!(
            "{compared} objects compared, {refused} refused, of {} kinds; {different} differ",
            kinds.len()
        );
        // Of each kind something is refused.
        ensure!(refused > compared / 5 && kinds.len() >= 28, "too little was refused");
        let mut list = String::new();
        for (what, (count, example)) in &differences {
            let _ = writeln!(list, "\n{count}x {what}\n{example}");
        }
        let variable = full::SEED;
        ensure!(different == 0, "{different} of {compared} objects differ, with {variable}={seed}:\n{list}");
        Ok(())
    }
}
