//! Where things are: the repository, Cargo's target folder and profile of this test run, and locks on what is built
//! there. Used by everything that builds.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The repository's root.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("/"))
}

/// Cargo's target folder, which is where this test's executable is (`TARGET/[TRIPLE/]PROFILE/deps/NAME`): wherever the
/// user has put it, it is the one marked with `CACHEDIR.TAG`.
pub fn target() -> PathBuf {
    let marked = || {
        let executable = std::env::current_exe().ok()?;
        executable.ancestors().skip(1).find(|dir| dir.join("CACHEDIR.TAG").exists()).map(Path::to_owned)
    };
    marked().unwrap_or_else(|| repository().join("target"))
}

/// The profile that this test was built with, as `cargo build --profile` wants it.
pub fn profile() -> String {
    let folder = || {
        let executable = std::env::current_exe().ok()?;
        let within = executable.parent()?;
        // Tests and benches are in a folder of their own below the profile's, binaries are not.
        let below = matches!(within.file_name()?.to_str()?, "deps" | "examples");
        let profile = if below { within.parent()? } else { within };
        Some(profile.file_name()?.to_str()?.to_owned())
    };
    match folder().as_deref() {
        None | Some("debug") => "dev".to_owned(),
        Some(name) => name.to_owned(),
    }
}

/// Runs `work` while no other test process runs one for the same folder, which is created.
pub fn locked<T>(folder: &Path, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let path = folder.join(".lock");
    let lock = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    lock.lock().with_context(|| format!("locking {}", path.display()))?;
    // The lock goes with the file handle, also if this process is killed.
    work()
}
