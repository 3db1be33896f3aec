//! Files of `spec.configFrom`, polled by one task for all plugins: a mounted Secret changes by a swap of links, and inotify does not report changes on
//! network file systems.
//!
//! Invariant: after the first read, a content counts only when the file was unchanged for a while, so half of a slow copy
//! never replaces a good configuration.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use pilothouse_plugin::directory::{Fingerprint, read_up_to};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use tokio::time::sleep;

use super::entry::document;
use super::shared::Shared;
use super::{Holds, MOST_BYTES, Report, Unusable};

/// Between two looks; as for the plugin directory.
const POLL: Duration = Duration::from_secs(2);
/// How long a file must have kept still.
const SETTLE: Duration = Duration::from_millis(150);

/// How a file looks from outside, if it can be looked at.
type Look = Result<Fingerprint, io::ErrorKind>;

/// The content of a file, or why it cannot be used.
type Content = Result<Holds, String>;

/// The files of all plugins, in one task that polls them; a cheap clone.
#[derive(Clone)]
pub(super) struct Files(Arc<Polled>);

struct Polled {
    /// The folder below which files are; none: anywhere.
    under: Option<PathBuf>,
    files: Shared<PathBuf, Content>,
    is_running: Mutex<bool>,
}

impl Files {
    /// Follows nothing yet. Files are read below a folder, or anywhere if there is none.
    pub(super) fn new(under: Option<PathBuf>) -> Self {
        Self(Arc::new(Polled { under, files: Shared::default(), is_running: Mutex::new(false) }))
    }

    /// Reports the content of a file to one entry, now and whenever it changes, until it is dropped.
    pub(super) async fn follow(self, path: PathBuf, field: String, report: Report) {
        let (first, under) = (path.clone(), self.0.under.clone());
        // The file is read at once; the poller reads it again, since this may be the half of something.
        let source = self.0.files.source(path.clone(), |values| async move {
            let content = blocking(move || content(&first, under.as_deref())).await;
            values.send_replace(Some(content));
        });
        self.poll();
        let unusable = |reason| Unusable {
            message: format!("{field}: {}: {reason}; correct the file, or leave it out", path.display()),
            waits: false,
        };
        source.report(|content| content.map_err(unusable), &report).await;
    }

    /// Starts the task, unless it runs.
    fn poll(&self) {
        let mut is_running = self.0.is_running.lock();
        if !std::mem::replace(&mut *is_running, true) {
            tokio::spawn(poll(Arc::clone(&self.0)));
        }
    }
}

/// Polls the files until nobody has one.
async fn poll(polled: Arc<Polled>) {
    let mut known: HashMap<PathBuf, Look> = HashMap::new();
    loop {
        sleep(POLL).await;
        let held = {
            let mut is_running = polled.is_running.lock();
            let held = polled.files.held();
            if held.is_empty() {
                // The next file to be followed starts another task.
                *is_running = false;
                return;
            }
            held
        };
        known.retain(|path, _| held.iter().any(|(file, _)| file == path));
        let (looks, held) = blocking(move || {
            let looks: Vec<Look> = held.iter().map(|(path, _)| look(path)).collect();
            (looks, held)
        })
        .await;
        let changed: Vec<_> =
            held.into_iter().zip(looks).filter(|((path, _), now)| known.get(path) != Some(now)).collect();
        if changed.is_empty() {
            continue;
        }
        sleep(SETTLE).await;
        // Written to while it is read: the next look finds it changed.
        let under = polled.under.clone();
        let read = blocking(move || {
            let still = changed.into_iter().filter(|((path, _), now)| look(path) == *now);
            still.map(|(file, now)| (content(&file.0, under.as_deref()), file, now)).collect::<Vec<_>>()
        })
        .await;
        for (content, (path, source), now) in read {
            if let Some(source) = source.upgrade() {
                source.set(content);
            }
            known.insert(path, now);
        }
    }
}

/// Files are looked at on threads where a slow disk holds up nobody.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // The runtime ends, and this task with it.
        Err(_) => std::future::pending().await,
    }
}

fn look(path: &Path) -> Look {
    fs::metadata(path).map(|metadata| Fingerprint::of(&metadata)).map_err(|e| e.kind())
}

fn content(path: &Path, under: Option<&Path>) -> Content {
    contents(path, under).and_then(|content| document(&content)).map(Arc::new)
}

fn contents(path: &Path, under: Option<&Path>) -> Result<Bytes, String> {
    let cannot = |e: io::Error| format!("it cannot be read: {e}");
    // A pipe would be waited for, a device never end.
    if !fs::metadata(path).map_err(cannot)?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let most = MOST_BYTES as u64 + 1;
    let content = match under {
        None => read_up_to(path, most).map_err(cannot)?,
        Some(folder) => read_below(folder, path, most)?,
    };
    if content.len() > MOST_BYTES {
        return Err(format!("it is larger than {MOST_BYTES} bytes"));
    }
    Ok(content)
}

/// Reads at most `most` bytes of a file below a folder. The kernel follows links on the way as long as they stay below it,
/// as those of a mounted Secret do.
fn read_below(folder: &Path, path: &Path, most: u64) -> Result<Bytes, String> {
    use std::io::Read as _;
    let cannot = |e: io::Error| format!("it cannot be read: {e}");
    let leads_out = || format!("it leads out of {}, where the host allows files", folder.display());
    let below = path.strip_prefix(folder).map_err(|_| leads_out())?;
    let folder = fs::File::open(folder).map_err(cannot)?;
    // Not waited for if it became a pipe.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::openat2(&folder, below, flags, Mode::empty(), ResolveFlags::BENEATH);
    let file = fs::File::from(opened.map_err(|error| match error {
        Errno::XDEV => leads_out(),
        error => cannot(error.into()),
    })?);
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).map_err(cannot)?;
    Ok(bytes.into())
}
