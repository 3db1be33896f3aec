//! The audit: one event of the log for each write that a plugin sends to the API server, with a target of its own.
//!
//! Invariants: an event has names and the result, and nothing of a body or an answer; texts that a plugin, a server or a user of
//! the cluster chooses are cut. What the host refuses is not sent and is not here: it is in the log and the metrics as denied.
//! Outgoing HTTP is no write to the cluster and is not here either. Where the filter of the log does not name the target, a
//! write costs one look at the filter.

use pilothouse_client::Error;
use pilothouse_object::ObjectKey;

/// Target of the debug event that is written for each write of a plugin.
pub const AUDIT: &str = "pilothouse::audit";

/// Most bytes of a text: the longest name that the API has.
pub(crate) const LONGEST: usize = 253;
/// Most bytes of a key: a namespace and such a name.
const LONGEST_KEY: usize = 63 + 1 + LONGEST;

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
    /// The plural.
    pub(crate) resource: &'a str,
    pub(crate) subresource: Option<&'a str>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) dry_run: bool,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended<'a> {
    pub(crate) result: WriteResult,
    /// HTTP status code of an error.
    pub(crate) code: Option<u16>,
    /// Reason of an error.
    pub(crate) reason: Option<&'a str>,
    /// The name that the server gave, for a create with `generateName`.
    pub(crate) name: Option<&'a str>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteResult {
    /// The API server did it.
    Done,
    /// The API server answered an error.
    Refused,
    /// The API server has certainly not got it.
    Unsent,
    /// There was no answer, or none that could be read: it may have been done.
    Unknown,
}

impl WriteResult {
    fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Unsent => "unsent",
            Self::Unknown => "unknown",
        }
    }
}

impl<'a> Ended<'a> {
    /// One that was done, and the name of its object where it is known.
    pub(crate) fn done(name: Option<&'a str>) -> Self {
        Self { result: WriteResult::Done, code: None, reason: None, name }
    }

    /// One that was not, with the reason in a word.
    pub(crate) fn failed(result: WriteResult, reason: Option<&'a str>) -> Self {
        Self { result, code: None, reason, name: None }
    }
}

impl<'a> From<&'a Error> for Ended<'a> {
    fn from(error: &'a Error) -> Self {
        match error {
            Error::Api(status) => {
                let reason = Some(&*status.reason).filter(|reason| !reason.is_empty());
                Self { code: Some(status.code), ..Self::failed(WriteResult::Refused, reason) }
            }
            Error::Transport { unsent: false, .. } | Error::Protocol { .. } | Error::Event { .. } => {
                Self::failed(WriteResult::Unknown, None)
            }
            Error::Transport { .. } | Error::Config(_) | Error::Request(_) => {
                Self::failed(WriteResult::Unsent, None)
            }
        }
    }
}

/// Writes the event of a write that has ended.
pub(crate) fn record(plugin: &str, write: &Write<'_>, ended: &Ended<'_>) {
    tracing::debug!(
        target: AUDIT,
        plugin,
        key = write.key.map(|key| clip(key.as_str(), LONGEST_KEY)),
        call = Some(write.call).filter(|call| *call > 0),
        cluster = write.cluster,
        verb = write.verb,
        group = clip(write.group, LONGEST),
        resource = clip(write.resource, LONGEST),
        subresource = some(write.subresource),
        namespace = some(write.namespace),
        name = some(ended.name.or(write.name)),
        dry_run = write.dry_run.then_some(true),
        result = ended.result.as_str(),
        code = ended.code,
        reason = some(ended.reason),
        "write"
    );
}

/// A text that there is, cut.
fn some(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty()).map(|text| clip(text, LONGEST))
}

/// The beginning of a text, of so many bytes at most.
pub(crate) fn clip(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
pub(crate) mod tests;
