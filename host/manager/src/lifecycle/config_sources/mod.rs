//! [`ConfigSources`]: the configuration of a plugin, merged from its manifest and the sources of `spec.configFrom`, again after
//! each change.
//!
//! ```text
//!  file ──── looked at every two seconds ─┐ shared by
//!  Secret ── list + watch of one object ──┼─ all plugins ─► a burst is over? ─► merge ─► differs? ─► ConfigSources::next
//!  ConfigMap ── the same ─────────────────┘
//! ```
//!
//! Invariants:
//! * Values are in no log line, error or `Debug`: errors name the object or the file, the key, and the place in a document.
//! * A file or object is followed once, however many entries name it. Each entry has a task that waits for changes; all tasks
//!   of a plugin end when its `ConfigSources` is dropped. A plugin without entries has none.
//! * Each result of `next` differs from the one before: another merged text, or another error.
//!
//! The objects are read with the host's own identity, one by one: a shared informer would hold all Secrets of a namespace. A
//! plugin with a ServiceAccount gets no object that the account may not `get`.
//! Called by [`crate::lifecycle::follow`].

mod entry;
mod file;
mod merged;
mod object;
mod shared;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_cache::Availability;
use pilothouse_client::Client;
use pilothouse_plugin::{ConfigFrom, Manifest};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use self::file::Files;
pub(crate) use self::merged::MergedConfig;
use self::object::{ObjectEntry, Objects};
use crate::access::AccessReviews;

/// A change is reported after so long without another one: several objects are often applied together.
const QUIET: Duration = Duration::from_millis(250);
/// A burst is reported after so long even if it goes on.
const LONGEST_BURST: Duration = Duration::from_secs(3);

/// Most bytes of a file, and of the merged configuration as JSON; etcd limits one object to about as much.
const MOST_BYTES: usize = 1 << 20;

/// Why a configuration is not usable. The text has place, reason and remedy, and no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unusable {
    pub(crate) message: String,
    /// Whether it may become usable without a correction, as when an object does not exist yet.
    pub(crate) waits: bool,
}

/// The top-level keys of one entry. Shared with each configuration that was merged from it.
type Holds = Arc<Map<String, Value>>;

/// The result of one read of an entry.
type Read = Result<Holds, Unusable>;

/// The files and objects that plugins of a host name, each followed once; a cheap clone.
#[derive(Clone)]
pub(crate) struct SharedSources {
    files: Files,
    objects: Objects,
    reviews: AccessReviews,
}

impl SharedSources {
    /// Follows nothing yet. Objects are read through `client`, files below `files_under`, or anywhere if there is none.
    pub(crate) fn new(
        client: Client,
        availability: Arc<Availability>,
        reviews: AccessReviews,
        files_under: Option<PathBuf>,
    ) -> Self {
        Self { files: Files::new(files_under), objects: Objects::new(client, availability), reviews }
    }
}

/// Sends the reads of one entry to the `ConfigSources`.
struct Report {
    index: usize,
    sender: mpsc::Sender<(usize, Read)>,
}

impl Report {
    async fn send(&self, read: Read) {
        // The sources may be gone: this task ends next.
        let _ = self.sender.send((self.index, read)).await;
    }
}

/// The configuration of a plugin and its sources.
pub(crate) struct ConfigSources {
    own: Map<String, Value>,
    /// For each entry, whether it is a ConfigMap.
    is_open: Vec<bool>,
    /// The last read of each entry; none before the first.
    holds: Vec<Option<Result<Holds, Unusable>>>,
    reports: mpsc::Receiver<(usize, Read)>,
    /// A read arrived that `next` has not reported yet.
    stale: bool,
    told: Option<Result<MergedConfig, Unusable>>,
    /// Ends the tasks.
    _tasks: JoinSet<()>,
}

impl ConfigSources {
    /// Begins to follow the entries of a manifest. To be called on the runtime of the connections.
    pub(crate) fn new(manifest: &Manifest, shared: &SharedSources) -> Self {
        let entries = &manifest.config_from;
        let (sender, reports) = mpsc::channel(entries.len().max(1));
        let mut tasks = JoinSet::new();
        for (index, from) in entries.iter().enumerate() {
            let report = Report { index, sender: sender.clone() };
            let field = format!("spec.configFrom[{index}].{from}");
            match from {
                ConfigFrom::File(path) => {
                    tasks.spawn(shared.files.clone().follow(path.clone(), field, report));
                }
                ConfigFrom::Secret(reference) | ConfigFrom::ConfigMap(reference) => {
                    let kind = object::Kind::of(from);
                    let account = manifest.service_account.as_ref();
                    let right =
                        account.map(|account| shared.reviews.review(kind.question(account, reference)));
                    let entry = ObjectEntry::new(kind, reference.clone(), &field, right);
                    tasks.spawn(shared.objects.clone().follow(entry, report));
                }
            }
        }
        Self {
            own: manifest.config.clone(),
            is_open: entries.iter().map(|from| matches!(from, ConfigFrom::ConfigMap(_))).collect(),
            holds: vec![None; entries.len()],
            reports,
            stale: entries.is_empty(),
            told: None,
            _tasks: tasks,
        }
    }

    /// Waits for the configuration or the error that keeps it from being usable, if it differs from the last result. Without
    /// entries there is one result only. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<MergedConfig, Unusable> {
        loop {
            if !self.stale {
                let Some((index, read)) = self.reports.recv().await else { std::future::pending().await };
                self.take(index, read);
            }
            // The first configuration is reported at once: no running generation can be disturbed.
            if self.told.as_ref().is_some_and(Result::is_ok) {
                self.burst().await;
            }
            self.stale = false;
            if let Some(now) = self.now()
                && self.told.as_ref() != Some(&now)
            {
                self.told = Some(now.clone());
                return now;
            }
        }
    }

    /// Takes reads until none came for a while.
    async fn burst(&mut self) {
        let end = Instant::now() + LONGEST_BURST;
        while let Ok(Some((index, read))) =
            timeout_at(end.min(Instant::now() + QUIET), self.reports.recv()).await
        {
            self.take(index, read);
        }
    }

    fn take(&mut self, index: usize, read: Read) {
        self.holds[index] = Some(read);
        self.stale = true;
    }

    /// The present result; none while an entry has not been read and the others are usable.
    fn now(&self) -> Option<Result<MergedConfig, Unusable>> {
        let answers = || self.holds.iter().flatten();
        if let Some(error) = answers().find_map(|holds| holds.as_ref().err()) {
            return Some(Err(error.clone()));
        }
        let holds = answers().flatten().zip(&self.is_open);
        let holds: Vec<(Holds, bool)> = holds.map(|(holds, open)| (Arc::clone(holds), *open)).collect();
        (holds.len() == self.holds.len()).then(|| MergedConfig::new(&self.own, holds))
    }
}

#[cfg(test)]
mod tests;
