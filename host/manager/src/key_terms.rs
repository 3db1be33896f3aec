//! [`KeyTerms`]: hosts share the keys of one plugin, and this one works on those whose shards it has; [`CallTerms`]: the terms
//! in which one call works.
//!
//! Invariants:
//! - a call begins only while this host has a term of the shard of each of its keys, and sends no write when one of these
//!   terms is over;
//! - the work of a shard has ended when no call for a key of it is under way, nor a write of such a call. A call counts among
//!   the work of its shards *before* it looks for their terms: it finds that a term is ending, or the end waits for it.
//!
//! Callers: the workers for each call, the live calls of guests, and the manager at the end of a term.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_election::{KeyShards, Leadership, Shards};
use pilothouse_object::ObjectKey;
use smallvec::SmallVec;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The terms of the shards that the keys of one plugin are in; a cheap clone.
#[derive(Clone)]
pub(crate) struct KeyTerms(Arc<Inner>);

struct Inner {
    shards: Shards,
    of: KeyShards,
    /// The calls and writes under way, by shard.
    work: Vec<TaskTracker>,
    /// The calls under way, by number.
    calls: Mutex<HashMap<u64, CallTerms>>,
}

/// The terms of the shards of a call's keys; a cheap clone. None where all keys of the plugin have one term.
#[derive(Clone, Default)]
pub(crate) struct CallTerms(SmallVec<[(Leadership, TaskTrackerToken); 1]>);

impl CallTerms {
    /// Whether there are any, and all last.
    pub(crate) fn last(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|(term, _)| term.is_leading())
    }

    /// What is left of the first of them that ends; none if one is over.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        if !self.last() {
            return None;
        }
        self.0.iter().map(|(term, _)| term.remaining()).min()
    }
}

impl KeyTerms {
    /// Those of a plugin.
    pub(crate) fn new(shards: &Shards, plugin: &str) -> Self {
        let work = (0..shards.count()).map(|_| TaskTracker::new()).collect();
        let (shards, of) = (shards.clone(), shards.of_keys(plugin));
        Self(Arc::new(Inner { shards, of, work, calls: Mutex::default() }))
    }

    /// The shards of all hosts.
    pub(crate) fn shards(&self) -> &Shards {
        &self.0.shards
    }

    /// Which key is in which shard.
    pub(crate) fn of_keys(&self) -> &KeyShards {
        &self.0.of
    }

    /// The shards that this host has.
    pub(crate) fn held(&self) -> impl Iterator<Item = usize> {
        (0..self.0.of.count()).filter(|shard| self.term(*shard).is_some())
    }

    /// Whether this host has the shard of a key.
    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        self.term(self.0.of.of(key.namespace())).is_some()
    }

    /// Whether this host has the shard of a key, or has had it and its last calls are under way.
    pub(crate) fn is_own(&self, key: &ObjectKey) -> bool {
        self.has(key) || !self.0.work[self.0.of.of(key.namespace())].is_empty()
    }

    /// The term of a shard, if this host has one that lasts and is not about to end.
    fn term(&self, shard: usize) -> Option<Leadership> {
        self.0.shards.term(shard).filter(Leadership::is_leading)
    }

    /// The terms of a call for these keys; none if this host does not have the shard of each.
    pub(crate) fn enter<'a>(&self, keys: impl IntoIterator<Item = &'a ObjectKey>) -> Option<CallTerms> {
        let shards: BTreeSet<usize> = keys.into_iter().map(|key| self.0.of.of(key.namespace())).collect();
        let enter = |shard: usize| {
            // Counted first: see the head of this file.
            let counted = self.0.work[shard].token();
            Some((self.term(shard)?, counted))
        };
        shards.into_iter().map(enter).collect::<Option<_>>().map(CallTerms)
    }

    /// A call begins in these terms.
    pub(crate) fn call_begins(&self, call: u64, terms: CallTerms) {
        self.0.calls.lock().insert(call, terms);
    }

    /// A call has ended.
    pub(crate) fn call_ended(&self, call: u64) {
        let terms = self.0.calls.lock().remove(&call);
        drop(terms);
    }

    /// The terms of a call; none once it has ended.
    pub(crate) fn of_call(&self, call: u64) -> CallTerms {
        self.0.calls.lock().get(&call).cloned().unwrap_or_default()
    }

    /// Waits for the calls of a shard whose term is ending, and for their writes.
    pub(crate) async fn work_ended(&self, shard: usize) {
        let work = &self.0.work[shard];
        work.close();
        work.wait().await;
        work.reopen();
    }
}
