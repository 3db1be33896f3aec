//! The thread behind a [`super::Directory`]: waits for inotify or a timer, lists the directory, and sends the changes.
//!
//! Invariant: the watch is set before the directory is listed, so no change in between is missed. The content of an event is
//! ignored: each event only triggers a listing.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Instant;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use pilothouse_plugin::Ceilings;
use pilothouse_plugin::directory::{Change, Rules, Scanner};

use super::DirectoryOptions;

/// Wakes the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// Something may have changed.
    Look,
    /// The consumer is gone.
    Stop,
}

/// Starts the thread; it ends on [`Signal::Stop`] or when nobody takes the changes.
pub(super) fn spawn(
    path: PathBuf,
    options: DirectoryOptions,
    ceilings: Ceilings,
    changes: tokio::sync::mpsc::Sender<Vec<Change>>,
) -> io::Result<Sender<Signal>> {
    let (sender, signals) = mpsc::channel();
    let own = sender.clone();
    std::thread::Builder::new().name("plugin-directory".into()).spawn(move || {
        let mut watch = Watch { path: path.clone(), signal: own, watched: None, warned: false };
        let DirectoryOptions { settle, allow_writable, poll_interval } = options;
        let mut scanner = Scanner::new(path, Rules { settle, ceilings, allow_writable });
        loop {
            watch.ensure();
            let looked = Instant::now();
            let seen = scanner.look(looked);
            if !seen.changes.is_empty() && changes.blocking_send(seen.changes).is_err() {
                return;
            }
            let next = seen.due.unwrap_or(looked + poll_interval).min(looked + poll_interval);
            // A file that is being copied is heard of at every write; that is no reason to look each time.
            let pace = looked + settle / 4;
            if wait(&signals, next, pace) == Signal::Stop {
                return;
            }
        }
    })?;
    Ok(sender)
}

/// Waits until `next`, or for a signal, then at least until `pace`; answers `Stop` at once.
fn wait(signals: &Receiver<Signal>, next: Instant, pace: Instant) -> Signal {
    let mut until = next;
    loop {
        match signals.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return Signal::Stop,
            Ok(Signal::Look) => until = until.min(pace),
            Err(RecvTimeoutError::Timeout) => return Signal::Look,
        }
    }
}

/// inotify on the directory, as long as it is to be had.
struct Watch {
    path: PathBuf,
    signal: Sender<Signal>,
    /// The watcher, and which directory it watches: another one may have taken the path.
    watched: Option<(RecommendedWatcher, (u64, u64))>,
    warned: bool,
}

impl Watch {
    fn ensure(&mut self) {
        let Some(there) = identity(&self.path) else {
            self.watched = None;
            return;
        };
        if self.watched.as_ref().is_some_and(|(_, watched)| *watched == there) {
            return;
        }
        // Dropped first: where few instances are to be had, the old one is in the way of the new.
        self.watched = None;
        match self.watch() {
            Ok(watcher) => {
                self.watched = Some((watcher, there));
                self.warned = false;
            }
            Err(error) if !self.warned => {
                self.warned = true;
                tracing::warn!(
                    event = "plugin_directory_polled", directory = %self.path.display(), %error,
                    "inotify is unavailable, so the plugin directory is polled; raise fs.inotify.max_user_instances and max_user_watches"
                );
            }
            Err(_) => {}
        }
    }

    fn watch(&self) -> notify::Result<RecommendedWatcher> {
        let signal = self.signal.clone();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // An error is a reason to look, too. The thread may be gone: nothing to be done then.
            if event.map_or(true, |event| matters(&event.kind)) {
                let _ = signal.send(Signal::Look);
            }
        })?;
        watcher.watch(&self.path, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    }
}

/// Opening and reading are not changes, and we do them ourselves: each look would bring about the next.
fn matters(kind: &EventKind) -> bool {
    match kind {
        EventKind::Access(access) => *access == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, ModifyKind, RemoveKind};

    use super::*;

    #[test]
    fn what_a_look_itself_brings_about_is_no_reason_for_another() {
        let any = AccessMode::Any;
        for kind in [AccessKind::Open(any), AccessKind::Read, AccessKind::Close(AccessMode::Read)] {
            assert!(!matters(&EventKind::Access(kind)), "{kind:?}");
        }
        for kind in [
            EventKind::Access(AccessKind::Close(AccessMode::Write)),
            EventKind::Create(CreateKind::Any),
            EventKind::Modify(ModifyKind::Any),
            EventKind::Remove(RemoveKind::Any),
            // What an overflow of the kernel's queue comes as.
            EventKind::Other,
        ] {
            assert!(matters(&kind), "{kind:?}");
        }
    }

    #[test]
    fn a_directory_that_takes_the_place_of_another_is_watched() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("plugins");
        std::fs::create_dir(&path).unwrap();
        let (signal, _signals) = mpsc::channel();
        let mut watch = Watch { path: path.clone(), signal, watched: None, warned: false };
        let mut watched = || {
            watch.ensure();
            watch.watched.as_ref().map(|(_, watched)| *watched)
        };
        let first = identity(&path);
        assert!(first.is_some());
        assert_eq!(watched(), first);
        std::fs::rename(&path, outer.path().join("aside")).unwrap();
        assert_eq!(watched(), None);
        std::fs::create_dir(&path).unwrap();
        assert_ne!(identity(&path), first);
        assert_eq!(watched(), identity(&path));
        std::fs::rename(&path, outer.path().join("aside too")).unwrap();
        std::fs::rename(outer.path().join("aside"), &path).unwrap();
        assert_eq!(watched(), first);
    }
}
