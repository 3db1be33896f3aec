//! [`Folder`]: `.pilothouse/` in the current folder, with all that `dev` writes.
//!
//! ```text
//! .pilothouse/.gitignore   all of it
//!             lock         held while a `dev` runs here
//!             kubeconfig   for kubectl, the host and the plugins' author
//!             kubeconfig-PORT   of an API server that runs without plugins
//!             plugins/     what the host runs
//!             incoming/    files on their way into plugins/
//!             target/      Cargo's, shared by all guests
//! ```
//!
//! Invariant: one process at a time has it; a file appears whole or not at all ([`Folder::put`]). An API server without plugins
//! does not need the folder: it only leaves a kubeconfig under a name of its own ([`ServerConfig`]).

use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

const NAME: &str = ".pilothouse";
const TARGET: &str = "target";

/// The folder, held by this process.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Gives the lock back when it is closed.
    _lock: File,
}

impl Folder {
    /// Makes the folder in `within`, or takes the one that is there.
    pub(crate) fn open(within: &Path) -> Result<Self> {
        let path = within.join(NAME);
        let path = make(&path, &["", "plugins", "incoming"])?;
        let lock = path.join("lock");
        let lock = File::create(&lock).with_context(|| format!("creating {}", lock.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "another `pilothouse dev` runs in this folder and uses {}: end it, or start this one in another folder",
                path.display()
            ),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("locking {}", path.display()));
            }
        }
        let folder = Self { path, _lock: lock };
        put(&folder.path, &folder.path.join(".gitignore"), b"*\n", 0o644)?;
        Ok(folder)
    }

    /// Where the host looks for plugins.
    pub(crate) fn plugins(&self) -> PathBuf {
        self.path.join("plugins")
    }

    /// Cargo's target folder of all guests.
    pub(crate) fn target(&self) -> PathBuf {
        self.path.join(TARGET)
    }

    /// Writes the kubeconfig, for this user's eyes only, and says where it is.
    pub(crate) fn put_kubeconfig(&self, text: &str) -> Result<PathBuf> {
        let path = self.path.join("kubeconfig");
        self.put(&path, text.as_bytes(), 0o600)?;
        Ok(path)
    }

    /// Writes a file of this folder by renaming: nobody sees half of it.
    pub(crate) fn put(&self, path: &Path, content: &[u8], mode: u32) -> Result<()> {
        put(&self.path, path, content, mode)
    }
}

/// Cargo's target folder of all guests below `within`, which is made. Cargo itself keeps two builds apart, so it is used with
/// and without a `dev` that runs.
pub(crate) fn shared_target(within: &Path) -> Result<PathBuf> {
    let folder = make(&within.join(NAME), &["", "incoming", TARGET])?;
    put(&folder, &folder.join(".gitignore"), b"*\n", 0o644)?;
    Ok(folder.join(TARGET))
}

/// The kubeconfig of an API server that runs without plugins; it goes when this is dropped.
#[derive(Debug)]
pub(crate) struct ServerConfig {
    pub(crate) path: PathBuf,
}

impl ServerConfig {
    /// Writes it below `within`, for this user's eyes only; the port makes its name one of its own.
    pub(crate) fn write(within: &Path, port: u16, text: &str) -> Result<Self> {
        let folder = make(&within.join(NAME), &["", "incoming"])?;
        put(&folder, &folder.join(".gitignore"), b"*\n", 0o644)?;
        let path = folder.join(format!("kubeconfig-{port}"));
        put(&folder, &path, text.as_bytes(), 0o600)?;
        Ok(Self { path })
    }
}

impl Drop for ServerConfig {
    fn drop(&mut self) {
        // The folder may have been removed.
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes the folder with these parts, and gives its whole path: lines to copy with the name of the current folder left out would
/// hold only there.
fn make(path: &Path, parts: &[&str]) -> Result<PathBuf> {
    for part in parts {
        let part = path.join(part);
        fs::create_dir_all(&part).with_context(|| format!("creating {}", part.display()))?;
    }
    path.canonicalize().with_context(|| format!("looking for {}", path.display()))
}

/// Writes a file of a folder by renaming one of its part `incoming`. Two processes may do so at the same time.
fn put(folder: &Path, path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let name = path.file_name().context("a file has a name")?.to_string_lossy();
    let incoming = folder.join("incoming").join(format!("{name}.{}", std::process::id()));
    let write = || {
        // One that a killed process left has its own mode.
        let _ = fs::remove_file(&incoming);
        let mut file = new_file(mode).open(&incoming)?;
        file.write_all(content)?;
        fs::rename(&incoming, path)
    };
    write().with_context(|| format!("writing {}", path.display()))
}

/// How a file is made that must not be there yet, with its mode.
#[cfg(unix)]
fn new_file(mode: u32) -> fs::OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    options
}

/// How a file is made that must not be there yet. Who may read it is inherited from the folder.
#[cfg(not(unix))]
fn new_file(_: u32) -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    options
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use pilothouse_testkit::poll;

    use super::*;

    #[test]
    fn the_folder_is_kept_out_of_git_and_its_kubeconfig_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join(".pilothouse/.gitignore")).unwrap(), "*\n");
        for text in ["one", "two"] {
            let path = folder.put_kubeconfig(text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert!(path.is_absolute());
        }
        assert_eq!(fs::read_dir(dir.path().join(".pilothouse/incoming")).unwrap().count(), 0);
    }

    #[test]
    fn a_server_without_plugins_needs_no_lock_and_leaves_no_kubeconfig_behind() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let own = folder.put_kubeconfig("own").unwrap();
        let other = ServerConfig::write(dir.path(), 1234, "other").unwrap();
        assert_eq!(fs::metadata(&other.path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&other.path).unwrap(), "other");
        let path = other.path.clone();
        drop(other);
        assert!(!path.exists());
        assert_eq!(fs::read_to_string(own).unwrap(), "own");
    }

    #[test]
    fn one_process_at_a_time_has_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let error = Folder::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("another `pilothouse dev`"), "{error}");
        drop(folder);
        // A child that another test starts has a copy of the lock until it runs its program.
        poll::until("the folder to be free", poll::SOON, || Folder::open(dir.path()).is_ok()).unwrap();
    }
}
