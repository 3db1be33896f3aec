//! `watch`: a stream of lines, one a change, encoded once for all watches that see the object whole.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use rand::RngExt as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::selection::Selection;
use super::{Answer, Core, Outcome, Rendering, RequestInfo};
use crate::api::{ApiError, Cause, VersionMatch, list_options_invalid};
use crate::faults::WatchFaults;
use crate::store::{Change, Feed, Moved, NoState, Stored};

/// How long a watch is kept at least when it names no end; a real server's minimum.
const SHORTEST: u64 = 1800;

/// What a watch sends next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Line(Bytes),
    /// The first part of a line; the connection is to be reset behind it.
    Torn(Bytes),
    /// Nothing more, while the connection is on its way to be reset.
    Hang,
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
    ready: VecDeque<Bytes>,
    /// Up to where everything was sent or stands in `ready`.
    revision: u64,
    end: Instant,
    bookmark_every: Option<Duration>,
    next_bookmark: Instant,
    /// Whether a table's columns are still to be told.
    first: bool,
    faults: WatchFaults,
    sent: u64,
    torn: bool,
    /// An event that waits for the next one to go before it.
    held: Option<Bytes>,
    /// Until when a fault keeps back what is ready.
    due: Option<Instant>,
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
    pub(super) fn watch(&self, call: &RequestInfo) -> Outcome {
        let rendering = Rendering::of(call)?;
        let selection = Selection::of(call)?;
        let start = start(call, self.store.revision())?;
        let faults = WatchFaults::default();
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
            faults,
            sent: 0,
            torn: false,
            held: None,
            due: None,
        };
        self.begin(call, &mut stream, &start);
        Ok(Answer::Watch(Box::new(stream)))
    }

    fn begin(&self, call: &RequestInfo, stream: &mut WatchStream, start: &Start) {
        let table = &call.resource.storage;
        let after = match start {
            Start::After(revision) => *revision,
            Start::State { marked } => {
                // Read before the feed begins behind it: nothing is told twice, nothing is left out.
                match self.select(call, &stream.selection, None, None, 0) {
                    Ok(snapshot) => {
                        for stored in &snapshot.objects {
                            stream.push_event("ADDED", stored);
                        }
                        if *marked && stream.bookmark_every.is_some() {
                            stream.initial_end(snapshot.revision);
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
            Err(NoState::Forgotten | NoState::Future(_)) => stream.push_error(&too_old(after)),
        }
    }
}

fn start(call: &RequestInfo, current: u64) -> Result<Start, ApiError> {
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

fn too_old(revision: u64) -> ApiError {
    ApiError::expired(format!("too old resource version: {revision}"))
}

impl WatchStream {
    /// Lets a fault change what is sent.
    pub(crate) fn set_faults(&mut self, faults: WatchFaults) {
        self.faults = faults;
        let initial = std::mem::take(&mut self.ready);
        for line in initial {
            if is_event(&line) {
                self.push_line(line);
            } else if !(faults.no_initial_end && is_initial_end(&line)) {
                self.ready.extend(self.held.take());
                self.ready.push_back(line);
            }
        }
        if faults.silent {
            self.ready.clear();
            self.held = None;
        }
    }

    /// The next line; `None` at the end. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Piece> {
        if self.torn {
            return Some(Piece::Hang);
        }
        loop {
            if self.faults.gone_after.is_some_and(|n| self.sent >= n) && self.feed.is_some() {
                self.ready.clear();
                self.push_error(&too_old(self.revision));
            }
            if let Some(due) = self.due {
                sleep_until(due).await;
                self.due = None;
            }
            if let Some(line) = self.ready.pop_front() {
                self.sent += 1;
                if self.faults.tear_after.is_some_and(|n| self.sent > n) {
                    self.torn = true;
                    return Some(Piece::Torn(line.slice(..line.len() / 2)));
                }
                return Some(Piece::Line(line));
            }
            let feed = self.feed.as_mut()?;
            match feed.take() {
                Moved::Changes { changes, revision } => {
                    self.revision = revision.max(self.revision);
                    if !self.faults.silent {
                        changes.iter().for_each(|change| self.push_change(change));
                        self.due = (!self.faults.lag.is_zero()).then(|| Instant::now() + self.faults.lag);
                    }
                }
                Moved::Forgotten => self.push_error(&too_old(self.revision)),
            }
            if self.ready.is_empty() && !self.wait().await {
                self.feed = None;
                self.ready.extend(self.held.take());
            }
        }
    }

    /// Waits for changes or for the time of a bookmark; `false` at the end of the watch.
    async fn wait(&mut self) -> bool {
        let Some(feed) = self.feed.as_mut() else { return false };
        let bookmarks = self.bookmark_every.filter(|_| !self.faults.silent);
        let until = if bookmarks.is_some() { self.next_bookmark.min(self.end) } else { self.end };
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
        self.push_line(line);
    }

    fn encode(&mut self, kind: &str, stored: &Stored) -> Bytes {
        let first = std::mem::take(&mut self.first);
        event(&self.rendering, kind, stored, first)
    }

    fn push_event(&mut self, kind: &str, stored: &Stored) {
        let line = self.encode(kind, stored);
        self.ready.push_back(line);
    }

    fn push_line(&mut self, line: Bytes) {
        if self.faults.duplicate {
            self.ready.push_back(line.clone());
        }
        if self.faults.out_of_order {
            match self.held.take() {
                None => self.held = Some(line),
                Some(earlier) => self.ready.extend([line, earlier]),
            }
        } else {
            self.ready.push_back(line);
        }
    }

    fn push_bookmark(&mut self) {
        let Some(every) = self.bookmark_every else { return };
        self.next_bookmark = Instant::now() + every;
        self.ready.extend(self.held.take());
        let bookmark = self.rendering.bookmark(self.revision, false);
        self.ready.push_back(line("BOOKMARK", &bookmark));
    }

    fn initial_end(&mut self, revision: u64) {
        let bookmark = self.rendering.bookmark(revision, true);
        self.ready.push_back(line("BOOKMARK", &bookmark));
    }

    fn push_error(&mut self, error: &ApiError) {
        self.feed = None;
        self.ready.push_back(line("ERROR", &error.status()));
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

/// Whether a line of the beginning tells of an object.
fn is_event(line: &[u8]) -> bool {
    line.starts_with(b"{\"type\":\"ADDED\"")
}

fn is_initial_end(line: &[u8]) -> bool {
    line.windows(b"initial-events-end".len()).any(|w| w == b"initial-events-end")
        && serde_json::from_slice::<Value>(line).is_ok_and(|event| event["type"] == "BOOKMARK")
}
