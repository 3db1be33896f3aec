//! [`Comparison`]: what a guest does now against what it did then, and the first [`Difference`].
//!
//! Values that a guest writes into Secrets are tokens in the recording, and are compared by their lengths and equalities: the
//! first value at a place of the same length is taken for the one of the token, from then on in each text. A secret that the
//! guest was given is never taken for another one.

use std::collections::{HashMap, HashSet};
use std::fmt;

use pilothouse_plugin::printable;
use serde_json::{Value, json};

use super::diff::{diff, one_line};
use super::tape::{Made, is_log};
use crate::format::{CallLine, Import, InstanceLine};
use crate::secrets::{Masker, secrets_of};

/// Imports before a difference that are shown.
const BEFORE: usize = 8;

/// The first difference between a recording and a replay.
#[derive(Debug)]
pub struct Difference {
    /// The plugin.
    pub plugin: String,
    /// Number of the instance in the recording.
    pub instance: u64,
    /// Number of the generation of the plugin.
    pub generation: u64,
    /// Number of the call among those of its instance; 0 is its start code.
    pub number: u64,
    /// Number of the call in the log of the host; 0 if it has none.
    pub call: u64,
    /// The export that was called.
    pub export: String,
    /// Key of the object, or of the first of several.
    pub key: Option<String>,
    /// What differs.
    pub what: String,
    /// The lines of both sides: with `-` those of the recording, with `+` those of now.
    pub lines: Vec<String>,
    /// What the guest did just before, in the same call.
    pub before: Vec<String>,
    /// Whether other random numbers are recorded in place of the guest's.
    pub random_masked: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plugin, instance, generation, number, export, .. } = self;
        write!(f, "plugin {plugin}, generation {generation}, instance {instance}, call {number}: {export}")?;
        if let Some(key) = &self.key {
            write!(f, " {key}")?;
        }
        if self.call > 0 {
            write!(f, " (call={} in the log of the host)", self.call)?;
        }
        writeln!(f, "\n{}", self.what)?;
        if !self.before.is_empty() {
            writeln!(f, "\nbefore it, the same as recorded:")?;
            self.before.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        }
        writeln!(f, "\n- recorded\n+ now")?;
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        if self.random_masked {
            writeln!(
                f,
                "\nThe plugin may write Secrets, so the recording has other random numbers than the guest had; see --record-secrets."
            )?;
        }
        Ok(())
    }
}

/// How a call ended.
pub(super) enum Ended {
    Same,
    /// It was cut by a limit of time then; it is the same up to there.
    Cut,
}

/// Compares the calls of one instance.
pub(super) struct Comparison<'a> {
    line: &'a InstanceLine,
    ignore_logs: bool,
    /// None where nothing is masked.
    masker: Option<Masker>,
    /// Tokens that the guest got now as it got their values then.
    given: HashSet<Vec<u8>>,
    /// The value that each token is taken for.
    paired: HashMap<Vec<u8>, Vec<u8>>,
}

/// Whether a recorded result is a fault that depends on the machine.
fn is_cut(result: &Value) -> bool {
    matches!(result.get("fault").and_then(Value::as_str), Some("cpu" | "deadline" | "waiting"))
}

impl<'a> Comparison<'a> {
    pub(super) fn new(line: &'a InstanceLine, is_masked: bool, ignore_logs: bool) -> Self {
        let mut comparison = Self {
            line,
            ignore_logs,
            masker: is_masked.then(Masker::of_pairs),
            given: HashSet::new(),
            paired: HashMap::new(),
        };
        comparison.give(&line.config);
        comparison
    }

    /// The guest gets the secrets of a value.
    fn give(&mut self, value: &Value) {
        if self.masker.is_some() {
            secrets_of(value, &mut |_, token| {
                self.given.insert(token);
            });
        }
    }

    /// A call whose arguments cannot be read.
    pub(super) fn unreadable(&self, call: &CallLine) -> Box<Difference> {
        let what = "the arguments of the call cannot be read".to_owned();
        self.difference(call, what, &[], &call.args, &Value::Null)
    }

    /// Compares a call.
    ///
    /// # Errors
    /// The first difference.
    pub(super) fn compare(
        &mut self,
        then: &CallLine,
        now: Vec<Made>,
        result: Value,
    ) -> Result<Ended, Box<Difference>> {
        let is_left_out = |import: &&Import| self.ignore_logs && is_log(&import.op);
        let imports: Vec<&Import> =
            then.effects.imports.iter().filter(|import| !is_left_out(import)).collect();
        // In the order in which it happened: what the guest wrote may come back in an answer.
        self.give(&then.args);
        for (at, import) in imports.iter().enumerate() {
            if let Some(now) = now.get(at).filter(|now| now.import.op == import.op) {
                self.pair(&import.args, &now.import.args);
            }
            if let Some(answer) = &import.answer {
                self.give(answer);
            }
        }
        self.pair(&then.result, &result);
        let now: Vec<Made> = now.into_iter().map(|made| self.masked(made)).collect();
        let mut result = result;
        if let Some(masker) = &mut self.masker {
            masker.mask(&mut result);
        }
        let is_cut = is_cut(&then.result);
        for (at, (recorded, made)) in imports.iter().zip(&now).enumerate() {
            let before = &imports[..at];
            if recorded.op != made.import.op {
                let what = format!("the guest calls {} in place of {}", made.import.op, recorded.op);
                let (then_value, now_value) = (shown(recorded), shown(&made.import));
                return Err(self.difference(then, what, before, &then_value, &now_value));
            }
            if recorded.args != made.import.args {
                let what = format!("the guest calls {} with other arguments", recorded.op);
                return Err(self.difference(then, what, before, &recorded.args, &made.import.args));
            }
            if let Some(beyond) = made.beyond
                && !is_cut
            {
                let what = format!("the guest {beyond}: {}", recorded.op);
                return Err(self.difference(then, what, before, &shown(recorded), &json!(beyond)));
            }
        }
        if is_cut {
            return Ok(Ended::Cut);
        }
        let same = imports.len().min(now.len());
        if let Some(more) = now.get(same) {
            let what =
                format!("the guest calls {}, where it made no further call of an import", more.import.op);
            let ended = json!({"result": then.result});
            return Err(self.difference(then, what, &imports[..same], &ended, &shown(&more.import)));
        }
        if let Some(missing) = imports.get(same) {
            let what = format!("the guest does not call {} any more", missing.op);
            let ended = json!({"result": result});
            return Err(self.difference(then, what, &imports[..same], &shown(missing), &ended));
        }
        // The message of a fault has addresses and the names of functions.
        let faults = (then.result.get("fault"), result.get("fault"));
        let is_same = match faults {
            (Some(then), Some(now)) => then == now,
            _ => then.result == result,
        };
        if !is_same {
            let what = "the result is another one".to_owned();
            return Err(self.difference(then, what, &imports, &then.result, &result));
        }
        Ok(Ended::Same)
    }

    /// Takes the secret values of what is done now for those whose tokens stand at the same places.
    fn pair(&mut self, then: &Value, now: &Value) {
        let Some(masker) = &mut self.masker else { return };
        let (mut tokens, mut values) = (Vec::new(), Vec::new());
        secrets_of(then, &mut |path, token| tokens.push((path, token)));
        if tokens.is_empty() {
            return;
        }
        secrets_of(now, &mut |path, value| values.push((path, value)));
        for (path, token) in tokens {
            let value = values.iter().find(|(place, _)| *place == path).map(|(_, value)| value);
            // Another secret that the guest was given is a difference. So is a second value for a token.
            if let Some(value) = value.filter(|value| **value != token && !self.given.contains(*value))
                && self.paired.entry(token.clone()).or_insert_with(|| value.clone()) == value
            {
                masker.pair(value, &token);
            }
        }
    }

    fn masked(&mut self, mut made: Made) -> Made {
        if let Some(masker) = &mut self.masker {
            masker.mask(&mut made.import.args);
        }
        made
    }

    fn difference(
        &self,
        call: &CallLine,
        what: String,
        before: &[&Import],
        then: &Value,
        now: &Value,
    ) -> Box<Difference> {
        let from = before.len().saturating_sub(BEFORE);
        let first = |list: &str, member: &str| {
            let first = call.args.get(list)?.get(0)?;
            let text = first.get(member)?.as_str()?;
            Some(text.to_owned())
        };
        let key = call.args.get("key").and_then(Value::as_str).map(str::to_owned);
        Box::new(Difference {
            plugin: self.line.plugin.clone(),
            instance: self.line.id,
            generation: self.line.generation,
            number: call.number,
            call: call.call,
            export: call.export.clone(),
            key: key.or_else(|| first("requests", "key")).or_else(|| first("events", "deleted")),
            what,
            lines: diff(then, now),
            before: before[from..].iter().map(|import| printable(&one_line(import))).collect(),
            random_masked: self.line.random_masked,
        })
    }
}

/// An import with its arguments.
fn shown(import: &Import) -> Value {
    json!({"import": import.op, "args": import.args})
}
