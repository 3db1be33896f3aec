//! `watch`: a stream of pieces, one line each. The line of a change is encoded once for all watches that see the object
//! whole.

use std::sync::Arc;
use std::time::Duration;
use std::vec;

use bytes::Bytes;
use http::StatusCode;
use rand::RngExt as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::selection::Selection;
use super::{Answer, Core, Outcome, Rendering, ResourceRequest};
use crate::api::{ApiError, Cause, VersionMatch, list_options_invalid};
use crate::store::{Change, Feed, Moved, NoState, Stored};

/// How long a watch is kept at least when it names no end; a real server's minimum.
const SHORTEST: u64 = 1800;

/// What a watch sends next: one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// An object that was there when the watch began.
    Initial(Bytes),
    /// A change.
    Event(Bytes),
    /// The bookmark behind the initial events.
    InitialEnd(Bytes),
    Bookmark(Bytes),
    /// Why the watch cannot go on; nothing follows.
    Error(Bytes),
}

/// One watch. Objects and changes are kept as the store has them and are encoded one at a time: clients start many
/// watches at once, and a watch that nobody reads holds no copies.
#[derive(Debug)]
pub(crate) struct WatchStream {
    rendering: Rendering,
    selection: Selection,
    /// The objects that were there at the beginning, as far as they are not sent.
    initial: vec::IntoIter<Arc<Stored>>,
    /// The revision of the bookmark that is to be sent behind them.
    initial_end: Option<u64>,
    /// Changes up to here are none of this watch's business: it may have been asked for from a version to come.
    after: u64,
    /// `None` once the watch takes no more changes.
    feed: Option<Feed>,
    /// Whether the feed cannot go on, which is to be said.
    expired: bool,
    /// Changes that were taken from the feed and are not sent.
    changes: vec::IntoIter<Arc<Change>>,
    /// Where the watch is when they are sent.
    taken: u64,
    /// Up to where everything was sent.
    revision: u64,
    end: Instant,
    bookmark_every: Option<Duration>,
    next_bookmark: Instant,
    /// Whether a table's columns are still to be told.
    first: bool,
}

/// Where a watch begins.
enum Start {
    /// With the objects that are there, and perhaps a mark behind them.
    State {
        marked: bool,
    },
    After(u64),
}

impl Core {
    pub(super) fn watch(&self, call: &ResourceRequest) -> Outcome {
        let rendering = Rendering::of(call)?;
        let selection = Selection::of(call)?;
        let start = start(call, self.store.revision())?;
        let now = Instant::now();
        let lasts = call
            .params
            .timeout()?
            .unwrap_or_else(|| Duration::from_secs(rand::rng().random_range(SHORTEST..SHORTEST * 2)));
        let bookmarks = call.params.is_on("allowWatchBookmarks");
        let mut stream = WatchStream {
            rendering,
            selection,
            initial: Vec::new().into_iter(),
            initial_end: None,
            after: 0,
            feed: None,
            expired: false,
            changes: Vec::new().into_iter(),
            taken: 0,
            revision: 0,
            end: now + lasts,
            bookmark_every: bookmarks.then_some(self.bookmark_every),
            next_bookmark: now + self.bookmark_every,
            first: true,
        };
        self.begin(call, &mut stream, &start);
        Ok(Answer::Watch(Box::new(stream)))
    }

    fn begin(&self, call: &ResourceRequest, stream: &mut WatchStream, start: &Start) {
        let after = match start {
            Start::After(revision) => *revision,
            Start::State { marked } => {
                // Read before the feed begins behind it: nothing is told twice, nothing is left out.
                match self.select(call, &stream.selection, None, None, 0) {
                    Ok(snapshot) => {
                        stream.initial = snapshot.objects.into_iter();
                        let marked = *marked && stream.bookmark_every.is_some();
                        stream.initial_end = marked.then_some(snapshot.revision);
                        snapshot.revision
                    }
                    // The state of now is never forgotten.
                    Err(_) => self.store.revision(),
                }
            }
        };
        (stream.after, stream.taken, stream.revision) = (after, after, after);
        match self.store.feed(&call.resource.storage, after) {
            Ok(feed) => stream.feed = Some(feed),
            Err(NoState::Forgotten | NoState::Future(_)) => stream.expired = true,
        }
    }
}

fn start(call: &ResourceRequest, current: u64) -> Result<Start, ApiError> {
    let params = &call.params;
    let version = params.resource_version().map_err(unreadable)?;
    let matching = params.version_match()?;
    let initial = params.get("sendInitialEvents").map(|_| params.is_on("sendInitialEvents"));
    let mut causes = Vec::new();
    match (initial, matching) {
        (Some(_), None) => {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            causes.push(Cause::forbidden("resourceVersionMatch", why));
        }
        (Some(_), Some(VersionMatch::Exact)) => {
            causes.push(Cause::not_supported("resourceVersionMatch", "Exact", &["NotOlderThan"]));
        }
        (None, Some(_)) => {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            causes.push(Cause::forbidden("resourceVersionMatch", why));
        }
        _ => {}
    }
    if !causes.is_empty() {
        return Err(list_options_invalid(causes));
    }
    let version = version.unwrap_or(0);
    match initial {
        Some(true) if version > current => Err(ApiError::too_large_version(version, current)),
        Some(true) => Ok(Start::State { marked: true }),
        Some(false) if version == 0 => Ok(Start::After(current)),
        None if version == 0 => Ok(Start::State { marked: false }),
        _ => Ok(Start::After(version)),
    }
}

/// A resource version that is no number is a fault of the server where it is not a list's.
pub(super) fn unreadable(error: ApiError) -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", error.message)
}

impl WatchStream {
    /// The next piece; `None` at the end. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Piece> {
        loop {
            let now = Instant::now();
            if now >= self.end {
                self.stop();
                return None;
            }
            if let Some(stored) = self.initial.next() {
                return Some(Piece::Initial(self.encode("ADDED", &stored)));
            }
            if let Some(revision) = self.initial_end.take() {
                let bookmark = self.rendering.bookmark(revision, true);
                return Some(Piece::InitialEnd(line("BOOKMARK", &bookmark)));
            }
            if self.expired {
                return Some(self.expire());
            }
            if let Some(every) = self.bookmark_every.filter(|_| now >= self.next_bookmark) {
                // It says how far everything was sent: up to now, if nothing is left to be sent.
                self.take();
                if self.expired {
                    return Some(self.expire());
                }
                self.next_bookmark = now + every;
                let bookmark = self.rendering.bookmark(self.revision, false);
                return Some(Piece::Bookmark(line("BOOKMARK", &bookmark)));
            }
            if let Some(change) = self.changes.next() {
                self.revision = change.revision().max(self.revision);
                match self.change_line(&change) {
                    Some(line) => return Some(Piece::Event(line)),
                    None => continue,
                }
            }
            self.feed.as_ref()?;
            self.take();
            if self.changes.len() == 0 && !self.expired && !self.wait().await {
                self.feed = None;
            }
        }
    }

    /// Takes changes from the feed if all that were taken before are sent.
    fn take(&mut self) {
        let Some(feed) = self.feed.as_mut().filter(|_| self.changes.len() == 0) else { return };
        self.revision = self.taken.max(self.revision);
        match feed.take() {
            Moved::Changes { changes, revision } => {
                self.taken = revision;
                self.changes = changes.into_iter();
                if self.changes.len() == 0 {
                    self.revision = revision.max(self.revision);
                }
            }
            Moved::Forgotten => self.expired = true,
        }
    }

    /// Ends the watch because changes are missing; the answer is its last piece.
    pub(crate) fn expire(&mut self) -> Piece {
        self.stop();
        let error = ApiError::expired(format!("too old resource version: {}", self.revision));
        Piece::Error(line("ERROR", &error.status()))
    }

    /// Forgets everything that is still to be sent.
    fn stop(&mut self) {
        self.initial = Vec::new().into_iter();
        self.initial_end = None;
        self.changes = Vec::new().into_iter();
        self.expired = false;
        self.feed = None;
    }

    /// Waits for changes or for the time of a bookmark; `false` at the end of the watch.
    async fn wait(&mut self) -> bool {
        let Some(feed) = self.feed.as_mut() else { return false };
        let until = if self.bookmark_every.is_some() { self.next_bookmark.min(self.end) } else { self.end };
        tokio::select! {
            there = feed.wait() => there,
            () = sleep_until(until) => true,
        }
    }

    /// The line of a change, if it is to be sent.
    fn change_line(&mut self, change: &Change) -> Option<Bytes> {
        if change.revision() <= self.after || !self.selection.has_key(change.key()) {
            return None;
        }
        let all = self.selection.is_all();
        let before = change.before.as_deref().filter(|s| all || self.selection.matches(s));
        let after = (!change.deleted && (all || self.selection.matches(&change.now))).then_some(&*change.now);
        let natural = (before.is_some(), after.is_some()) == (change.before.is_some(), !change.deleted);
        match (before, after) {
            (None, None) => None,
            _ if natural && self.rendering.is_shared() => {
                let rendering = &self.rendering;
                let make = || event(rendering, natural_type(change), &change.now, false);
                Some(change.line(rendering.form(), make))
            }
            (_, Some(now)) => Some(self.encode(if before.is_some() { "MODIFIED" } else { "ADDED" }, now)),
            (Some(_), None) if change.deleted => Some(self.encode("DELETED", &change.now)),
            // It has left the selector: what it was, with the version of the change.
            (Some(before), None) => {
                let last = before.at_revision(change.revision()).ok()?;
                Some(self.encode("DELETED", &last))
            }
        }
    }

    fn encode(&mut self, kind: &str, stored: &Stored) -> Bytes {
        let first = std::mem::take(&mut self.first);
        event(&self.rendering, kind, stored, first)
    }
}

fn natural_type(change: &Change) -> &'static str {
    match (&change.before, change.deleted) {
        (_, true) => "DELETED",
        (Some(_), false) => "MODIFIED",
        (None, false) => "ADDED",
    }
}

fn event(rendering: &Rendering, kind: &str, stored: &Stored, first: bool) -> Bytes {
    let mut out = Vec::with_capacity(stored.object.bytes().len() + 64);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    rendering.event_object(&mut out, stored, first);
    out.extend_from_slice(b"}\n");
    out.into()
}

fn line(kind: &str, object: &Value) -> Bytes {
    let mut text = json!({"type": kind, "object": object}).to_string();
    text.push('\n');
    text.into()
}
