//! `watch`: a stream of pieces, one line each. The line of a change is encoded once for all watches that see the object
//! whole.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use rand::RngExt as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::selection::Selection;
use super::{Answer, Call, Core, Outcome, Rendering};
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

/// One watch.
#[derive(Debug)]
pub(crate) struct WatchStream {
    rendering: Rendering,
    selection: Selection,
    /// `None` once the watch has said its last.
    feed: Option<Feed>,
    /// Changes up to here are none of this watch's business: it may have been asked for from a version to come.
    after: u64,
    ready: VecDeque<Piece>,
    /// Up to where everything was sent or stands in `ready`.
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
    pub(super) fn watch(&self, call: &Call) -> Outcome {
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
            feed: None,
            after: 0,
            ready: VecDeque::new(),
            revision: 0,
            end: now + lasts,
            bookmark_every: bookmarks.then_some(self.bookmark_every),
            next_bookmark: now + self.bookmark_every,
            first: true,
        };
        self.begin(call, &mut stream, &start);
        Ok(Answer::Watch(Box::new(stream)))
    }

    fn begin(&self, call: &Call, stream: &mut WatchStream, start: &Start) {
        let table = &call.resource.storage;
        let after = match start {
            Start::After(revision) => *revision,
            Start::State { marked } => {
                // Read before the feed begins behind it: nothing is told twice, nothing is left out.
                match self.select(call, &stream.selection, None, None, 0) {
                    Ok(snapshot) => {
                        for stored in &snapshot.objects {
                            let line = stream.encode("ADDED", stored);
                            stream.ready.push_back(Piece::Initial(line));
                        }
                        if *marked && stream.bookmark_every.is_some() {
                            let bookmark = stream.rendering.bookmark(snapshot.revision, true);
                            stream.ready.push_back(Piece::InitialEnd(line("BOOKMARK", &bookmark)));
                        }
                        snapshot.revision
                    }
                    // The state of now is never forgotten.
                    Err(_) => self.store.revision(),
                }
            }
        };
        stream.after = after;
        stream.revision = after;
        match self.store.feed(table, after) {
            Ok(feed) => stream.feed = Some(feed),
            Err(NoState::Forgotten | NoState::Future(_)) => stream.ready.push_back(too_old(after)),
        }
    }
}

fn start(call: &Call, current: u64) -> Result<Start, ApiError> {
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

fn too_old(revision: u64) -> Piece {
    let error = ApiError::expired(format!("too old resource version: {revision}"));
    Piece::Error(line("ERROR", &error.status()))
}

impl WatchStream {
    /// The next piece; `None` at the end. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Piece> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            let feed = self.feed.as_mut()?;
            match feed.take() {
                Moved::Changes { changes, revision } => {
                    self.revision = revision.max(self.revision);
                    changes.iter().for_each(|change| self.push_change(change));
                }
                Moved::Forgotten => return Some(self.expire()),
            }
            if self.ready.is_empty() && !self.wait().await {
                self.feed = None;
            }
        }
    }

    /// Ends the watch because changes are missing; the answer is its last piece.
    pub(crate) fn expire(&mut self) -> Piece {
        self.feed = None;
        self.ready.clear();
        too_old(self.revision)
    }

    /// Waits for changes or for the time of a bookmark; `false` at the end of the watch.
    async fn wait(&mut self) -> bool {
        let Some(feed) = self.feed.as_mut() else { return false };
        let until = if self.bookmark_every.is_some() { self.next_bookmark.min(self.end) } else { self.end };
        tokio::select! {
            there = feed.wait() => there,
            () = sleep_until(until) => {
                if Instant::now() >= self.end {
                    return false;
                }
                self.push_bookmark();
                true
            }
        }
    }

    fn push_change(&mut self, change: &Change) {
        if change.revision() <= self.after || !self.selection.has_key(change.key()) {
            return;
        }
        let all = self.selection.is_all();
        let before = change.before.as_deref().filter(|s| all || self.selection.matches(s));
        let after = (!change.deleted && (all || self.selection.matches(&change.now))).then_some(&*change.now);
        let natural = (before.is_some(), after.is_some()) == (change.before.is_some(), !change.deleted);
        let line = match (before, after) {
            (None, None) => return,
            _ if natural && self.rendering.is_shared() => {
                let rendering = &self.rendering;
                change.line(rendering.head(), || event(rendering, natural_type(change), &change.now, false))
            }
            (_, Some(now)) => self.encode(if before.is_some() { "MODIFIED" } else { "ADDED" }, now),
            (Some(_), None) if change.deleted => self.encode("DELETED", &change.now),
            // It has left the selector: what it was, with the version of the change.
            (Some(before), None) => match before.at_revision(change.revision()) {
                Ok(last) => self.encode("DELETED", &last),
                Err(_) => return,
            },
        };
        self.ready.push_back(Piece::Event(line));
    }

    fn encode(&mut self, kind: &str, stored: &Stored) -> Bytes {
        let first = std::mem::take(&mut self.first);
        event(&self.rendering, kind, stored, first)
    }

    fn push_bookmark(&mut self) {
        let Some(every) = self.bookmark_every else { return };
        self.next_bookmark = Instant::now() + every;
        let bookmark = self.rendering.bookmark(self.revision, false);
        self.ready.push_back(Piece::Bookmark(line("BOOKMARK", &bookmark)));
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
