//! [`Directory`]: the plugin directory, watched for components and manifests that come, change and go.
//!
//! ```text
//!  inotify ─┐                          thread "plugin-directory"                          ┌── async
//!  a timer ─┴─► look: list + stat ─► settled? ─► stream, digest ─► plan ─► what is new ──►─┴─ Directory::next
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
use pilothouse_plugin::directory::{Change, Writers};
use rustix::io::Errno;
use tokio::sync::mpsc;

/// How a directory is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryOptions {
    /// How often the directory is listed without an inotify event: network file systems send none, and neither do targets of
    /// links outside the directory. The only trigger where inotify is not available.
    pub poll_interval: Duration,
    /// How long a file must be unchanged before it is read.
    pub settle: Duration,
    /// Take a directory, and files, that others than root and the user of the host may write.
    pub allow_writable: bool,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            poll_interval: Duration::from_secs(2),
            settle: Duration::from_millis(150),
            allow_writable: false,
        }
    }
}

/// Why a directory cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It cannot be looked at.
    #[error("the plugin directory {} cannot be read: {error}; create it or name another one with --plugins", .path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// Why. Not a source of this error, since its text has it.
        error: std::io::Error,
    },
    /// It is something else.
    #[error("the plugin directory {} is not a directory; name one with --plugins", .0.display())]
    NotADirectory(PathBuf),
    /// It is a link, which may lead elsewhere later.
    #[error("the plugin directory {} is a link; name the directory itself with --plugins", .0.display())]
    Link(PathBuf),
    /// Others decide which plugins run.
    #[error(
        "the plugin directory {} {reason}: whoever writes it decides what this host runs; {remedy}, or start the host with --allow-writable-plugins",
        .path.display()
    )]
    Writable {
        /// The directory.
        path: PathBuf,
        /// Who may write it.
        reason: String,
        /// How to mend it.
        remedy: String,
    },
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
        if !options.allow_writable {
            check_writers(&path)?;
        }
        match std::fs::read_dir(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(DirectoryError::NotADirectory(path));
            }
            Err(error) => return Err(DirectoryError::Unreadable { path, error }),
        }
        // One batch waits at most: the thread stops looking until it is taken.
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

/// Checks that the directory belongs to the user of the host or to root, and that nobody else may write it. Nothing is
/// changed: whoever made it so may have put plugins into it.
fn check_writers(path: &Path) -> Result<(), DirectoryError> {
    use rustix::fs::{Mode, OFlags};
    let unreadable = |error: Errno| DirectoryError::Unreadable { path: path.to_owned(), error: error.into() };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP | Errno::NOTDIR if path.is_symlink() => DirectoryError::Link(path.to_owned()),
        Errno::NOTDIR => DirectoryError::NotADirectory(path.to_owned()),
        error => unreadable(error),
    })?;
    let metadata = std::fs::File::from(opened)
        .metadata()
        .map_err(|error| DirectoryError::Unreadable { path: path.to_owned(), error })?;
    if let Some(Writers { reason, remedy }) = Writers::of(path, &metadata) {
        return Err(DirectoryError::Writable { path: path.to_owned(), reason, remedy });
    }
    Ok(())
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The thread may be gone already.
        let _ = self.signal.send(watch::Signal::Stop);
    }
}
