//! [`ConfigSources`]: the configuration of a plugin, put together from its manifest and from what `spec.configFrom` names, and
//! again whenever that changes.
//!
//! ```text
//!  file ──── looked at every two seconds ─┐
//!  Secret ── list + watch of one object ──┼─► a burst is over? ─► merge ─► differs? ─► ConfigSources::next
//!  ConfigMap ── the same ─────────────────┘
//! ```
//!
//! Invariants:
//! * Values are in no log line, error or `Debug`: errors name the object or the file, the key, and the place in a document.
//! * Each entry is followed by a task of its own, and all of them end with the value that is here. A plugin without entries has
//!   none.
//! * What is told differs from what was told before: another merged text, or another error.
//!
//! The objects are read with the host's own identity, one by one: a shared informer would hold all Secrets of a namespace.
//! Called by [`crate::lifecycle::follow`].

mod entry;
mod file;
mod merged;
mod object;

use std::sync::Arc;
use std::time::Duration;

use pilothouse_cache::Availability;
use pilothouse_client::Client;
use pilothouse_plugin::{ConfigFrom, Manifest};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

pub(crate) use self::merged::MergedConfig;

/// A change is told when nothing more has come for so long: several objects are often applied together.
const QUIET: Duration = Duration::from_millis(250);
/// A burst is told after so long even if it goes on.
const LONGEST_BURST: Duration = Duration::from_secs(3);

/// The most bytes of a file, and of the merged configuration as JSON: what etcd takes of one object is about as much.
const MOST_BYTES: usize = 1 << 20;

/// Why a configuration cannot be had. Its text has place, reason and remedy, and no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unusable {
    pub(crate) message: String,
    /// Whether it may come by itself, as an object that is not there yet, rather than by a correction of what is there.
    pub(crate) waits: bool,
}

/// What one entry holds: keys of the top level. Shared with each configuration that was made of it.
type Holds = Arc<Map<String, Value>>;

/// What is told of one entry.
type Read = Result<Map<String, Value>, Unusable>;

/// The way of one entry's task to the sources.
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

/// The configuration of a plugin and what it is made of.
pub(crate) struct ConfigSources {
    own: Map<String, Value>,
    /// By entry; none that has not answered yet.
    holds: Vec<Option<Result<Holds, Unusable>>>,
    reports: mpsc::Receiver<(usize, Read)>,
    /// Something came that was not told yet.
    stale: bool,
    told: Option<Result<MergedConfig, Unusable>>,
    /// Ends the tasks.
    _tasks: JoinSet<()>,
}

impl ConfigSources {
    /// Begins to follow the entries of a manifest. To be called on the runtime of the connections.
    pub(crate) fn new(manifest: &Manifest, client: &Client, availability: &Arc<Availability>) -> Self {
        let entries = &manifest.config_from;
        let (sender, reports) = mpsc::channel(entries.len().max(1));
        let mut tasks = JoinSet::new();
        for (index, from) in entries.iter().enumerate() {
            let report = Report { index, sender: sender.clone() };
            let field = format!("spec.configFrom[{index}].{from}");
            match from {
                ConfigFrom::File(path) => {
                    tasks.spawn(file::follow(path.clone(), field, report));
                }
                ConfigFrom::Secret(reference) | ConfigFrom::ConfigMap(reference) => {
                    let kind = object::Kind::of(from);
                    let followed = object::Followed::new(kind, reference, &field);
                    tasks.spawn(followed.follow(client.clone(), Arc::clone(availability), report));
                }
            }
        }
        Self {
            own: manifest.config.clone(),
            holds: vec![None; entries.len()],
            reports,
            stale: entries.is_empty(),
            told: None,
            _tasks: tasks,
        }
    }

    /// Waits for the configuration, and then for another one than was told last, or for why there is none. Without entries
    /// there is one only. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<MergedConfig, Unusable> {
        loop {
            if !self.stale {
                let Some((index, read)) = self.reports.recv().await else { std::future::pending().await };
                self.take(index, read);
            }
            // The first is wanted soon, and there is nothing that it could disturb.
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

    /// Takes what comes until it is quiet.
    async fn burst(&mut self) {
        let end = Instant::now() + LONGEST_BURST;
        while let Ok(Some((index, read))) =
            timeout_at(end.min(Instant::now() + QUIET), self.reports.recv()).await
        {
            self.take(index, read);
        }
    }

    fn take(&mut self, index: usize, read: Read) {
        self.holds[index] = Some(read.map(Arc::new));
        self.stale = true;
    }

    /// What is to be told now; nothing as long as an entry has not answered and nothing is wrong with the others.
    fn now(&self) -> Option<Result<MergedConfig, Unusable>> {
        let answers = || self.holds.iter().flatten();
        if let Some(error) = answers().find_map(|holds| holds.as_ref().err()) {
            return Some(Err(error.clone()));
        }
        let holds: Vec<Holds> = answers().flatten().map(Arc::clone).collect();
        (holds.len() == self.holds.len()).then(|| MergedConfig::new(&self.own, holds))
    }
}

#[cfg(test)]
mod tests;
