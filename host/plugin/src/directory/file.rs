//! [`Tracked`]: one file of the directory, as it looks now and as it was when it last kept still.
//!
//! Invariant: `view` is what was read while the file looked as `viewed` says; the file is settled iff it still looks so.
//! Links are followed throughout, so that a ConfigMap's swap of links looks like the change of files that it is.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::manifest::{Manifest, ManifestError};

/// The largest component that is read.
const MAX_COMPONENT: u64 = 64 << 20;
/// The largest manifest that is read.
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

/// What a name of the directory is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Component,
    Manifest,
}

/// Splits a file's name into stem and role; none for files that are not looked at.
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

/// How a file looks from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Look {
    Absent,
    /// It cannot be used: reason and remedy.
    Unusable(String),
    File(Fingerprint),
}

/// Changes whenever a file's content may have changed. The change time is in it for writers that set the modification
/// time back, such as `cp -p`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    device: u64,
    inode: u64,
    pub(super) size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Fingerprint {
    /// Of a file with this metadata.
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

/// What a settled file holds.
#[derive(Debug, Clone)]
pub(super) enum View {
    Component(Digest),
    Manifest(Digest, Box<Result<Manifest, ManifestError>>),
    /// Reason and remedy.
    Unusable(String),
}

/// One file of the directory.
#[derive(Debug)]
pub(super) struct Tracked {
    look: Look,
    /// Since when it looks so.
    since: Instant,
    /// Since when it has not been settled.
    restless: Instant,
    viewed: Option<Look>,
    view: Option<View>,
}

/// What became of a file that has kept still for long enough.
pub(super) enum Settled {
    /// Not yet, or nothing new.
    Nothing,
    /// It is gone for good.
    Gone,
    /// It was read.
    Read(Bytes),
}

impl Tracked {
    pub(super) fn new(look: Look, now: Instant) -> Self {
        Self { look, since: now, restless: now, viewed: None, view: None }
    }

    /// Takes note of how the file looks now.
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

    /// What the file holds, if it has settled.
    pub(super) fn view(&self) -> Option<&View> {
        self.view.as_ref().filter(|_| self.is_settled())
    }

    /// When it may have settled; none when it has.
    pub(super) fn due(&self, settle: Duration) -> Option<Instant> {
        (!self.is_settled()).then(|| self.since + settle)
    }

    /// Whether it has not settled, for less than so long.
    pub(super) fn is_restless(&self, now: Instant, patience: Duration) -> bool {
        !self.is_settled() && now.duration_since(self.restless) < patience
    }

    /// Lets it settle anew: it was read again and held something else.
    pub(super) fn distrust(&mut self, now: Instant) {
        self.viewed = None;
        self.since = now;
        self.restless = now;
    }

    /// Reads the file if it has kept still for long enough.
    pub(super) fn settle(&mut self, path: &Path, role: Role, now: Instant, settle: Duration) -> Settled {
        if self.due(settle).is_none_or(|due| due > now) {
            return Settled::Nothing;
        }
        let (view, bytes) = match &self.look {
            Look::Absent => return Settled::Gone,
            Look::Unusable(reason) => (View::Unusable(reason.clone()), None),
            Look::File(fingerprint) => match read(path, role, *fingerprint) {
                Ok(bytes) => {
                    // Written to while it was read: what was read may be half of one and half of the other.
                    let after = look(path);
                    if after != self.look {
                        self.seen(after, now);
                        return Settled::Nothing;
                    }
                    let digest: Digest = Sha256::digest(&bytes).into();
                    let view = match role {
                        Role::Component => View::Component(digest),
                        Role::Manifest => View::Manifest(digest, Box::new(Manifest::parse(&bytes))),
                    };
                    (view, Some(bytes))
                }
                Err(reason) => (View::Unusable(reason), None),
            },
        };
        self.view = Some(view);
        self.viewed = Some(self.look.clone());
        bytes.map_or(Settled::Nothing, Settled::Read)
    }
}

/// How the file looks now.
pub(super) fn look(path: &Path) -> Look {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Look::File(Fingerprint::of(&metadata)),
        Ok(_) => Look::Unusable("it is not a regular file; move it out of the plugin directory".into()),
        // A link that leads nowhere is there, and someone should know.
        Err(e) if e.kind() == io::ErrorKind::NotFound && path.is_symlink() => Look::Unusable(
            "it is a link to a file that does not exist; put the file there or remove the link".into(),
        ),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Look::Absent,
        Err(e) => Look::Unusable(format!("stat failed: {e}; check its permissions and those of its folder")),
    }
}

fn read(path: &Path, role: Role, fingerprint: Fingerprint) -> Result<Bytes, String> {
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
    read_up_to(path, most).map_err(|e| format!("it cannot be read: {e}; check its permissions"))
}

/// Reads a component again.
pub(super) fn read_component(path: &Path) -> io::Result<(Bytes, Digest)> {
    let bytes = read_up_to(path, MAX_COMPONENT)?;
    let digest = Sha256::digest(&bytes).into();
    Ok((bytes, digest))
}

/// Reads a file, but not more than `most` bytes of it: one byte more than allowed shows as another [`Fingerprint`] afterwards.
///
/// # Errors
/// When the file cannot be opened or read.
pub fn read_up_to(path: &Path, most: u64) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}
