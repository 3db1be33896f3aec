//! [`Watch`]: tells which sources changed. A thread waits for inotify or a timer, looks, and sends what is different.
//!
//! ```text
//!  inotify ─┐               thread "dev-watch"                       ┌── async
//!  a timer ─┴─► wait until it is quiet ─► Snapshot::look ─► paths ─►─┴─ Watch::next
//! ```
//!
//! Invariants: a folder is watched before it is listed, so nothing that happens in between is missed; which event came is of no
//! interest, each only says that a look is worth while. Called by [`super::workshop`].

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self as signals, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

use super::log::{Log, Tone};
pub(crate) use super::snapshot::Root;
use super::snapshot::Snapshot;

/// A look is taken this often even if nothing was heard: network file systems say nothing. All there is where inotify is not
/// to be had.
const POLL: Duration = Duration::from_secs(2);
/// How long nothing must happen before a look: an editor or git writes many files at once.
const QUIET: Duration = Duration::from_millis(100);
/// The longest wait for that.
const PATIENCE: Duration = Duration::from_secs(1);

enum Signal {
    Look,
    Add(BTreeSet<Root>, SystemTime),
    Stop,
}

/// The watched sources.
pub(crate) struct Watch {
    signals: Sender<Signal>,
    changes: mpsc::UnboundedReceiver<Vec<PathBuf>>,
}

impl Watch {
    /// Starts to watch; what the roots hold now is known when this returns.
    pub(crate) fn start(roots: BTreeSet<Root>, log: Log) -> Result<Self> {
        let (sender, receiver) = signals::channel();
        let (changed, changes) = mpsc::unbounded_channel();
        let mut eyes = FolderWatcher {
            signal: sender.clone(),
            watcher: None,
            watched: BTreeMap::new(),
            log,
            warned: false,
        };
        let mut snapshot = Snapshot::default();
        // All that is there is known.
        snapshot.add(roots, SystemTime::now() + PATIENCE);
        let first = eyes.look(&mut snapshot);
        let run = move || {
            let send = |paths: Vec<PathBuf>| paths.is_empty() || changed.send(paths).is_ok();
            let mut alive = send(first);
            while alive {
                alive = match wait(&receiver) {
                    Signal::Stop => false,
                    Signal::Look => send(eyes.look(&mut snapshot)),
                    Signal::Add(roots, since) => {
                        let mut paths = snapshot.add(roots, since);
                        paths.extend(eyes.look(&mut snapshot));
                        send(paths)
                    }
                };
            }
        };
        std::thread::Builder::new().name("dev-watch".into()).spawn(run).context("starting a thread")?;
        Ok(Self { signals: sender, changes })
    }

    /// Watches these too; what changed in them after `since` is told.
    pub(crate) fn add(&self, roots: BTreeSet<Root>, since: SystemTime) {
        let _ = self.signals.send(Signal::Add(roots, since));
    }

    /// Waits for the next files that changed, at least one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Vec<PathBuf> {
        match self.changes.recv().await {
            Some(paths) => paths,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.signals.send(Signal::Stop);
    }
}

/// Waits for something to do; after a hint that something changed, until it is quiet.
fn wait(signals: &Receiver<Signal>) -> Signal {
    let mut next = Instant::now() + POLL;
    let mut latest = None;
    loop {
        match signals.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(Signal::Look) => {
                let now = Instant::now();
                next = (now + QUIET).min(*latest.get_or_insert(now + PATIENCE));
            }
            Ok(other) => return other,
            Err(RecvTimeoutError::Timeout) => return Signal::Look,
            Err(RecvTimeoutError::Disconnected) => return Signal::Stop,
        }
    }
}

/// inotify, as far as it is to be had.
struct FolderWatcher {
    signal: Sender<Signal>,
    watcher: Option<RecommendedWatcher>,
    /// Each with what identifies it: another folder may have taken the path.
    watched: BTreeMap<PathBuf, Identity>,
    log: Log,
    warned: bool,
}

impl FolderWatcher {
    /// Looks for changes, and again where there are folders that were not watched while they were listed.
    fn look(&mut self, snapshot: &mut Snapshot) -> Vec<PathBuf> {
        let mut changed = snapshot.look();
        while self.watch(&snapshot.folders) {
            changed.extend(snapshot.look());
        }
        changed
    }

    /// Watches these folders and no others; answers whether one is new.
    fn watch(&mut self, folders: &BTreeSet<PathBuf>) -> bool {
        if self.watcher.is_none() {
            let signal = self.signal.clone();
            let heard = move |event: notify::Result<notify::Event>| {
                // An error is a reason to look, too. The thread may be gone: nothing to be done then.
                if event.map_or(true, |event| matters(&event.kind)) {
                    let _ = signal.send(Signal::Look);
                }
            };
            match notify::recommended_watcher(heard) {
                Ok(watcher) => self.watcher = Some(watcher),
                Err(error) => self.warn(&error),
            }
        }
        let Some(mut watcher) = self.watcher.take() else { return false };
        self.watched.retain(|folder, _| {
            let stays = folders.contains(folder);
            if !stays {
                // It may be gone altogether, and its watch with it.
                let _ = watcher.unwatch(folder);
            }
            stays
        });
        let mut new = false;
        for folder in folders {
            // One that went meanwhile shows at the next look.
            let Ok(there) = identity(folder) else {
                continue;
            };
            if self.watched.get(folder) == Some(&there) {
                continue;
            }
            let _ = watcher.unwatch(folder);
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(folder.clone(), there);
                    new = true;
                }
                Err(_) if !folder.exists() => {}
                Err(error) => self.warn(&error),
            }
        }
        self.watcher = Some(watcher);
        new
    }

    fn warn(&mut self, error: &notify::Error) {
        if !std::mem::replace(&mut self.warned, true) {
            self.log.say(
                "dev",
                Tone::Warning,
                &format!(
                    "inotify is unavailable: {error}; polling sources every {} s; raise \
                     fs.inotify.max_user_instances and max_user_watches",
                    POLL.as_secs()
                ),
            );
        }
    }
}

/// Opening and reading are not changes, and compilers do them all the time.
fn matters(kind: &EventKind) -> bool {
    match kind {
        EventKind::Access(access) => *access == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

/// What differs between a folder and another one that was made in its place.
#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = SystemTime;

#[cfg(unix)]
fn identity(folder: &Path) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(folder).map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(folder: &Path) -> io::Result<Identity> {
    std::fs::metadata(folder)?.created()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::dev::log::testing::Written;

    async fn next(watch: &mut Watch) -> Vec<PathBuf> {
        tokio::time::timeout(Duration::from_secs(30), watch.next()).await.expect("a change")
    }

    fn watch(folder: &Path) -> Watch {
        Watch::start(BTreeSet::from([Root::Tree(folder.to_owned())]), Written::default().log()).unwrap()
    }

    #[tokio::test]
    async fn changes_are_told_also_in_folders_that_came_later() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("known.rs"), "1").unwrap();
        let mut watch = watch(dir.path());
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("a.rs"), "1").unwrap();
        assert_eq!(next(&mut watch).await, [inner.join("a.rs")]);
        fs::write(inner.join("a.rs"), "two").unwrap();
        assert_eq!(next(&mut watch).await, [inner.join("a.rs")]);
    }

    #[tokio::test]
    async fn a_folder_that_was_replaced_is_watched_on() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let mut watch = watch(dir.path());
        fs::remove_dir(&inner).unwrap();
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("a.rs"), "1").unwrap();
        assert_eq!(next(&mut watch).await, [inner.join("a.rs")]);
    }

    #[tokio::test]
    async fn roots_may_be_added() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut watch = watch(one.path());
        watch.add(BTreeSet::from([Root::Tree(two.path().to_owned())]), SystemTime::now());
        let file = two.path().join("a.rs");
        fs::write(&file, "1").unwrap();
        assert_eq!(next(&mut watch).await, [file]);
    }

    #[test]
    fn reading_is_no_reason_to_look() {
        for kind in [AccessKind::Open(AccessMode::Any), AccessKind::Read, AccessKind::Close(AccessMode::Read)]
        {
            assert!(!matters(&EventKind::Access(kind)), "{kind:?}");
        }
        assert!(matters(&EventKind::Access(AccessKind::Close(AccessMode::Write))));
        assert!(matters(&EventKind::Other));
    }
}
