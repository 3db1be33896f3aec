//! The streaming list: a watch that sends the present objects first, then a bookmark that says so, and goes on as the
//! watch. It costs the server far less than a list, and is never out of date.
//!
//! What comes is gathered apart and handed to the queue as one list when the bookmark has come. Where that cannot work,
//! a list takes its place:
//! - any error but the ones below leads to a list this once; one that says that the server knows no streaming lists
//!   (400, 405, 422, 501) for [`FALLBACK`];
//! - [`PATIENCE`] without a new object before the bookmark, or [`ROUNDS`] watches in a row that broke or ended before it,
//!   lead to lists for [`FALLBACK`] too: proxies, aggregated servers and old versions lose the bookmark, or never send it;
//! - a server that is away, busy, or has lost the version is asked again.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use foldhash::fast::RandomState;
use pilothouse_client::{Error, WatchEvent};
use pilothouse_object::{Object, ObjectKey};
use tokio::time::{Instant, timeout_at};

use super::open::{OpenWatch, very_short};
use super::receive::ObjectReceiver;
use super::{Reflector, Stop, count};
use crate::version::ResourceVersion;

/// How long the initial events may take in all, new keys or not: a server that ignores `sendInitialEvents` shows new
/// keys of a busy kind without end. A million objects take a minute or two.
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// Without a new object for so long before the bookmark, it is not waited for. Ordinary events and bookmarks do not
/// count: a server that does not know the parameter sends those without end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Watches in a row that may end before the bookmark.
const ROUNDS: u32 = 3;

/// For how long a reflector lists where the streaming list did not work.
const FALLBACK: Duration = Duration::from_secs(60 * 60);

/// How one round ended.
enum WatchListRound {
    /// Complete: goes on as the watch.
    Complete(OpenWatch),
    /// Ask again, perhaps for another version.
    Again,
    /// List this once.
    ListOnce,
    /// List for a while.
    ListFor(&'static str),
}

/// How the initial events ended.
enum InitialEvents {
    /// All present objects, as of this version.
    Complete(Vec<Object>, String),
    /// Before the bookmark.
    Ended,
    /// The bookmark does not come.
    Stalled,
    Failed(Error),
}

impl Reflector {
    /// Whether to begin with a streaming list.
    pub(super) fn may_watch_list(&self) -> bool {
        self.options.watch_list
            && self.source.supports_watch_list()
            && self.list_until.is_none_or(|until| Instant::now() >= until)
    }

    /// Fills the queue from a watch with initial events, which is then the watch. `None`: a list must do it.
    pub(super) async fn watch_list(&mut self) -> Result<Option<OpenWatch>, Stop> {
        loop {
            match self.watch_list_round().await? {
                WatchListRound::Complete(watch) => {
                    self.unfinished_rounds = 0;
                    return Ok(Some(watch));
                }
                WatchListRound::Again => {}
                WatchListRound::ListOnce => return Ok(None),
                WatchListRound::ListFor(why) => {
                    tracing::info!(event = "streaming_list_unsupported", cluster = self.shared.cluster(), resource = %self.resource,
                        why, hours = FALLBACK.as_secs() / 3600,
                        "no streaming lists from this server for a while; listing");
                    self.list_until = Some(Instant::now() + FALLBACK);
                    self.unfinished_rounds = 0;
                    return Ok(None);
                }
            }
        }
    }

    async fn watch_list_round(&mut self) -> Result<WatchListRound, Stop> {
        // A wish for a list that came before this is met by it.
        self.relist.mark_unchanged();
        let asked = if self.version_unavailable { String::new() } else { self.version.to_string() };
        let mut watch = match self.open(&asked, true).await {
            Ok(watch) => watch,
            Err(error) => return self.watch_list_failed(error, &asked).await,
        };
        match initial_events(&mut watch, &self.receiver).await {
            InitialEvents::Complete(_, version)
                if !asked.is_empty() && ResourceVersion::from(&*version).is_older_than(&self.newest) =>
            {
                tracing::info!(event = "stale_streaming_list", cluster = self.shared.cluster(), resource = %self.resource,
                    got = version, newest = %self.newest,
                    "the streaming list is older than what was seen; asking for the newest state");
                self.version_unavailable = true;
                Ok(WatchListRound::Again)
            }
            // An object without which the list is not complete would count as deleted.
            InitialEvents::Complete(..) if watch.skipped > 0 => Ok(WatchListRound::ListOnce),
            InitialEvents::Complete(objects, version) => {
                self.check_watch_list(&objects, &version).await;
                self.hand_over(objects, version.as_str().into()).await?;
                Ok(WatchListRound::Complete(watch))
            }
            InitialEvents::Stalled => {
                Ok(WatchListRound::ListFor("the bookmark behind the initial events did not come"))
            }
            InitialEvents::Ended if watch.is_very_short() => {
                count(&self.shared.short_watches);
                self.report(&very_short());
                Ok(self.unfinished().unwrap_or(WatchListRound::ListOnce))
            }
            InitialEvents::Ended => {
                let error = ended_early();
                let list = self.unfinished();
                if list.is_none() {
                    self.wait_after(&error).await;
                }
                Ok(list.unwrap_or(WatchListRound::Again))
            }
            InitialEvents::Failed(error) => {
                count(&self.shared.watch_failures);
                // The connection is freed before anything is waited for.
                drop(watch);
                self.watch_list_failed(error, &asked).await
            }
        }
    }

    /// What an error at open or in the stream leads to.
    async fn watch_list_failed(&mut self, error: Error, asked: &str) -> Result<WatchListRound, Stop> {
        let lost = error.is_expired() || error.is_too_large_resource_version();
        if lost && !asked.is_empty() {
            if error.is_expired() {
                self.tell_expired();
            }
            // At once.
            self.version_unavailable = true;
            return Ok(WatchListRound::Again);
        }
        if error.is_not_found() {
            // The list would say the same.
            return Err(error.into());
        }
        if error.is_too_many_requests() {
            self.wait_after(&error).await;
            return Ok(WatchListRound::Again);
        }
        // A server that names a time is about to be able to; a list before that would be as unwelcome.
        if matches!(error, Error::Transport { .. }) || lost || error.retry_after().is_some() {
            let list = self.unfinished();
            if list.is_none() {
                self.wait_after(&error).await;
            }
            return Ok(list.unwrap_or(WatchListRound::Again));
        }
        if error.status().is_some_and(|status| matches!(status.code, 400 | 405 | 422 | 501)) {
            tracing::debug!(cluster = self.shared.cluster(), resource = %self.resource,
                %error, "the server refuses the streaming list");
            return Ok(WatchListRound::ListFor("the server does not know them"));
        }
        self.report(&error);
        Ok(WatchListRound::ListOnce)
    }

    /// Another round ended before the bookmark: whether that were too many.
    fn unfinished(&mut self) -> Option<WatchListRound> {
        self.unfinished_rounds += 1;
        (self.unfinished_rounds >= ROUNDS)
            .then_some(WatchListRound::ListFor("watches ended before the bookmark behind the initial events"))
    }
}

/// Gathers the initial events of a watch.
async fn initial_events(watch: &mut OpenWatch, receiver: &ObjectReceiver) -> InitialEvents {
    let mut objects = Gathered::default();
    let end = Instant::now() + LONGEST;
    let mut patience = Instant::now() + PATIENCE;
    loop {
        let event = match timeout_at(patience.min(end), watch.next()).await {
            Err(_) => return InitialEvents::Stalled,
            Ok(None) => return InitialEvents::Ended,
            Ok(Some(Err(error))) => return InitialEvents::Failed(error),
            Ok(Some(Ok(event))) => event,
        };
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                if let Some(object) = receiver.listed(object)
                    && objects.set(object)
                {
                    patience = Instant::now() + PATIENCE;
                }
            }
            WatchEvent::Deleted(object) => objects.remove(object.key()),
            WatchEvent::Bookmark { initial_events_end: false, .. } => {}
            WatchEvent::Bookmark { resource_version, .. } if resource_version.is_empty() => {
                return InitialEvents::Failed(Error::Protocol {
                    doing: "watch".to_owned(),
                    message: "the bookmark behind the initial events has no resourceVersion".to_owned(),
                });
            }
            WatchEvent::Bookmark { resource_version, .. } => {
                return InitialEvents::Complete(objects.into_list(), resource_version);
            }
        }
    }
}

/// Objects by key, in the order in which they came.
#[derive(Default)]
struct Gathered {
    list: Vec<Option<Object>>,
    places: HashMap<ObjectKey, usize, RandomState>,
}

impl Gathered {
    /// Takes an object in; tells whether its key is new.
    fn set(&mut self, object: Object) -> bool {
        match self.places.entry(object.key().clone()) {
            Entry::Occupied(place) => {
                self.list[*place.get()] = Some(object);
                false
            }
            Entry::Vacant(place) => {
                place.insert(self.list.len());
                self.list.push(Some(object));
                true
            }
        }
    }

    fn remove(&mut self, key: &ObjectKey) {
        // Its place stays: an object that comes and goes is no progress, and takes no more room.
        if let Some(place) = self.places.get(key) {
            self.list[*place] = None;
        }
    }

    fn into_list(self) -> Vec<Object> {
        self.list.into_iter().flatten().collect()
    }
}

fn ended_early() -> Error {
    Error::Protocol {
        doing: "watch".to_owned(),
        message: "the server ended the watch before its initial events were complete".to_owned(),
    }
}
