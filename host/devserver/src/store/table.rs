//! [`ResourceTable`]: the objects of one resource by key, and their history.
//!
//! Keys are `namespace/name`, or the name alone, in the order of bytes: the order in which a real server lists.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::watch;

use super::history::{History, HistoryBudget};
use super::{Change, NoState, Query, Raced, Stored};

#[derive(Debug)]
pub(super) struct ResourceTable {
    pub(super) objects: BTreeMap<Box<str>, Arc<Stored>>,
    pub(super) history: History,
    /// Whether the feeds there were have ended, and nothing was written since.
    ended: bool,
    /// Wakes the feeds.
    wake: watch::Sender<()>,
}

impl ResourceTable {
    pub(super) fn new(budget: Arc<HistoryBudget>, forgotten: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            history: History::new(budget, forgotten),
            ended: false,
            wake: watch::Sender::new(()),
        }
    }

    pub(super) fn expect(&self, key: &str, current: &Stored) -> Result<(), Raced> {
        match self.objects.get(key) {
            Some(found) if found.revision == current.revision => Ok(()),
            _ => Err(Raced::Changed),
        }
    }

    pub(super) fn put(&mut self, key: &str, stored: Arc<Stored>) -> Arc<Change> {
        let before = self.objects.insert(key.into(), stored.clone());
        self.log(Change::new(key, before, stored, false))
    }

    pub(super) fn take(&mut self, key: &str, last: Arc<Stored>) -> Arc<Change> {
        let before = self.objects.remove(key);
        self.log(Change::new(key, before, last, true))
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
        self.ended && self.objects.is_empty() && self.wake.receiver_count() == 0
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
            .filter(|(key, _)| in_range(key) && !self.objects.contains_key(*key))
            .collect();
        gone.sort_unstable_by_key(|(key, _)| *key);
        let mut gone = gone.into_iter().peekable();
        let mut present = self
            .objects
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(query.prefix))
            .filter_map(|(key, now)| match undone.get(&**key) {
                None => Some((&**key, now)),
                Some(before) => before.map(|before| (&**key, before)),
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
