//! [`Journal`]: every change of every table in order, for the server's own controllers.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Change, Store};

/// How many changes wait for a reader that falls behind, and how many bytes they may take; a reader that has lost some looks
/// at all objects anew.
const MAX_WAITING: usize = 16_384;
const MAX_BYTES: usize = 64 << 20;

/// A change and the table that it was made in.
pub(super) type Entry = (Arc<str>, Arc<Change>);

/// What has happened since the journal was read last.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) entries: Vec<(Arc<str>, Arc<Change>)>,
    /// Up to which revision.
    pub(crate) revision: u64,
    /// Some entries before these were lost.
    pub(crate) lost: bool,
}

/// The entries that wait for the reader.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    entries: Vec<Entry>,
    bytes: usize,
    lost: bool,
}

impl Waiting {
    /// For a reader that has seen nothing yet.
    pub(super) fn new() -> Self {
        Self { lost: true, ..Self::default() }
    }

    pub(super) fn add(&mut self, entry: Entry) {
        if self.entries.len() >= MAX_WAITING || self.bytes >= MAX_BYTES {
            *self = Self::new();
        }
        self.bytes += entry.1.size();
        self.entries.push(entry);
    }

    pub(super) fn take(&mut self, revision: u64) -> Batch {
        let Self { entries, lost, .. } = std::mem::take(self);
        Batch { entries, revision, lost }
    }
}

/// The reading end; there is one for a store.
#[derive(Debug)]
pub(crate) struct Journal {
    store: Arc<Store>,
    wake: watch::Receiver<()>,
}

impl Journal {
    pub(super) fn new(store: Arc<Store>, wake: watch::Receiver<()>) -> Self {
        Self { store, wake }
    }

    /// What came since the last call; the first one says that everything before was lost.
    pub(crate) fn take(&mut self) -> Batch {
        // Before looking, so that a change after the look wakes again.
        self.wake.mark_unchanged();
        self.store.read_journal()
    }

    /// Waits until there may be something to take; never ends without. Cancel-safe.
    pub(crate) async fn wait(&mut self) {
        if self.wake.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
