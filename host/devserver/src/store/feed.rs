//! [`Feed`]: the changes of a table in order, for one watch; and [`Change`], which all watches share.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::watch;

use super::history::MAX_TAKEN;
use super::{Head, Store, Stored};

/// In which form a line is: of which version, and whether with managed fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineForm {
    pub(crate) head: Head,
    pub(crate) with_managed: bool,
}

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) before: Option<Arc<Stored>>,
    /// The object after the change; of one that was deleted its last state with the revision of the deletion.
    pub(crate) now: Arc<Stored>,
    pub(crate) deleted: bool,
    /// The line that most watches send, made when the first of them needs it, and in which form.
    line: OnceLock<(LineForm, Bytes)>,
}

impl Change {
    pub(super) fn new(before: Option<Arc<Stored>>, now: Arc<Stored>, deleted: bool) -> Self {
        Self { before, now, deleted, line: OnceLock::new() }
    }

    /// How much memory the history of it takes: the object before it, which nobody else holds; the last state of one that was
    /// deleted; and the line, whether a watch has made it or not.
    pub(super) fn size(&self) -> usize {
        let length = Stored::size;
        let before = self.before.as_deref().map_or(0, length);
        let last = if self.deleted { length(&self.now) } else { 0 };
        size_of::<Self>() + before + last + length(&self.now)
    }

    pub(crate) fn key(&self) -> &str {
        self.now.object.key().as_str()
    }

    pub(crate) fn revision(&self) -> u64 {
        self.now.revision
    }

    /// The line of this change for whoever sees the object before and after it; made once for the form that is asked
    /// for first.
    pub(crate) fn line(&self, form: &LineForm, make: impl Fn() -> Bytes) -> Bytes {
        let (made_for, line) = self.line.get_or_init(|| (form.clone(), make()));
        if made_for == form { line.clone() } else { make() }
    }
}

/// What has happened since a feed looked last.
#[derive(Debug)]
pub(crate) enum Moved {
    /// All changes up to a revision.
    Changes { changes: Vec<Arc<Change>>, revision: u64 },
    /// Some changes are forgotten.
    Forgotten,
}

/// The changes of a table as they come.
#[derive(Debug)]
pub(crate) struct Feed {
    store: Arc<Store>,
    table: Arc<str>,
    next: u64,
    wake: watch::Receiver<()>,
}

impl Feed {
    pub(super) fn new(store: Arc<Store>, table: Arc<str>, next: u64, wake: watch::Receiver<()>) -> Self {
        Self { store, table, next, wake }
    }

    /// What came since the last call, at once; perhaps nothing, perhaps not all of it.
    pub(crate) fn take(&mut self) -> Moved {
        // Before looking, so that a change after the look wakes again.
        self.wake.mark_unchanged();
        match self.store.news(&self.table, &mut self.next) {
            // There may be more.
            Moved::Changes { changes, revision } if changes.len() == MAX_TAKEN => {
                let revision = changes.last().map_or(revision, |last| last.revision());
                Moved::Changes { changes, revision }
            }
            moved => moved,
        }
    }

    /// Waits until there may be something to take; `false` when nothing more will come. Cancel-safe.
    pub(crate) async fn wait(&mut self) -> bool {
        self.wake.changed().await.is_ok()
    }
}
