//! [`CallLog`]: the calls of the guest `probe`, read from the JSON log of a host.
//!
//! The probe logs `begin` and `end` of each reconcile. The host adds plugin, generation, key and call number to each
//! line and writes lines in the order of the events.
//!
//! [`CallLog::problems`] lists violations of these rules: no key is reconciled concurrently; a call ends on the
//! generation on which it began; after a generation has reconciled a key, no earlier generation begins a reconcile of
//! it; no call faults.

use std::collections::BTreeMap;

use anyhow::Context;
use jiff::Timestamp;

use crate::Host;
use crate::loglines::{self, Line};

/// One reconcile of the probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The key, as `namespace/name`.
    pub key: String,
    /// The generation on which the call began.
    pub generation: u64,
    /// Number of failures of the key before the call.
    pub attempt: u32,
    /// The reasons of the request.
    pub reasons: Vec<String>,
    /// The start of the call.
    pub began: Timestamp,
    /// The end of the call, if it has ended.
    pub ended: Option<Timestamp>,
}

/// All reconciles of a plugin, in order.
#[derive(Debug, Default)]
pub struct CallLog {
    /// The calls in the order of their start.
    pub calls: Vec<Call>,
    /// The violations of the rules. A call that has not ended is not a violation.
    pub problems: Vec<String>,
}

/// The running call of each key: its number and its index in the list.
type UnderWay = BTreeMap<String, (u64, usize)>;

impl CallLog {
    /// The calls of a plugin whose guest is the probe.
    pub fn of(host: &Host, plugin: &str) -> anyhow::Result<CallLog> {
        CallLog::read(&loglines::of_plugin(host, plugin))
    }

    /// The calls that began on a generation.
    pub fn on(&self, generation: u64) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(move |call| call.generation == generation)
    }

    /// Fails if a rule is violated or a call has not ended.
    pub fn check(&self) -> anyhow::Result<()> {
        let mut problems = self.problems.clone();
        let open = self.calls.iter().filter(|call| call.ended.is_none());
        problems.extend(open.map(|call| format!("{}: a call has not ended: {call:?}", call.key)));
        anyhow::ensure!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
        Ok(())
    }

    fn read(lines: &[Line]) -> anyhow::Result<CallLog> {
        let (mut log, mut under_way, mut newest) = (CallLog::default(), UnderWay::new(), BTreeMap::new());
        for line in lines {
            if !line.fault.is_empty() {
                under_way.remove(&line.key);
                log.problems.push(format!("{}: {}", line.key, line.message));
            }
            if line.target != "guest" {
                continue;
            }
            let understood = match line.message.as_str() {
                "begin" => log.begin(line, &mut under_way, &mut newest),
                "end" => log.end(line, &mut under_way),
                _ => Some(()),
            };
            understood.with_context(|| format!("the log line lacks something: {line:?}"))?;
        }
        Ok(log)
    }

    fn begin(
        &mut self,
        line: &Line,
        under_way: &mut UnderWay,
        newest: &mut BTreeMap<String, u64>,
    ) -> Option<()> {
        let (key, generation, number) = (&line.key, line.generation?, line.call?);
        if let Some((other, _)) = under_way.insert(key.clone(), (number, self.calls.len())) {
            self.problems.push(format!("{key}: call {number} began while call {other} was under way"));
        }
        let seen = newest.entry(key.clone()).or_insert(generation);
        if generation < *seen {
            self.problems.push(format!("{key}: call {number} began on generation {generation} after {seen}"));
        }
        *seen = generation.max(*seen);
        self.calls.push(Call {
            key: key.clone(),
            generation,
            attempt: line.field("attempt").parse().ok()?,
            reasons: line.field("reasons").split(',').map(str::to_owned).collect(),
            began: line.timestamp,
            ended: None,
        });
        Some(())
    }

    fn end(&mut self, line: &Line, under_way: &mut UnderWay) -> Option<()> {
        let (key, generation, number) = (&line.key, line.generation?, line.call?);
        match under_way.remove(key) {
            Some((begun, at)) if begun == number => {
                let call = &mut self.calls[at];
                call.ended = Some(line.timestamp);
                if call.generation != generation {
                    let began = call.generation;
                    self.problems.push(format!(
                        "{key}: call {number} began on generation {began} and ended on {generation}"
                    ));
                }
            }
            other => {
                self.problems.push(format!("{key}: call {number} ended, but under way was {other:?}"));
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
