//! [`Report`]: the differences that were found, those of one sort together.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, ensure};

use super::compare::Difference;
use super::kinds::Kind;
use super::step::Step;
use crate::sides::{Answer, NONE};

/// How many sorts of differences are shown.
const SHOWN: usize = 200;
/// How many earlier steps on the object are shown.
const HISTORY: usize = 4;
/// How much of a step is shown.
const STEP: usize = 1_500;
/// And of one before it.
const EARLIER: usize = 300;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Report {
    steps: usize,
    pub(super) accepted: usize,
    by_verb: BTreeMap<String, usize>,
    refusals: BTreeMap<u16, usize>,
    different: BTreeMap<String, (usize, String)>,
}

impl Report {
    pub(super) fn count(&mut self, step: &Step, real: &Answer) {
        self.steps += 1;
        let of = step.content_type.trim_start_matches("application/").trim_end_matches("+json");
        let verb = if step.method == "PATCH" { of } else { step.method };
        *self.by_verb.entry(verb.to_owned()).or_default() += 1;
        match real.object() {
            Some(_) => self.accepted += 1,
            None => *self.refusals.entry(real.code).or_default() += 1,
        }
    }

    pub(super) fn add(
        &mut self,
        kind: &Kind,
        step: &Step,
        (real, development): (&Answer, &Answer),
        difference: &Difference,
        history: &[String],
    ) {
        let sort = format!(
            "{} {} {}/{} {}",
            kind.kind,
            step.method,
            real.code,
            development.code,
            difference.signature()
        );
        let found = self.different.entry(sort).or_default();
        found.0 += 1;
        if found.0 > 1 {
            return;
        }
        let text = &mut found.1;
        let shown = &history[history.len().saturating_sub(HISTORY)..];
        for (index, step) in shown.iter().enumerate() {
            let length = if index + 1 == shown.len() { STEP } else { EARLIER };
            let _ = writeln!(text, "    {}", step.chars().take(length).collect::<String>());
        }
        text.push_str(&difference.show());
    }

    /// How many steps the real server gave no answer to.
    pub(super) fn silent(&self) -> usize {
        self.refusals.get(&NONE).copied().unwrap_or_default()
    }

    /// What was done, in a line.
    pub(super) fn figures(&self) -> String {
        let different: usize = self.different.values().map(|(count, _)| count).sum();
        format!(
            "{} accepted, refused {:?}, {:?}, different {different}",
            self.accepted, self.refusals, self.by_verb
        )
    }

    /// Fails if there is a difference.
    pub(super) fn check(&self, seed: u64) -> Result<()> {
        let mut text = String::new();
        for (sort, (count, example)) in self.different.iter().take(SHOWN) {
            let _ = writeln!(text, "\n{count} × {sort}\n{example}");
        }
        ensure!(
            self.different.is_empty(),
            "{} sorts of differences with PILOTHOUSE_SEED={seed}:\n{text}",
            self.different.len()
        );
        Ok(())
    }
}
