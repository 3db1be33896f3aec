//! Paths: the repository, Cargo's target folder and profile of this test run, and locks on folders in which tests
//! build.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The root folder of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("/"))
}

/// Cargo's target folder, wherever the user has placed it: the parent of this test's executable
/// (`TARGET/[TRIPLE/]PROFILE/deps/NAME`) that contains `CACHEDIR.TAG`.
pub fn target() -> PathBuf {
    let marked = || {
        let executable = std::env::current_exe().ok()?;
        executable.ancestors().skip(1).find(|dir| dir.join("CACHEDIR.TAG").exists()).map(Path::to_owned)
    };
    marked().unwrap_or_else(|| repository().join("target"))
}

/// The profile of this test, in the form of `cargo build --profile`.
pub fn profile() -> String {
    let folder = || {
        let executable = std::env::current_exe().ok()?;
        let within = executable.parent()?;
        // Tests and benches are in a subfolder of the profile's folder, binaries are not.
        let below = matches!(within.file_name()?.to_str()?, "deps" | "examples");
        let profile = if below { within.parent()? } else { within };
        Some(profile.file_name()?.to_str()?.to_owned())
    };
    match folder().as_deref() {
        None | Some("debug") => "dev".to_owned(),
        Some(name) => name.to_owned(),
    }
}

/// Creates the folder, takes a lock on it and runs `work`, so that one test process at a time works in it.
pub fn locked<T>(folder: &Path, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let path = folder.join(".lock");
    let lock = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    lock.lock().with_context(|| format!("locking {}", path.display()))?;
    // Closing the file handle releases the lock, also when this process is killed.
    work()
}
