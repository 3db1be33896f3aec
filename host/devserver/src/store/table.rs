//! [`ResourceTable`]: the objects of one resource by key, and their history.
//!
//! Keys are `namespace/name`, or the name alone, in the order of bytes: the order in which a real server lists.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::watch;

use super::history::{History, HistoryBudget};
use super::{Change, NoState, Query, Raced, Stored};

/// An object in its place in the order of keys; the key is the object's own.
#[derive(Debug)]
struct Row(Arc<Stored>);

impl Row {
    fn key(&self) -> &str {
        self.0.object.key().as_str()
    }
}

impl Borrow<str> for Row {
    fn borrow(&self) -> &str {
        self.key()
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Row {}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(other.key())
    }
}

#[derive(Debug)]
pub(super) struct ResourceTable {
    rows: BTreeSet<Row>,
    pub(super) history: History,
    /// Whether the feeds there were have ended, and nothing was written since.
    ended: bool,
    /// Wakes the feeds.
    wake: watch::Sender<()>,
}

impl ResourceTable {
    pub(super) fn new(budget: Arc<HistoryBudget>, forgotten: u64) -> Self {
        Self {
            rows: BTreeSet::new(),
            history: History::new(budget, forgotten),
            ended: false,
            wake: watch::Sender::new(()),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        self.rows.get(key).map(|row| &row.0)
    }

    /// How many objects there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn expect(&self, key: &str, current: &Stored) -> Result<(), Raced> {
        match self.get(key) {
            Some(found) if found.revision == current.revision => Ok(()),
            _ => Err(Raced::Changed),
        }
    }

    pub(super) fn put(&mut self, stored: Arc<Stored>) -> Arc<Change> {
        let before = self.rows.replace(Row(stored.clone())).map(|row| row.0);
        self.log(Change::new(before, stored, false))
    }

    pub(super) fn take(&mut self, last: Arc<Stored>) -> Arc<Change> {
        let before = self.rows.take(last.object.key().as_str()).map(|row| row.0);
        self.log(Change::new(before, last, true))
    }

    fn log(&mut self, change: Change) -> Arc<Change> {
        self.ended = false;
        let change = Arc::new(change);
        self.history.push(change.clone());
        self.wake.send_replace(());
        change
    }

    pub(super) fn forget(&mut self, revision: u64) {
        self.history.forget(revision);
        self.wake.send_replace(());
    }

    pub(super) fn end_feeds(&mut self) {
        self.wake = watch::Sender::new(());
        self.ended = true;
    }

    /// Whether there is nothing in it and nobody to tell of what there was.
    pub(super) fn is_over(&self) -> bool {
        self.ended && self.rows.is_empty() && self.wake.receiver_count() == 0
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.wake.subscribe()
    }

    /// The objects of a query at a revision that is not in the future.
    pub(super) fn at(&self, revision: u64, query: &Query<'_>) -> Result<Vec<Arc<Stored>>, NoState> {
        let first = self.history.after(revision).ok_or(NoState::Forgotten)?;
        let mut undone: HashMap<&str, Option<&Arc<Stored>>> = HashMap::new();
        for change in self.history.from(first) {
            // Of several later changes the first knows how it was before them.
            undone.entry(change.key()).or_insert(change.before.as_ref());
        }
        let from = match query.after {
            Some(after) if after >= query.prefix => Bound::Excluded(after),
            _ => Bound::Included(query.prefix),
        };
        let in_range =
            |key: &str| key.starts_with(query.prefix) && query.after.is_none_or(|after| key > after);
        // Those that have gone since, to be put in at their places.
        let mut gone: Vec<(&str, &Arc<Stored>)> = undone
            .iter()
            .filter_map(|(key, before)| Some((*key, (*before)?)))
            .filter(|(key, _)| in_range(key) && !self.rows.contains(*key))
            .collect();
        gone.sort_unstable_by_key(|(key, _)| *key);
        let mut gone = gone.into_iter().peekable();
        let mut present = self
            .rows
            .range::<str, _>((from, Bound::Unbounded))
            .map(|row| (row.key(), &row.0))
            .take_while(|(key, _)| key.starts_with(query.prefix))
            .filter_map(|(key, now)| match undone.get(key) {
                None => Some((key, now)),
                Some(before) => before.map(|before| (key, before)),
            })
            .peekable();
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let mut objects = Vec::new();
        while objects.len() < limit {
            let take_gone = match (gone.peek(), present.peek()) {
                (Some((gone, _)), Some((present, _))) => gone < present,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            let next = if take_gone { gone.next() } else { present.next() };
            objects.extend(next.map(|(_, stored)| stored).filter(|s| (query.wanted)(s)).cloned());
        }
        Ok(objects)
    }
}
