//! Random writes on both servers: the same creates, updates, patches, applies and deletes of some fifty kinds, and each answer
//! is compared whole: status code, refusal, warnings, and the object with defaults, generation and managed fields.
//!
//! The real server is the oracle. Nothing else writes: no controller runs on either server. An object on which the servers
//! have come to differ is deleted on both and made anew under another name, so that one difference has no others in its wake.
//!
//! `PILOTHOUSE_FULL=1` makes more steps, `PILOTHOUSE_SEED` repeats those of a run.

mod compare;
mod differences;
mod edit;
mod kinds;
mod report;
mod server;
mod step;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, ensure};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::full;

use compare::{Seen, compare};
use kinds::Kind;
use report::Report;
use server::{Answer, Side};
use step::{Generator, Mix, Step, Target};

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
struct Run {
    real: Side,
    development: Side,
    mix: Mix,
    seed: u64,
    slots: BTreeMap<(usize, usize), Slot>,
    report: Report,
}

fn run(mix: Mix, steps: usize) -> Result<()> {
    let seed = full::seed(SEED)?;
    let planes = [server::start(Server::Real)?, server::start(Server::Development)?];
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let [real, development] = &planes;
        let (real, development) = (Side::new(real).await?, Side::new(development).await?);
        let mut kinds = Kind::all()?;
        if mix == Mix::Writers {
            kinds.retain(|kind| SHARED.contains(&kind.kind.as_str()));
        }
        let began = Instant::now();
        let mut run = Run { real, development, mix, seed, slots: BTreeMap::new(), report: Report::default() };
        for number in 0..steps {
            // Each kind has its turn.
            let at = number % kinds.len();
            run.step(number, at, &kinds[at]).await?;
        }
        eprintln!("{steps} steps in {:?}: {}", began.elapsed(), run.report.figures());
        run.report.check(seed)?;
        ensure!(run.report.accepted > steps / 3, "too many steps were refused to show anything");
        Ok(())
    })
}

impl Run {
    async fn step(&mut self, number: usize, at: usize, kind: &Kind) -> Result<()> {
        let mut generator = Generator::new(self.seed, number, self.mix);
        let place = (at, generator.below(SLOTS));
        let slot = self.slots.entry(place).or_default();
        let name = format!("n{}-{}", place.1, slot.incarnation);
        let path = match generator.percent(60) {
            true => kind.paths[0].clone(),
            false => generator.pick(&kind.paths).unwrap_or_default(),
        };
        let part = generator.part(kind);
        let slash = if part.is_empty() || part == "finalize" { "" } else { "/" };
        let read = if part == "finalize" { "" } else { part.as_str() };
        let object_path = format!("{path}/{name}");
        let read_path = format!("{object_path}{slash}{read}");
        let before = self.both(&read_path).await?;
        let target = Target { kind, path: &path, name: &name, part: &part, current: before.0.object() };
        let step = generator.step(&target);
        let shown = show(&path, &step);
        let (real, development) = tokio::join!(
            self.real.make(&path, &step, before.0.object()),
            self.development.make(&path, &step, before.1.object()),
        );
        let answers = (real?, development?);
        self.report.count(&step, &answers.0);
        let versions = (before.0.version().to_owned(), before.1.version().to_owned());
        let is_generated = shown.contains("generateName\":\"made-");
        let seen = |answer, before| Seen { answer, before, is_generated };
        let mut difference = compare(&seen(&answers.0, &versions.0), &seen(&answers.1, &versions.1));
        let after = self.both(&object_path).await?;
        let mut poisoned = difference.is_some();
        if difference.is_none() {
            difference = compare(&seen(&after.0, &versions.0), &seen(&after.1, &versions.1));
            poisoned = difference.is_some();
        } else if compare(&seen(&after.0, &versions.0), &seen(&after.1, &versions.1)).is_none() {
            // They answer differently, and yet have the same object.
            poisoned = false;
        }
        let slot = self.slots.entry(place).or_default();
        slot.history.push(format!("{number} {shown} -> {}", answers.0.code));
        if let Some(difference) = difference {
            self.report.add(kind, &step, (&answers.0, &answers.1), difference, &slot.history);
        }
        if poisoned {
            slot.incarnation += 1;
            slot.history.clear();
            self.real.remove(&path, &name).await?;
            self.development.remove(&path, &name).await?;
        }
        Ok(())
    }

    async fn both(&self, path: &str) -> Result<(Answer, Answer)> {
        let (real, development) = tokio::join!(self.real.get(path), self.development.get(path));
        Ok((real?, development?))
    }
}

/// A step as people read it.
fn show(path: &str, step: &Step) -> String {
    let query: Vec<String> = step.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let body = match &step.body {
        step::Body::Text(text) => text.clone(),
        other => format!("{other:?}"),
    };
    let content_type = step.content_type.trim_start_matches("application/");
    format!("{} {path}{}?{} [{content_type}] {body}", step.method, step.below, query.join("&"))
}
