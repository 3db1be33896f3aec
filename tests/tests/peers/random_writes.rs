//! Random writes on both servers: the same creates, updates, patches, applies and deletes of the kinds that controllers write,
//! and each answer is compared: refused or not and of which fields, and the object with defaults, generation and managed fields.
//!
//! The real server is the oracle. An object on which the servers have come to differ is deleted on both and made anew under
//! another name, so that one difference has no others in its wake.
//!
//! `PILOTHOUSE_FULL=1` makes more steps, `PILOTHOUSE_SEED` repeats those of a run.

mod compare;
mod edit;
mod kinds;
mod report;
mod step;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, ensure};
use pilothouse_tests::full;
use serde_json::{Value, json};

use super::sides::{Answer, Both, NONE, Request, Side};
use compare::{Seen, compare};
use edit::{Edit, text};
use kinds::{Kind, NAMESPACE};
use report::Report;
use step::{Body, Generator, Mix, Step, Target, Version};

pilothouse_tests::on_the_real_server!(
    random_writes_are_answered_alike,
    random_sequences_of_writers_are_answered_alike,
);

const SEED: u64 = 19;
/// Objects of each kind.
const SLOTS: usize = 2;
/// Kinds on which writers meet: with lists of all sorts, with and without schemas.
const SHARED: [&str; 9] = [
    "Deployment",
    "Service",
    "Pod",
    "ConfigMap",
    "StatefulSet",
    "Gadget",
    "Blob",
    "HorizontalPodAutoscaler",
    "Ingress",
];

fn random_writes_are_answered_alike() -> Result<()> {
    run(Mix::Everything, full::or_sample(4_000, 600))
}

fn random_sequences_of_writers_are_answered_alike() -> Result<()> {
    run(Mix::Writers, full::or_sample(10_000, 300))
}

/// An object that is written again and again; its name changes when the servers have come to differ on it.
#[derive(Debug, Default)]
struct Slot {
    incarnation: usize,
    history: Vec<String>,
}

/// Both servers, and what was written so far.
struct Run<'a> {
    both: &'a Both,
    mix: Mix,
    seed: u64,
    slots: BTreeMap<(usize, usize), Slot>,
    report: Report,
}

fn run(mix: Mix, steps: usize) -> Result<()> {
    let seed = full::seed(SEED)?;
    let both = Both::start()?;
    let definitions = kinds::definitions()?;
    both.each(async |side| {
        side.make_namespace(NAMESPACE).await?;
        for (definition, served) in definitions.iter().zip([kinds::GADGETS, kinds::BLOBS]) {
            side.define(definition, served).await?;
        }
        Ok(())
    })?;
    let mut kinds = Kind::all()?;
    if mix == Mix::Writers {
        kinds.retain(|kind| SHARED.contains(&kind.kind.as_str()));
    }
    let began = Instant::now();
    let mut run = Run { both: &both, mix, seed, slots: BTreeMap::new(), report: Report::default() };
    for number in 0..steps {
        // Each kind has its turn.
        let at = number % kinds.len();
        run.step(number, at, &kinds[at])?;
    }
    eprintln!("{steps} steps in {:?}: {}", began.elapsed(), run.report.figures());
    run.report.check(seed)?;
    ensure!(run.report.silent() < steps / 50, "too few steps were answered by the real server");
    ensure!(run.report.accepted > steps / 3, "too many steps were refused to show anything");
    Ok(())
}

impl Run<'_> {
    fn step(&mut self, number: usize, at: usize, kind: &Kind) -> Result<()> {
        let mut generator = Generator::new(self.seed, number, self.mix);
        let place = (at, generator.below(SLOTS));
        let slot = self.slots.entry(place).or_default();
        let name = format!("n{}-{}", place.1, slot.incarnation);
        let path = match generator.percent(60) {
            true => kind.paths[0].clone(),
            false => generator.pick(&kind.paths).unwrap_or_default(),
        };
        let part = generator.part(kind);
        let object_path = format!("{path}/{name}");
        let of_part = if part.is_empty() { String::new() } else { format!("{object_path}/{part}") };
        let whole = self.get(&object_path)?;
        let before = if of_part.is_empty() { whole.clone() } else { self.get(&of_part)? };
        let target = Target { kind, path: &path, name: &name, part: &part, current: before.0.object() };
        let step = generator.step(&target);
        let shown = show(&path, &step);
        let answers = self.both.each(async |side| {
            let current = if side.server == self.both.real.server { &before.0 } else { &before.1 };
            make(side, &path, &step, current.object()).await
        })?;
        self.report.count(&step, &answers.0);
        let is_generated = shown.contains("generateName\":\"made-");
        let different = |answers: &(Answer, Answer), before: &(Answer, Answer)| {
            let seen = |answer, before| Seen { answer, before, is_generated };
            compare(&seen(&answers.0, &before.0), &seen(&answers.1, &before.1))
        };
        let after = self.get(&object_path)?;
        let of_object = different(&after, &whole);
        // They may answer differently, and yet have the same object.
        let silent = answers.0.code == NONE;
        let poisoned = of_object.is_some() || silent;
        let difference = different(&answers, &before).or(of_object).filter(|_| !silent);
        let slot = self.slots.entry(place).or_default();
        slot.history.push(format!("{number} {shown} -> {}", answers.0.code));
        if let Some(difference) = difference {
            self.report.add(kind, &step, (&answers.0, &answers.1), &difference, &slot.history);
        }
        if poisoned {
            slot.incarnation += 1;
            slot.history.clear();
            self.both.each(async |side| remove(side, &object_path).await)?;
        }
        Ok(())
    }

    fn get(&self, path: &str) -> Result<(Answer, Answer)> {
        self.both.each(async |side| side.get(path).await)
    }
}

/// Makes a step, given what this server has where the step leads.
async fn make(side: &Side, collection: &str, step: &Step, current: Option<&Value>) -> Result<Answer> {
    let nothing = Value::Null;
    let current = current.unwrap_or(&nothing);
    let version = |version: Version| -> Value {
        match version {
            Version::Current => current["metadata"]["resourceVersion"].clone(),
            Version::None => Value::Null,
            Version::Stale => "1".into(),
            Version::Malformed => "new".into(),
        }
    };
    let (content_type, body) = match &step.body {
        Body::None => ("", String::new()),
        Body::Text(text) => (step.content_type, text.clone()),
        Body::Changed { edits, version: of } => {
            let mut object = current.clone();
            edits.iter().for_each(|edit| edit.apply(&mut object));
            Edit::new("/metadata/resourceVersion", &version(*of)).apply(&mut object);
            (step.content_type, text(&object))
        }
        Body::Options { options, uid, version: of } => {
            let mut options = options.clone();
            if *uid {
                options["preconditions"]["uid"] = current["metadata"]["uid"].clone();
            }
            if *of != Version::None {
                options["preconditions"]["resourceVersion"] = version(*of);
            }
            (step.content_type, options.to_string())
        }
    };
    let path = format!("{collection}{}", step.below);
    side.send(Request { method: step.method, path: &path, query: &step.query, content_type, body }).await
}

/// Removes an object, whatever it waits for, as far as that can be done.
async fn remove(side: &Side, path: &str) -> Result<()> {
    side.merge(path, &json!({"metadata": {"finalizers": null}})).await?;
    let now = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
    side.write("DELETE", path, &[], &now).await?;
    Ok(())
}

/// A step as people read it.
fn show(path: &str, step: &Step) -> String {
    let query: Vec<String> = step.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let body = match &step.body {
        Body::Text(text) => text.clone(),
        other => format!("{other:?}"),
    };
    let content_type = step.content_type.trim_start_matches("application/");
    format!("{} {path}{}?{} [{content_type}] {body}", step.method, step.below, query.join("&"))
}
