//! [`Store`]: every object in its current state, and what changed last.
//!
//! Invariants, all under one lock: each write gets the next revision; a table's history holds its changes in the order of
//! revisions, without a gap after `forgotten`; what a list or a watch is told of a revision is all of it.
//!
//! The state of a table at an earlier revision is the current one with the later changes taken back, so a list that goes
//! on page by page needs no copy of anything.

mod feed;
mod history;
mod journal;
mod managed;
mod stored;
mod table;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::watch;

pub(crate) use feed::{Change, Feed, LineForm, Moved};
use history::HistoryBudget;
pub(crate) use history::HistoryLimits;
use journal::Waiting;
pub(crate) use journal::{Batch, Journal};
pub(crate) use managed::ManagedFields;
pub(crate) use stored::{Head, Stored};
use table::ResourceTable;

/// What a write found instead of what it expected.
#[derive(Debug)]
pub(crate) enum Raced {
    /// Another object of that key is there.
    Exists(Arc<Stored>),
    /// The object has changed or gone.
    Changed,
    /// The bytes are not an object's; cannot come from checked metadata.
    Malformed(String),
}

/// Why there is no state at a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoState {
    /// Older than the history.
    Forgotten,
    /// Not reached yet; the current one.
    Future(u64),
}

/// Some objects of a table at one revision.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) revision: u64,
    pub(crate) objects: Vec<Arc<Stored>>,
}

#[derive(Debug)]
struct Inner {
    revision: u64,
    /// What tables that come later know nothing of: the history before was forgotten.
    floor: u64,
    tables: HashMap<Arc<str>, ResourceTable>,
    /// There once somebody reads it.
    journal: Option<Waiting>,
}

impl Inner {
    fn table(&mut self, name: &Arc<str>, budget: &Arc<HistoryBudget>) -> &mut ResourceTable {
        let floor = self.floor;
        self.tables.entry(name.clone()).or_insert_with(|| ResourceTable::new(budget.clone(), floor))
    }
}

/// All objects.
#[derive(Debug)]
pub(crate) struct Store {
    inner: Mutex<Inner>,
    budget: Arc<HistoryBudget>,
    /// Wakes the reader of the journal.
    written: watch::Sender<()>,
}

impl Store {
    /// An empty store that keeps so much history.
    pub(crate) fn new(limits: impl Into<HistoryLimits>) -> Arc<Self> {
        // A new cluster has made some writes of its own; resource version 0 has a meaning of its own.
        Arc::new(Self {
            inner: Mutex::new(Inner { revision: 1, floor: 0, tables: HashMap::new(), journal: None }),
            budget: HistoryBudget::new(limits.into()),
            written: watch::Sender::new(()),
        })
    }

    /// The revision of the last write.
    pub(crate) fn revision(&self) -> u64 {
        self.inner.lock().revision
    }

    pub(crate) fn get(&self, table: &str, key: &str) -> Option<Arc<Stored>> {
        self.inner.lock().tables.get(table)?.get(key).cloned()
    }

    /// Makes an object.
    pub(crate) fn create(
        &self,
        table: &Arc<str>,
        key: &str,
        head: &Head,
        object: Map<String, Value>,
        managed: ManagedFields,
    ) -> Result<Arc<Stored>, Raced> {
        self.write(table, |t, revision| {
            if let Some(found) = t.get(key) {
                return Err(Raced::Exists(found.clone()));
            }
            let stored = Stored::encode(head, object, managed, revision).map_err(Raced::Malformed)?;
            Ok(t.put(stored))
        })
    }

    /// Puts an object in the place of `current`, if that is still the one.
    pub(crate) fn replace(
        &self,
        table: &Arc<str>,
        key: &str,
        current: &Stored,
        head: &Head,
        object: Map<String, Value>,
        managed: ManagedFields,
    ) -> Result<Arc<Stored>, Raced> {
        self.write(table, |t, revision| {
            t.expect(key, current)?;
            let stored = Stored::encode(head, object, managed, revision).map_err(Raced::Malformed)?;
            Ok(t.put(stored))
        })
    }

    /// Takes an object away, if it is still `current`; the answer is its last state with the revision of its end.
    pub(crate) fn remove(&self, table: &Arc<str>, key: &str, current: &Stored) -> Result<Arc<Stored>, Raced> {
        self.write(table, |t, revision| {
            t.expect(key, current)?;
            let last = current.at_revision(revision).map_err(Raced::Malformed)?;
            Ok(t.take(last))
        })
    }

    fn write(
        &self,
        table: &Arc<str>,
        write: impl FnOnce(&mut ResourceTable, u64) -> Result<Arc<Change>, Raced>,
    ) -> Result<Arc<Stored>, Raced> {
        let mut inner = self.inner.lock();
        let revision = inner.revision + 1;
        let change = write(inner.table(table, &self.budget), revision)?;
        inner.revision = revision;
        inner.trim_histories(&self.budget);
        let stored = change.now.clone();
        if let Some(journal) = &mut inner.journal {
            journal.add((table.clone(), change));
            drop(inner);
            self.written.send_replace(());
        }
        Ok(stored)
    }

    /// Every change from here on; a second reader would take entries from the first.
    pub(crate) fn journal(self: &Arc<Self>) -> Journal {
        self.inner.lock().journal = Some(Waiting::new());
        Journal::new(self.clone(), self.written.subscribe())
    }

    fn read_journal(&self) -> Batch {
        let mut inner = self.inner.lock();
        let revision = inner.revision;
        match &mut inner.journal {
            Some(journal) => journal.take(revision),
            None => Batch { entries: Vec::new(), revision, lost: false },
        }
    }

    /// The objects whose keys begin with a prefix, at a revision or now, from the first key after `after`, at most
    /// `limit` of those that `wanted` takes.
    pub(crate) fn list(&self, query: &Query<'_>) -> Result<Snapshot, NoState> {
        let inner = self.inner.lock();
        let revision = query.revision.unwrap_or(inner.revision);
        if revision > inner.revision {
            return Err(NoState::Future(inner.revision));
        }
        let Some(table) = inner.tables.get(query.table) else {
            if revision < inner.floor {
                return Err(NoState::Forgotten);
            }
            return Ok(Snapshot { revision, objects: Vec::new() });
        };
        Ok(Snapshot { revision, objects: table.at(revision, query)? })
    }

    /// The objects of a table whose keys begin with a prefix, as they are now; with a limit other than 0 at most that many.
    pub(crate) fn under(&self, table: &str, prefix: &str, limit: usize) -> Vec<Arc<Stored>> {
        let query = Query { table, prefix, after: None, revision: None, limit, wanted: &|_| true };
        // The state of now is always known.
        self.list(&query).map(|s| s.objects).unwrap_or_default()
    }

    /// Whether a table has no object whose key begins with a prefix.
    pub(crate) fn is_empty(&self, table: &str, prefix: &str) -> bool {
        self.under(table, prefix, 1).is_empty()
    }

    /// The changes of a table after a revision, as they come.
    pub(crate) fn feed(self: &Arc<Self>, table: &Arc<str>, after: u64) -> Result<Feed, NoState> {
        let mut inner = self.inner.lock();
        let t = inner.table(table, &self.budget);
        let next = t.history.after(after).ok_or(NoState::Forgotten)?;
        Ok(Feed::new(self.clone(), table.clone(), next, t.subscribe()))
    }

    /// What a feed has not seen yet.
    fn news(&self, table: &Arc<str>, next: &mut u64) -> Moved {
        let inner = self.inner.lock();
        let changes = inner.tables.get(table).and_then(|t| t.history.since(next));
        match changes {
            Some(changes) => Moved::Changes { changes, revision: inner.revision },
            None => Moved::Forgotten,
        }
    }

    /// Forgets all that was before now: older resource versions are answered with 410 from here on.
    pub(crate) fn compact(&self) -> u64 {
        let mut inner = self.inner.lock();
        let revision = inner.revision;
        inner.floor = revision;
        inner.tables.values_mut().for_each(|t| t.forget(revision));
        revision
    }

    /// Ends the watches of a table, behind the changes there have been. Tables whose watches were ended before, and that are
    /// empty since, are forgotten.
    pub(crate) fn end_feeds(&self, table: &str) {
        let mut inner = self.inner.lock();
        let before = inner.tables.len();
        inner.tables.retain(|_, t| !t.is_over());
        if inner.tables.len() < before {
            inner.floor = inner.revision;
        }
        if let Some(table) = inner.tables.get_mut(table) {
            table.end_feeds();
        }
    }

    /// How many objects a table holds.
    pub(crate) fn count(&self, table: &str) -> usize {
        self.inner.lock().tables.get(table).map_or(0, ResourceTable::len)
    }

    /// The names of all tables that hold objects.
    pub(crate) fn tables(&self) -> Vec<Arc<str>> {
        let inner = self.inner.lock();
        inner.tables.iter().filter(|(_, t)| t.len() > 0).map(|(name, _)| name.clone()).collect()
    }
}

/// What [`Store::list`] is asked.
pub(crate) struct Query<'a> {
    pub(crate) table: &'a str,
    /// What keys begin with: `namespace/`, or nothing.
    pub(crate) prefix: &'a str,
    /// The key after which to begin.
    pub(crate) after: Option<&'a str>,
    /// At which revision; now if absent.
    pub(crate) revision: Option<u64>,
    /// How many, the one that tells that there are more included; 0 is all.
    pub(crate) limit: usize,
    pub(crate) wanted: &'a dyn Fn(&Stored) -> bool,
}

#[cfg(test)]
mod tests;
