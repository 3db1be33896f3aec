//! [`Directory`]: the plugin directory, watched for components and manifests that come, change and go.
//!
//! ```text
//!  inotify ─┐                          thread "plugin-directory"                          ┌── async
//!  a timer ─┴─► look: list + stat ─► settled? ─► read + digest ─► plan ─► what is new ──►─┴─ Directory::next
//! ```
//!
//! The rules are those of [`pilothouse_plugin::directory`].
//!
//! Listing, reading and hashing happen on a thread of their own, so that a slow disk stalls no worker. Called by the life
//! cycle.

mod watch;

use std::path::{Path, PathBuf};
use std::sync::mpsc as signals;
use std::time::Duration;

use pilothouse_plugin::Ceilings;
use pilothouse_plugin::directory::Change;
use tokio::sync::mpsc;

/// How a directory is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryOptions {
    /// How often the directory is listed without an inotify event: network file systems send none, and neither do targets of
    /// links outside the directory. The only trigger where inotify is not available.
    pub poll_interval: Duration,
    /// How long a file must be unchanged before it is read.
    pub settle: Duration,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self { poll_interval: Duration::from_secs(2), settle: Duration::from_millis(150) }
    }
}

/// Why a directory cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It cannot be looked at.
    #[error("the plugin directory {} cannot be read: {source}; create it or name another one with --plugins", .path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is something else.
    #[error("the plugin directory {} is not a directory; name one with --plugins", .0.display())]
    NotADirectory(PathBuf),
    /// The thread that watches cannot be started.
    #[error(
        "the plugin directory cannot be watched, since no thread can be started: {0}; raise the limit on processes"
    )]
    Thread(std::io::Error),
}

/// A watched plugin directory.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    changes: mpsc::Receiver<Vec<Change>>,
    signal: signals::Sender<watch::Signal>,
    ended: bool,
}

impl Directory {
    /// Starts to watch a directory.
    ///
    /// # Errors
    /// When there is no such directory, or no thread for it.
    pub fn new(path: impl Into<PathBuf>, options: DirectoryOptions) -> Result<Self, DirectoryError> {
        Self::within(path, options, Ceilings::default())
    }

    /// As [`new`](Self::new), with the ceilings for the limits of manifests.
    ///
    /// # Errors
    /// When there is no such directory, or no thread for it.
    pub fn within(
        path: impl Into<PathBuf>,
        options: DirectoryOptions,
        ceilings: Ceilings,
    ) -> Result<Self, DirectoryError> {
        let path = path.into();
        match std::fs::read_dir(&path) {
            Ok(_) => {}
            Err(source) if source.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(DirectoryError::NotADirectory(path));
            }
            Err(source) => return Err(DirectoryError::Unreadable { path, source }),
        }
        // One batch waits at most: the thread stops looking until it is taken, so that components do not pile up.
        let (sender, changes) = mpsc::channel(1);
        let signal = watch::spawn(path.clone(), options, ceilings, sender).map_err(DirectoryError::Thread)?;
        Ok(Self { path, changes, signal, ended: false })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the next changes, at least one, to be followed in their order. Cancel-safe: what a dropped call would
    /// have answered, the next one answers.
    pub async fn next(&mut self) -> Vec<Change> {
        if !self.ended {
            if let Some(changes) = self.changes.recv().await {
                return changes;
            }
            self.ended = true;
            let reason = "the thread that watches it ended, which is a bug of the host; restart the host";
            return vec![Change::Unreadable { reason: reason.into() }];
        }
        std::future::pending().await
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The thread may be gone already.
        let _ = self.signal.send(watch::Signal::Stop);
    }
}
