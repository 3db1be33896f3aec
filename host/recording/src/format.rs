//! The file of a recording: one JSON object a line.
//!
//! ```text
//! {"recording": {"format": 1, …}}      the first line
//! {"instance": {"id": 1, …}}           an instance of a component, with what its start code did
//! {"call": {"instance": 1, …}}         a call of it, from its arguments to its result
//! {"end": {"reason": …}}               the recording ended before its host did
//! ```
//!
//! Invariant: a line is written whole, after all lines that it refers to.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use pilothouse_plugin::{HOME_CLUSTER, Limits};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The format that this crate writes, and the only one that it reads.
pub const FORMAT: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Line {
    Recording(Header),
    Instance(Box<InstanceLine>),
    Call(Box<CallLine>),
    End(EndLine),
}

/// What the whole file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Header {
    pub(crate) format: u32,
    /// Version of the host.
    pub(crate) host: String,
    /// When it began, RFC 3339.
    pub(crate) time: String,
    /// The plugins that are recorded; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) plugins: Vec<String>,
    /// Whether tokens stand in place of secret values.
    pub(crate) masked: bool,
}

/// One instance of a component.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceLine {
    pub(crate) id: u64,
    pub(crate) plugin: String,
    pub(crate) generation: u64,
    /// `sha256:…` of the component.
    pub(crate) digest: String,
    pub(crate) world: String,
    pub(crate) contract: String,
    pub(crate) limits: LimitsLine,
    /// The names of the clusters that the plugin accesses, by their numbers.
    #[serde(default = "home")]
    pub(crate) clusters: Vec<String>,
    /// The configuration, as a body.
    pub(crate) config: Value,
    /// The least level of a log line that is written; none: no line is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<String>,
    /// Whether other random numbers than the guest's are recorded in place of the secure ones.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) random_masked: bool,
    /// `wasi:random/insecure-seed`, in hexadecimal.
    pub(crate) seed: String,
    /// Why it could not be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<Value>,
    /// What the start code did.
    #[serde(default)]
    pub(crate) start: Effects,
}

/// The limits on which answers depend. Those of time are the replay's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitsLine {
    memory: usize,
    get_many_pointers: usize,
    page_objects: usize,
    answer_bytes: usize,
    handle_bytes: usize,
    log_bytes: usize,
}

impl From<Limits> for LimitsLine {
    fn from(limits: Limits) -> Self {
        let Limits { memory, get_many_pointers, page_objects, answer_bytes, handle_bytes, log_bytes, .. } =
            limits;
        Self { memory, get_many_pointers, page_objects, answer_bytes, handle_bytes, log_bytes }
    }
}

impl LimitsLine {
    /// These limits, and `time` for a call.
    pub(crate) fn with_time(self, time: Duration) -> Limits {
        let Self { memory, get_many_pointers, page_objects, answer_bytes, handle_bytes, log_bytes } = self;
        Limits {
            call_timeout: time,
            cpu_per_call: time,
            memory: memory.min(Limits::MAX_MEMORY),
            get_many_pointers,
            page_objects,
            answer_bytes,
            handle_bytes,
            log_bytes,
        }
    }
}

/// One call of a guest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallLine {
    pub(crate) instance: u64,
    /// Number of the call among those of its instance, from 1.
    pub(crate) number: u64,
    /// Number of the call in the log of the host; 0 for calls that have none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) call: u64,
    pub(crate) export: String,
    pub(crate) args: Value,
    #[serde(flatten)]
    pub(crate) effects: Effects,
    pub(crate) result: Value,
}

/// What a guest did in a call, and what it got from clocks and random numbers.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Effects {
    /// Calls of imports, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) imports: Vec<Import>,
    /// Readings of the wall clock, in nanoseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) wall: Vec<u64>,
    /// Readings of the monotonic clock, in nanoseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) monotonic: Vec<u64>,
    /// Secure random bytes in base64, joined.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) random: String,
    /// Insecure random bytes in base64, joined.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) insecure: String,
}

/// A call of an import.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Import {
    pub(crate) op: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) args: Value,
    /// None where the call ended before there was one, and where an import answers nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<Value>,
}

/// Why a recording ended before its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndLine {
    pub(crate) reason: String,
    pub(crate) kept: u64,
}

/// The clusters of an instance that was recorded before there were others.
fn home() -> Vec<String> {
    vec![HOME_CLUSTER.to_owned()]
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Why a file cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// Its first line is not that of a recording.
    #[error("it is no recording; `pilothouse run --record FILE` makes one")]
    NoRecording,
    /// It was made by another version.
    #[error(
        "it has format {format}, and this version reads format {FORMAT}: replay it with pilothouse {host}, which recorded it"
    )]
    OtherFormat {
        /// The format of the file.
        format: u32,
        /// The version of its host.
        host: String,
    },
    /// A line in the middle is not of the format.
    #[error("line {line} is damaged: {reason}")]
    Damaged {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

/// A recording that was read.
#[derive(Debug)]
pub struct Recording {
    pub(crate) header: Header,
    pub(crate) instances: Vec<RecordedInstance>,
    end: Option<EndLine>,
    is_cut: bool,
}

#[derive(Debug)]
pub(crate) struct RecordedInstance {
    pub(crate) line: InstanceLine,
    pub(crate) calls: Vec<CallLine>,
}

/// The part of the first line that all formats have.
#[derive(Deserialize)]
struct AnyHeader {
    recording: AnyFormat,
}

#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
    #[serde(default)]
    host: String,
}

impl Recording {
    /// Reads a file. A last line that is cut is left out.
    ///
    /// # Errors
    /// When the file cannot be read, is no recording, or one of another format, or a line before the last is damaged.
    pub fn read(path: &Path) -> Result<Self, FormatError> {
        Self::parse(&std::fs::read(path)?)
    }

    /// As [`read`](Self::read), from the content of a file.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate();
        let (_, first) = lines.next().ok_or(FormatError::NoRecording)?;
        let any: AnyHeader = serde_json::from_slice(first).map_err(|_| FormatError::NoRecording)?;
        let AnyFormat { format, host } = any.recording;
        if format != FORMAT {
            return Err(FormatError::OtherFormat { format, host });
        }
        let Ok(Line::Recording(header)) = serde_json::from_slice(first) else {
            return Err(FormatError::NoRecording);
        };
        let mut instances: Vec<RecordedInstance> = Vec::new();
        let mut places: BTreeMap<u64, usize> = BTreeMap::new();
        let (mut end, mut is_cut) = (None, !first.ends_with(b"\n"));
        for (number, line) in lines {
            let damaged = |reason: String| FormatError::Damaged { line: number + 1, reason };
            if !line.ends_with(b"\n") {
                is_cut = true;
                break;
            }
            match serde_json::from_slice(line).map_err(|error| damaged(error.to_string()))? {
                Line::Recording(_) => return Err(damaged("it begins another recording".to_owned())),
                Line::Instance(line) => {
                    places.insert(line.id, instances.len());
                    instances.push(RecordedInstance { line: *line, calls: Vec::new() });
                }
                Line::Call(call) => {
                    let place = places.get(&call.instance);
                    let place = place.ok_or_else(|| damaged("its instance is unknown".to_owned()))?;
                    instances[*place].calls.push(*call);
                }
                Line::End(line) => end = Some(line),
            }
        }
        Ok(Self { header, instances, end, is_cut })
    }

    /// The names of the plugins in it, sorted.
    #[must_use]
    pub fn plugins(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.instances.iter().map(|instance| &*instance.line.plugin).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Number of calls.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.instances.iter().map(|instance| instance.calls.len()).sum()
    }

    /// Why it has not all that its host did, if it has not.
    #[must_use]
    pub fn incomplete(&self) -> Option<String> {
        match &self.end {
            Some(end) => Some(end.reason.clone()),
            None => self.is_cut.then(|| "its last line is cut".to_owned()),
        }
    }
}
