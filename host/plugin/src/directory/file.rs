//! [`Tracked`]: one file of the directory, with its current fingerprint and its content when it last settled: of a component
//! the digest alone, which is computed from a stream.
//!
//! Invariant: `view` was read while the file had the fingerprint `viewed`; the file is settled iff it still has it.
//! Symbolic links are followed, so that the swapped links of a mounted ConfigMap appear as changed files.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use memmap2::MmapMut;
use sha2::{Digest as _, Sha256};

use super::Rules;
use super::writers::Writers;
use crate::manifest::{Manifest, ManifestError};

/// Maximum size of a component in bytes.
const MAX_COMPONENT: u64 = 64 << 20;
/// Maximum size of a manifest in bytes.
const MAX_MANIFEST: u64 = 1 << 20;

/// SHA-256 of a file's content.
pub(super) type Digest = [u8; 32];

/// `sha256:…`
pub(super) fn spell(digest: &Digest) -> String {
    use std::fmt::Write as _;
    digest.iter().fold(String::from("sha256:"), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The role of a file, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Component,
    Manifest,
}

/// Splits a file name into stem and role; `None` for ignored files.
pub(super) fn role(name: &str) -> Option<(&str, Role)> {
    if name.starts_with('.') {
        return None;
    }
    match name.rsplit_once('.')? {
        (stem, "wasm") => Some((stem, Role::Component)),
        (stem, "yaml" | "yml") => Some((stem, Role::Manifest)),
        _ => None,
    }
}

/// The state of a file without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Look {
    Absent,
    /// The file cannot be used: reason and remedy.
    Unusable(String),
    File(Fingerprint),
}

impl Look {
    /// Whether it is a file that was changed last before this time, by the clock of its file system.
    pub(super) fn changed_before(&self, time: SystemTime) -> bool {
        let Self::File(Fingerprint { changed: (seconds, _), .. }) = self else { return false };
        let time = time.duration_since(UNIX_EPOCH).map(|since| since.as_secs());
        time.is_ok_and(|time| u64::try_from(*seconds).is_ok_and(|changed| changed < time))
    }
}

/// Changes whenever a file's content may have changed. It includes the change time (ctime), because writers such as `cp
/// -p` set the modification time back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    device: u64,
    inode: u64,
    pub(super) size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Fingerprint {
    /// The fingerprint of a file with this metadata.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The content of a settled file.
#[derive(Debug, Clone)]
pub(super) enum View {
    Component(Digest),
    Manifest(Digest, Result<Arc<Manifest>, ManifestError>),
    /// Reason and remedy.
    Unusable(String),
}

/// One file of the directory.
#[derive(Debug)]
pub(super) struct Tracked {
    look: Look,
    /// The time of the last change of its state.
    since: Instant,
    /// The time since which it is not settled.
    restless: Instant,
    viewed: Option<Look>,
    view: Option<View>,
}

impl Tracked {
    pub(super) fn new(look: Look, now: Instant) -> Self {
        Self { look, since: now, restless: now, viewed: None, view: None }
    }

    /// Records the current state of the file.
    pub(super) fn seen(&mut self, look: Look, now: Instant) {
        if self.look == look {
            return;
        }
        if self.is_settled() {
            self.restless = now;
        }
        self.look = look;
        self.since = now;
    }

    pub(super) fn is_settled(&self) -> bool {
        self.viewed.as_ref() == Some(&self.look)
    }

    /// The content of the file, if it has settled.
    pub(super) fn view(&self) -> Option<&View> {
        self.view.as_ref().filter(|_| self.is_settled())
    }

    /// The time at which the file may settle; `None` when it has settled.
    pub(super) fn due(&self, settle: Duration) -> Option<Instant> {
        (!self.is_settled()).then(|| self.since + settle)
    }

    /// Whether the file is unsettled for less than this duration.
    pub(super) fn is_restless(&self, now: Instant, patience: Duration) -> bool {
        !self.is_settled() && now.duration_since(self.restless) < patience
    }

    /// Reads the file if it was unchanged for the settling time. `false`: it is removed.
    pub(super) fn settle(&mut self, path: &Path, role: Role, now: Instant, rules: &Rules) -> bool {
        if self.due(rules.settle).is_none_or(|due| due > now) {
            return true;
        }
        let view = match &self.look {
            Look::Absent => return false,
            Look::Unusable(reason) => View::Unusable(reason.clone()),
            Look::File(fingerprint) => match view(path, role, *fingerprint, rules) {
                Ok(view) => {
                    // The file was written during the read, so the content may be a mixture.
                    let after = look(path);
                    if after != self.look {
                        self.seen(after, now);
                        return true;
                    }
                    view
                }
                Err(reason) => View::Unusable(reason),
            },
        };
        self.view = Some(view);
        self.viewed = Some(self.look.clone());
        true
    }
}

/// Reads the current state of the file.
pub(super) fn look(path: &Path) -> Look {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Look::File(Fingerprint::of(&metadata)),
        Ok(_) => Look::Unusable("it is not a regular file; move it out of the plugin directory".into()),
        // A dangling symbolic link exists and must be reported.
        Err(e) if e.kind() == io::ErrorKind::NotFound && path.is_symlink() => Look::Unusable(
            "it is a link to a file that does not exist; put the file there or remove the link".into(),
        ),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Look::Absent,
        Err(e) => Look::Unusable(format!("stat failed: {e}; check its permissions and those of its folder")),
    }
}

/// Reads the content of a file. Only the bytes of a manifest are held at once.
fn view(path: &Path, role: Role, fingerprint: Fingerprint, rules: &Rules) -> Result<View, String> {
    let (most, what) = match role {
        Role::Component => {
            (MAX_COMPONENT, "a component may have 64 MiB; build it in release mode and strip it")
        }
        Role::Manifest => {
            (MAX_MANIFEST, "a manifest may have 1 MiB; keep large configuration in a file (configFrom)")
        }
    };
    if fingerprint.size > most {
        return Err(format!("it is too large ({} bytes); {what}", fingerprint.size));
    }
    let unreadable = |e: io::Error| format!("it cannot be read: {e}; check its permissions");
    let file = File::open(path).map_err(unreadable)?;
    // Asked of the file that is read: another one may have taken its name.
    let metadata = file.metadata().map_err(unreadable)?;
    if let Some(Writers { reason, remedy }) = Writers::of(path, &metadata).filter(|_| !rules.allow_writable) {
        return Err(format!(
            "it {reason}: whoever writes it decides what this host runs; {remedy}, or start the host with --allow-writable-plugins"
        ));
    }
    match role {
        Role::Component => {
            let mut hasher = Sha256::new();
            io::copy(&mut file.take(most), &mut hasher).map_err(unreadable)?;
            Ok(View::Component(hasher.finalize().into()))
        }
        Role::Manifest => {
            let bytes = read_at_most(file, most).map_err(unreadable)?;
            let manifest = Manifest::parse_within(&bytes, &rules.ceilings).map(Arc::new);
            Ok(View::Manifest(Sha256::digest(&bytes).into(), manifest))
        }
    }
}

/// Reads a component of this digest. `None` when the file has another content.
///
/// The bytes are in pages of their own: an allocator would keep some of them after a burst of loads.
pub(super) fn read_component(path: &Path, digest: &str) -> io::Result<Option<Bytes>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let Some(size) = usize::try_from(size).ok().filter(|_| size <= MAX_COMPONENT) else { return Ok(None) };
    // There is no empty mapping.
    let mut pages = MmapMut::map_anon(size.max(1))?;
    match file.read_exact(&mut pages[..size]) {
        // It was cut off meanwhile.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let is_same = spell(&Sha256::digest(&pages[..size]).into()) == digest;
    Ok(is_same.then(|| Bytes::from_owner(pages).slice(..size)))
}

/// Reads at most `most` bytes of a file. A file that has grown has another [`Fingerprint`] afterwards.
///
/// # Errors
/// When the file cannot be opened or read.
pub fn read_up_to(path: &Path, most: u64) -> io::Result<Bytes> {
    read_at_most(File::open(path)?, most)
}

fn read_at_most(file: File, most: u64) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_read_as_it_was_seen_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wasm");
        for content in [&b""[..], b"a", &[7; 100_000]] {
            std::fs::write(&path, content).unwrap();
            let digest = spell(&Sha256::digest(content).into());
            assert_eq!(read_component(&path, &digest).unwrap().as_deref(), Some(content));
            std::fs::write(&path, [content, &b"b"[..]].concat()).unwrap();
            assert_eq!(read_component(&path, &digest).unwrap(), None);
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read_component(&path, "").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_component_that_has_grown_beyond_the_limit_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wasm");
        File::create(&path).unwrap().set_len(MAX_COMPONENT + 1).unwrap();
        assert_eq!(read_component(&path, "").unwrap(), None);
    }
}
