//! [`put`]: writes a file of a plugin directory.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Writes a file by renaming, so that a host which watches the directory sees it whole. One that would not change is left as
/// it is.
pub fn put(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || {
        // Hidden files of a plugin directory are ignored.
        let mut file = tempfile::Builder::new().prefix(".pilothouse-").tempfile_in(folder)?;
        file.write_all(content)?;
        // A temporary file is its owner's alone.
        #[cfg(unix)]
        file.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        file.persist(path).map_err(|error| error.error)
    };
    write().map(drop).with_context(|| format!("writing {}", path.display()))
}
