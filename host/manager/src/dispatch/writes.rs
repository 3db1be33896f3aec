//! [`Writes`]: the last live writes of a plugin, so that its next reconcile does not read a cache from before them.
//!
//! Each live write is noted with the informers that show it: the version of the answer, or for a finished delete the key and
//! UID that must be gone. Before a reconcile, and when the guest asks, the plugin waits until the caches have come that far.
//!
//! Invariants: only informers of the current generation and of one being loaded have a note, so there are at most as many as
//! watches; a note holds the newest version alone, since a cache that shows it shows all before it; versions are looked at
//! before deletes, as an object that never came into the cache is not gone from it but still to come; `unmet` is true
//! whenever a note is open.
//!
//! Written by [`ApiCalls`](crate::imports::api_calls::ApiCalls) on the network runtime, read by workers and by imports.

mod written;

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};

use parking_lot::Mutex;
use pilothouse_cache::{Indexer, InformerId, compare_resource_versions};
use pilothouse_client::ApiResource;
use pilothouse_object::ObjectKey;
use tokio::time::Instant;

pub(crate) use self::written::Written;

/// Most deletes that a note remembers. Caches see the deletes of a kind in their order, so the last one would do but for
/// those that concurrent calls made at the same time: there are hardly more of them than reconciles at once.
const MOST_DELETES: usize = 32;

/// The last writes of a plugin.
#[derive(Default)]
pub(crate) struct Writes {
    unmet: AtomicBool,
    notes: Mutex<Notes>,
}

/// The notes by informer, sorted and without room to spare: most plugins have one.
#[derive(Debug, Default)]
struct Notes(Vec<(InformerId, Note)>);

impl Notes {
    fn place(&self, id: &InformerId) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| own.cmp(id))
    }

    fn add(&mut self, id: InformerId) {
        if let Err(at) = self.place(&id) {
            self.0.reserve_exact(1);
            self.0.insert(at, (id, Note::default()));
        }
    }

    fn get_mut(&mut self, id: &InformerId) -> Option<&mut Note> {
        self.place(id).ok().map(|at| &mut self.0[at].1)
    }

    fn retain(&mut self, keeps: impl Fn(&InformerId) -> bool) {
        self.0.retain(|(id, _)| keeps(id));
        self.0.shrink_to_fit();
    }
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// All writes were in the caches already.
    NotNeeded,
    /// The caches have caught up.
    Seen,
    /// They had not when the time was over.
    TimedOut,
}

/// Which notes a wait includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitScope {
    /// For a reconcile: notes for which no wait has timed out. So a silent watch delays one key and not every key.
    Fresh,
    /// All of them, for a guest that asks.
    All,
}

/// A cache that a generation reads.
pub(crate) type Cache<'a> = (&'a InformerId, &'a Arc<Indexer>);

/// The writes that one informer must have seen.
#[derive(Debug, Default)]
struct Note {
    /// Of the newest write; empty before the first.
    version: Arc<str>,
    /// Finished deletes, oldest first.
    deletes: VecDeque<(ObjectKey, Box<str>)>,
    state: NoteState,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum NoteState {
    /// Nothing was written, or the cache shows it.
    #[default]
    Met,
    /// The cache may not show it yet.
    Open,
    /// A wait for it has timed out.
    TimedOut,
}

impl Note {
    fn take(&mut self, written: Written<'_>) {
        let version = match written {
            Written::Version(version) => version,
            Written::Gone { key, uid, version } => {
                if self.deletes.len() == MOST_DELETES {
                    self.deletes.pop_front();
                }
                self.deletes.push_back((key.clone(), uid.into()));
                self.state = NoteState::Open;
                version
            }
        };
        // Writes of concurrent calls may be noted in another order than they were made in.
        let is_newer = compare_resource_versions(version, &self.version).is_none_or(Ordering::is_gt);
        if !version.is_empty() && is_newer && *version != *self.version {
            self.version = version.into();
            self.state = NoteState::Open;
        }
    }

    /// Looks whether the cache shows everything by now.
    fn check(&mut self, indexer: &Indexer) {
        if !self.version.is_empty() && !indexer.has_seen(&self.version) {
            return;
        }
        self.deletes.retain(|(key, uid)| indexer.get(key).is_some_and(|object| object.uid() == &**uid));
        if self.deletes.is_empty() {
            self.state = NoteState::Met;
        }
    }
}

/// A note as it was when the wait began. Later writes do not make the wait longer.
struct Target {
    id: InformerId,
    indexer: Arc<Indexer>,
    version: Arc<str>,
    deletes: Vec<(ObjectKey, Box<str>)>,
}

impl Target {
    async fn seen(&self) {
        if !self.version.is_empty() {
            self.indexer.wait_until_seen(&self.version).await;
        }
        for (key, uid) in &self.deletes {
            self.indexer.wait_until_gone(key, uid).await;
        }
    }

    /// Whether the note is still the one that was waited for.
    fn is_newest(&self, note: &Note) -> bool {
        note.version == self.version && note.deletes.back() == self.deletes.last()
    }
}

impl Writes {
    /// Starts to note writes to objects of these informers. Called before a generation leases them, or right after: later
    /// writes may be missing from the first list.
    pub(crate) fn watch(&self, ids: impl IntoIterator<Item = InformerId>) {
        let mut notes = self.notes.lock();
        for id in ids {
            notes.add(id);
        }
    }

    /// A generation took over that reads these informers and no others.
    pub(crate) fn watch_only(&self, ids: &[&InformerId]) {
        self.notes.lock().retain(|id| ids.contains(&id));
    }

    /// Notes a write to an object of this resource and name, in this namespace unless the kind has none.
    pub(crate) fn note(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        written: Written<'_>,
    ) {
        let mut notes = self.notes.lock();
        for (id, note) in &mut notes.0 {
            // One resource has one sequence of versions, whatever API version it is read and written in.
            let same = id.resource.group == resource.gvk.group && id.resource.resource == resource.plural;
            let shows = id.namespace.as_deref().is_none_or(|shown| namespace == Some(shown))
                && id.name.as_deref().is_none_or(|shown| name == shown);
            if same && shows {
                note.take(written);
                if note.state == NoteState::Open {
                    self.unmet.store(true, Release);
                }
            }
        }
    }

    /// Whether a reconcile may have to wait: one load of an atomic.
    pub(crate) fn may_be_unmet(&self) -> bool {
        self.unmet.load(Acquire)
    }

    /// Waits until these caches show the writes that were noted when the wait began.
    pub(crate) async fn wait<'a>(
        &self,
        caches: impl Iterator<Item = Cache<'a>>,
        scope: WaitScope,
        until: Instant,
    ) -> WaitOutcome {
        let targets = self.targets(caches, scope);
        if targets.is_empty() {
            return WaitOutcome::NotNeeded;
        }
        let seen = async {
            for target in &targets {
                target.seen().await;
            }
        };
        let seen = tokio::time::timeout_at(until, seen).await.is_ok();
        self.end(&targets, scope);
        if seen { WaitOutcome::Seen } else { WaitOutcome::TimedOut }
    }

    fn targets<'a>(&self, caches: impl Iterator<Item = Cache<'a>>, scope: WaitScope) -> Vec<Target> {
        let mut targets = Vec::new();
        let mut notes = self.notes.lock();
        for (id, indexer) in caches {
            let Some(note) = notes.get_mut(id) else { continue };
            if note.state == NoteState::Met
                || (note.state == NoteState::TimedOut && scope == WaitScope::Fresh)
            {
                continue;
            }
            note.check(indexer);
            if note.state != NoteState::Met {
                targets.push(Target {
                    id: id.clone(),
                    indexer: Arc::clone(indexer),
                    version: Arc::clone(&note.version),
                    deletes: note.deletes.iter().cloned().collect(),
                });
            }
        }
        // All notes, not those of these caches alone: another generation may have taken over by now.
        if !notes.0.iter().any(|(_, note)| note.state == NoteState::Open) {
            self.unmet.store(false, Release);
        }
        targets
    }

    /// Closes notes that are met. A reconcile marks the others as timed out; a guest does not, because it may wait for a
    /// shorter time. `unmet` is reset by the next wait: writes may have been noted meanwhile.
    fn end(&self, targets: &[Target], scope: WaitScope) {
        let mut notes = self.notes.lock();
        for target in targets {
            let Some(note) = notes.get_mut(&target.id) else { continue };
            // Before the check, which drops the deletes that are met.
            let is_newest = target.is_newest(note);
            note.check(&target.indexer);
            if note.state == NoteState::Open && is_newest && scope == WaitScope::Fresh {
                note.state = NoteState::TimedOut;
            }
        }
    }
}

#[cfg(test)]
mod tests;
