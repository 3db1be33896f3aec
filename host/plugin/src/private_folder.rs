//! [`open_private_folder`]: a folder that belongs to the host alone, as that of compiled components.
//!
//! What is in such a folder decides what the host runs, so the trust is checked, never repaired. Called by the engine and the
//! manager.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Opens a folder, and makes it with mode 0700 if it is missing. `holds` is what it holds, for the error.
///
/// # Errors
/// When it cannot be made or opened, is a link, belongs to another user, or lets other users in.
pub fn open_private_folder(path: &Path, holds: &str) -> Result<File, String> {
    let at = |what: &str, e: &dyn std::fmt::Display| format!("{what} {}: {e}", path.display());
    if let Some(parent) = path.parent() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(parent);
        made.map_err(|e| at("cannot create", &e))?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(at("cannot create", &e)),
        _ => {}
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| at("cannot open", &e))?;
    let opened = File::from(opened);
    let meta = opened.metadata().map_err(|e| at("cannot read", &e))?;
    let me = rustix::process::geteuid().as_raw();
    if meta.uid() != me {
        let reason = format!("it belongs to user {}, the host runs as {me}", meta.uid());
        return Err(at("cannot trust", &reason));
    }
    if meta.mode() & 0o077 != 0 {
        let mode = meta.mode() & 0o777;
        let reason =
            format!("other users have access to it (mode {mode:03o}), and it holds {holds}; delete it");
        return Err(at("cannot trust", &reason));
    }
    Ok(opened)
}
