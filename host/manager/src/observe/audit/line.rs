//! [`AuditLine`]: what a line of the audit has.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use pilothouse_client::Error;
use pilothouse_object::ObjectKey;
use serde::{Serialize, Serializer};

/// Most bytes of a text that a plugin or a server chooses: the longest name that the API has.
const LONGEST: usize = 253;
/// Most bytes of a key: a namespace and such a name.
const LONGEST_AUDITED_KEY: usize = 63 + 1 + LONGEST;

/// When a write began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Began {
    time: Timestamp,
    at: Instant,
}

impl Began {
    pub(crate) fn now() -> Self {
        Self { time: Timestamp::now(), at: Instant::now() }
    }

    /// By the clock that never goes back.
    pub(crate) fn at(&self) -> Instant {
        self.at
    }
}

/// A write, as it is sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Write<'a> {
    /// The key that the plugin reconciles, where it writes for one.
    pub(crate) key: Option<&'a ObjectKey>,
    /// Number of the plugin's call; 0 outside of one.
    pub(crate) call: u64,
    /// The remote cluster that it goes to; none: that of the run.
    pub(crate) cluster: Option<&'a str>,
    /// `create`, `update`, `patch`, `apply`, `delete` or `deletecollection`.
    pub(crate) verb: &'static str,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    /// The plural.
    pub(crate) resource: &'a str,
    pub(crate) subresource: Option<&'a str>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) dry_run: bool,
    /// The resourceVersion that the write demands of the stored object.
    pub(crate) demanded_version: Option<&'a str>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// The API server did it.
    Done,
    /// The API server answered an error.
    Refused,
    /// The API server has certainly not got it.
    Unsent,
    /// There was no answer, or none that could be read: it may have been done.
    Unknown,
}

/// How a write ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// HTTP status code of an error.
    pub(crate) code: Option<u16>,
    /// Reason of an error.
    pub(crate) reason: Option<String>,
    /// The name that the server gave, for a create with `generateName`.
    pub(crate) name: Option<String>,
    /// The resourceVersion of the written object.
    pub(crate) version: Option<String>,
}

impl Ended {
    /// One that was done, and what is known of the object.
    pub(crate) fn done(name: Option<String>, version: Option<String>) -> Self {
        Self { outcome: Outcome::Done, code: None, reason: None, name, version }
    }

    /// One that was not, with the reason in a word.
    pub(crate) fn failed(outcome: Outcome, reason: Option<&str>) -> Self {
        Self { outcome, code: None, reason: reason.map(clip), name: None, version: None }
    }
}

impl From<&Error> for Ended {
    fn from(error: &Error) -> Self {
        match error {
            Error::Api(status) => {
                let reason = Some(&*status.reason).filter(|reason| !reason.is_empty());
                Self { code: Some(status.code), ..Self::failed(Outcome::Refused, reason) }
            }
            Error::Transport { unsent: false, .. } | Error::Protocol { .. } | Error::Event { .. } => {
                Self::failed(Outcome::Unknown, None)
            }
            Error::Transport { .. } | Error::Config(_) | Error::Request(_) => {
                Self::failed(Outcome::Unsent, None)
            }
        }
    }
}

/// A line.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuditLine {
    #[serde(serialize_with = "shown")]
    time: Timestamp,
    #[serde(serialize_with = "shown")]
    plugin: Arc<str>,
    generation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subresource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "shown_if_any")]
    user: Option<Arc<str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
    outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    milliseconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version_before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

impl AuditLine {
    pub(super) fn new(
        plugin: Arc<str>,
        generation: u64,
        user: Option<Arc<str>>,
        began: Began,
        write: Write<'_>,
        ended: Ended,
    ) -> Self {
        let some = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(clip);
        Self {
            time: began.time,
            plugin,
            generation,
            key: write.key.map(|key| clip_at(key.as_str(), LONGEST_AUDITED_KEY)),
            call: Some(write.call).filter(|call| *call > 0),
            cluster: some(write.cluster),
            verb: write.verb,
            group: clip(write.group),
            version: clip(write.version),
            resource: clip(write.resource),
            subresource: some(write.subresource),
            namespace: some(write.namespace),
            name: some(ended.name.as_deref().or(write.name)),
            user,
            dry_run: write.dry_run,
            outcome: ended.outcome,
            code: ended.code,
            reason: ended.reason,
            milliseconds: began.at.elapsed().as_secs_f64() * 1e3,
            resource_version_before: some(write.demanded_version),
            resource_version: some(ended.version.as_deref()),
        }
    }
}

/// The line in place of those that were dropped.
#[derive(Serialize)]
pub(super) struct Gap {
    pub(super) time: String,
    pub(super) dropped: u64,
}

fn clip(text: &str) -> String {
    clip_at(text, LONGEST)
}

fn clip_at(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

fn shown<T: std::fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn shown_if_any<S: Serializer>(value: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_deref().serialize(serializer)
}
