//! From the files of a plugin directory to plugins: [`Scanner`] looks, [`Change`] is what is new.
//!
//! Rules:
//! * A `*.yaml` or `*.yml` is a manifest; its component is `spec.source.file`, or its own stem with `.wasm`. A `*.wasm`
//!   to which no manifest refers is a plugin of its own, without grants. Names that begin with a dot are not looked at,
//!   and other endings neither: that leaves out what editors and copying tools put beside a file for a while.
//! * A file counts, and counts as gone, only when it has been so for the settling time; a plugin changes only when all its
//!   files have settled. What is told is a change of content: `touch` is not one.
//! * A file that cannot be used is told as [`Change::Broken`] and leaves the plugin's previous generation alone. Only a
//!   component that is gone, or a manifest that no longer stands for the name, ends a plugin.
//!
//! Everything here blocks. The manager calls it on a thread of its own.

mod file;
mod plan;
mod scanner;

use std::path::PathBuf;

use bytes::Bytes;

pub use self::file::{Fingerprint, read_up_to};
pub use self::scanner::{Scanner, Seen};
use crate::manifest::Manifest;

/// What happened in the directory.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "changes are few and taken apart at once")]
pub enum Change {
    /// A plugin is there or has other content than before. Also told when a plugin that was broken is back at the content
    /// it had.
    Changed(Files),
    /// No file stands for this plugin any longer, or its component is gone.
    Removed {
        /// Name of the plugin.
        name: String,
    },
    /// A file cannot be used; a previous generation of the plugin goes on.
    Broken {
        /// Name of the plugin, as far as it is known: otherwise the file's stem.
        name: String,
        /// The file to blame.
        file: PathBuf,
        /// Reason and remedy.
        reason: String,
    },
    /// All that was there at the start has been told. Comes once.
    Synced,
    /// The directory itself cannot be read; plugins go on, and it is looked for again.
    Unreadable {
        /// Reason and remedy.
        reason: String,
    },
}

/// The files of one plugin, read at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Files {
    /// Name of the plugin.
    pub name: String,
    /// Where the component is.
    pub wasm_path: PathBuf,
    /// The component, whatever it is: it was not looked into.
    pub wasm: Bytes,
    /// `sha256:…` of the component.
    pub digest: String,
    /// Where the manifest is; none for a component alone.
    pub manifest_path: Option<PathBuf>,
    /// The manifest; [`Manifest::bare`] for a component alone.
    pub manifest: Manifest,
}
