//! Turns the files of a plugin directory into plugins: [`Scanner`] scans the directory and returns each [`Change`].
//!
//! Rules:
//! * A `*.yaml` or `*.yml` is a manifest; its component is `spec.source.file`, or its own stem with `.wasm`. A `*.wasm`
//!   to which no manifest refers is a plugin of its own, without grants. Names that begin with a dot and other
//!   extensions are ignored: these are the temporary files of editors and copying tools.
//! * A new, changed or removed file counts only after it has been unchanged for the settling time; a plugin changes
//!   only when all its files have settled. Of the files that are there at the start, those that were changed more than ten
//!   seconds ago count at once. Only a change of content is reported: `touch` is not one.
//! * A file that others than root and the user of the host may write is unusable, unless that is allowed.
//! * An unusable file is reported as [`Change::Broken`], and the plugin's previous generation continues. A plugin ends
//!   only when its component is removed or no manifest has its name any more.
//!
//! All functions block. The manager calls them on a thread of its own.

mod file;
mod plan;
mod scanner;
mod writers;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

pub use self::file::{Fingerprint, read_up_to};
pub use self::scanner::{Scanner, Seen};
pub use self::writers::Writers;
use crate::clusters::run_name;
use crate::limits::Ceilings;
use crate::manifest::Manifest;

/// Which files of a directory count.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// How long a file must be unchanged before it is read.
    pub settle: Duration,
    /// Ceilings for the limits of manifests.
    pub ceilings: Ceilings,
    /// Take files that others than root and the user of the host may write.
    pub allow_writable: bool,
}

/// A change in the directory.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A plugin is new or its content changed. Also reported when a broken plugin has its previous content again.
    Changed(Files),
    /// No file defines this plugin any more, or its component was removed.
    Removed {
        /// Name of the plugin.
        name: String,
    },
    /// A file cannot be used. A previous generation of the plugin continues.
    Broken {
        /// Name of the plugin; the stem of the file if the name is unknown.
        name: String,
        /// The file that cannot be used.
        file: PathBuf,
        /// Reason and remedy.
        reason: String,
    },
    /// All plugins that existed at the start have been reported. Reported once.
    Synced,
    /// The directory cannot be read. Plugins continue, and the scanner tries again.
    Unreadable {
        /// Reason and remedy.
        reason: String,
    },
}

/// What a source has of one plugin, in one consistent state. The component is known by its digest: [`read_component`] reads
/// it.
#[derive(Debug, Clone, PartialEq)]
pub struct Files {
    /// Name of the plugin, or of one of its [`runs`](Files::runs).
    pub name: String,
    /// The file of the component.
    pub wasm_path: PathBuf,
    /// `sha256:…` of the component.
    pub digest: String,
    /// What messages call manifest and component.
    pub places: Places,
    /// `sha256:…` of the manifest's text; empty for a component without one.
    pub manifest_digest: String,
    /// The manifest; [`Manifest::bare`] for a component without one.
    pub manifest: Arc<Manifest>,
}

impl Files {
    /// The files of each run: one for each cluster that the manifest names, and one at home if it names none.
    #[must_use]
    pub fn runs(self) -> Vec<Self> {
        if self.manifest.clusters.is_empty() {
            return vec![self];
        }
        let run = |cluster: &String| Self {
            name: run_name(&self.name, cluster),
            manifest: Arc::new(self.manifest.in_cluster(cluster)),
            ..self.clone()
        };
        self.manifest.clusters.iter().map(run).collect()
    }
}

/// What messages call the manifest and the component of a plugin: paths, or objects of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The component.
    pub component: String,
    /// The manifest; `None` for a component without one.
    pub manifest: Option<String>,
}

impl Places {
    /// The manifest, or the component where the plugin has no manifest.
    #[must_use]
    pub fn manifest_or_component(&self) -> &str {
        self.manifest.as_deref().unwrap_or(&self.component)
    }
}

/// `sha256:…` of a text or a component.
#[must_use]
pub fn digest_of(bytes: &[u8]) -> String {
    digest_of_hashed(Sha256::new_with_prefix(bytes))
}

/// `sha256:…` of what was hashed.
#[must_use]
pub fn digest_of_hashed(hasher: Sha256) -> String {
    file::spell(&hasher.finalize().into())
}

/// Reads a component, not validated, into pages of its own. `None` when its content is not that of this digest (`sha256:…`)
/// any more; the scanner then reports a change.
///
/// # Errors
/// When the file cannot be opened or read.
pub fn read_component(path: &Path, digest: &str) -> io::Result<Option<Bytes>> {
    file::read_component(path, digest)
}
