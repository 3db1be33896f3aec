//! [`State`]: what a [`DocumentCache`](super::documents::DocumentCache) knows, under its lock.
//!
//! Invariants: a document is replaced only by one whose fetch began later, and a good one not by a failure that may pass:
//! that is noted beside it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::kept::{Access, Kept, List, Origin, Root, may_pass};
use super::types::{ApiGroup, GroupVersion};
use crate::error::{Error, Result, Status};
use crate::params::ApiResource;

/// Documents kept before failures that nobody has asked for of late are forgotten: who asks for names that do not exist
/// must not fill the memory.
const MANY: usize = 4096;
/// How long a failure stays in any case.
const FAILURES_STAY: Duration = Duration::from_secs(60);

/// What is known.
#[derive(Default)]
pub(super) struct State {
    /// Fetches begun.
    pub(super) fetches: u64,
    /// Invalidations.
    pub(super) generation: u64,
    pub(super) invalidated: Option<SystemTime>,
    /// Whether a file was used since the beginning or the last invalidation.
    pub(super) used_files: bool,
    pub(super) root: Option<Kept<Root>>,
    /// The last good root, to be asked for by `ETag`, whether it may still be used or not.
    pub(super) confirmable: Option<Root>,
    /// Groups that were asked for singly.
    pub(super) groups: HashMap<String, Kept<ApiGroup>>,
    pub(super) lists: HashMap<GroupVersion, Kept<Arc<[ApiResource]>>>,
}

/// What is kept, or the number of the fetch that is not good enough.
pub(super) enum Look<T> {
    Use(Result<T>),
    Ask(u64),
}

impl State {
    pub(super) fn look<T: Clone>(&self, kept: Option<Kept<T>>, access: Access) -> Look<T> {
        let Some(kept) = kept else { return Look::Ask(0) };
        kept.usable(self.generation, access).map_or_else(|| Look::Ask(kept.latest()), Look::Use)
    }

    pub(super) fn look_list(&self, place: &GroupVersion, access: Access) -> Look<Arc<[ApiResource]>> {
        let list = self.lists.get(place).cloned();
        if list.is_none()
            && let Look::Use(Ok(root)) = self.look(self.root.clone(), access)
            && root.denies(place)
        {
            return Look::Use(Err(unknown(place)));
        }
        self.look(list, access)
    }

    /// What has come since, for who waited for it.
    pub(super) fn arrived<T: Clone>(
        &self,
        kept: Option<&Kept<T>>,
        before: u64,
        access: Access,
    ) -> Option<Result<T>> {
        kept?.arrived(self.generation, before, access)
    }

    /// What a fetch that failed leaves to who began it.
    pub(super) fn instead<T: Clone>(
        &self,
        kept: Option<&Kept<T>>,
        error: Error,
        access: Access,
    ) -> Result<T> {
        match kept {
            Some(kept) if kept.value.is_ok() && kept.has_failed() => {
                self.arrived(Some(kept), kept.origin.began, access).unwrap_or(Err(error))
            }
            _ => Err(error),
        }
    }

    pub(super) fn keep_list(&mut self, place: &GroupVersion, list: List, origin: Origin) {
        keep(&mut self.lists, place.clone(), Kept::new(list, origin));
    }

    pub(super) fn keep_root(&mut self, root: Root, origin: Origin) {
        // What the new documents do not list is gone, and what they hold is known.
        self.lists.retain(|place, kept| kept.origin.began > origin.began || !root.denies(place));
        for (place, list) in root.lists() {
            self.keep_list(place, list.clone(), origin);
        }
        self.confirmable = root.live.then(|| root.clone()).or(self.confirmable.take());
        self.root = Some(Kept::new(Ok(root), origin));
    }

    /// The groups could not be had: good ones stay, whatever the reason, since without them nothing is found at all.
    pub(super) fn keep_root_failure(&mut self, error: Error, origin: Origin) {
        let new = Kept::new(Err(error), origin);
        match &mut self.root {
            Some(old) => old.renew(new, |_| true),
            root => *root = Some(new),
        }
    }
}

pub(super) fn keep<K: Eq + std::hash::Hash, T: Clone>(all: &mut HashMap<K, Kept<T>>, name: K, kept: Kept<T>) {
    if all.len() >= MANY && kept.value.is_err() {
        all.retain(|_, old| old.value.is_ok() || old.origin.checked.elapsed() < FAILURES_STAY);
    }
    match all.entry(name) {
        Entry::Vacant(vacant) => drop(vacant.insert(kept)),
        Entry::Occupied(mut old) => old.get_mut().renew(kept, may_pass),
    }
}

pub(super) fn unknown(place: &GroupVersion) -> Error {
    Error::Api(Box::new(Status {
        code: 404,
        reason: "NotFound".to_owned(),
        message: format!("the server has no {place}"),
        ..Status::default()
    }))
}
