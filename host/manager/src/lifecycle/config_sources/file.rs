//! A file of `spec.configFrom`, polled: a mounted Secret changes by a swap of links, and inotify does not report changes on
//! network file systems.
//!
//! Invariant: after the first read, a content counts only when the file was unchanged for a while, so half of a slow copy
//! never replaces a good configuration.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use pilothouse_plugin::directory::{Fingerprint, read_up_to};
use tokio::time::sleep;

use super::entry::document;
use super::{MOST_BYTES, Read, Report, Unusable};

/// Between two looks; as for the plugin directory.
const POLL: Duration = Duration::from_secs(2);
/// How long a file must have kept still.
const SETTLE: Duration = Duration::from_millis(150);

/// How a file looks from outside, if it can be looked at.
type Look = Result<Fingerprint, io::ErrorKind>;

/// Tells what a file holds, now and whenever that changes, until it is dropped.
pub(super) async fn follow(path: PathBuf, field: String, report: Report) {
    report.send(read(path.clone(), field.clone()).await).await;
    // None: what was told first may be the half of something, and is read again.
    let mut known: Option<Look> = None;
    loop {
        sleep(POLL).await;
        let now = look(path.clone()).await;
        if known.as_ref() == Some(&now) {
            continue;
        }
        sleep(SETTLE).await;
        if look(path.clone()).await == now {
            let read = read(path.clone(), field.clone()).await;
            // Written to while it was read: the next look finds it changed.
            report.send(read).await;
            known = Some(now);
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

async fn look(path: PathBuf) -> Look {
    blocking(move || fs::metadata(path).map(|metadata| Fingerprint::of(&metadata)).map_err(|e| e.kind()))
        .await
}

async fn read(path: PathBuf, field: String) -> Read {
    blocking(move || {
        contents(&path).and_then(|content| document(&content)).map_err(|reason| Unusable {
            message: format!("{field}: {}: {reason}; correct the file, or leave it out", path.display()),
            waits: false,
        })
    })
    .await
}

fn contents(path: &Path) -> Result<Bytes, String> {
    let cannot = |e: io::Error| format!("it cannot be read: {e}");
    // A pipe would be waited for, a device never end.
    if !fs::metadata(path).map_err(cannot)?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let content = read_up_to(path, MOST_BYTES as u64 + 1).map_err(cannot)?;
    if content.len() > MOST_BYTES {
        return Err(format!("it is larger than {MOST_BYTES} bytes"));
    }
    Ok(content)
}
