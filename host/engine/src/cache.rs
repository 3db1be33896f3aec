//! [`CompileCache`]: compiled components on disk, keyed by the component and everything that affects the machine code.
//!
//! Layout: `DIR/KEY.cwasm` is the machine code, `DIR/KEY.sum` its SHA-256. KEY is the SHA-256 of the component's digest
//! and of wasmtime's compatibility hash (version, target, settings). The folder must belong to this user and has mode
//! 0700, because a file that is mapped as code is trusted. Files are written under a temporary name, made read-only and
//! renamed, the sum first: an entry without a sum is not used, and a crash leaves no entry that passes the check.
//! Several hosts may share a folder.

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use wasmtime::component::Component;

use crate::cwasm;
use crate::error::{EngineError, LoadError};

pub(crate) struct CompileCache {
    dir: PathBuf,
    engine: wasmtime::Engine,
    compatibility: u64,
    /// Entries whose sum this process has checked.
    checked: Mutex<HashSet<PathBuf>>,
}

impl CompileCache {
    pub(crate) fn new(dir: &Path, engine: wasmtime::Engine) -> Result<Self, EngineError> {
        let at = |what: &str, e: &dyn std::fmt::Display| {
            EngineError::Cache(format!("{what} {}: {e}; choose another one with --cache-dir", dir.display()))
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| at("cannot create", &e))?;
        let meta = fs::metadata(dir).map_err(|e| at("cannot read", &e))?;
        let me = rustix::process::geteuid().as_raw();
        if meta.uid() != me {
            return Err(at(
                "cannot trust",
                &format!("it belongs to user {}, the host runs as {me}", meta.uid()),
            ));
        }
        if meta.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
                .map_err(|e| at("cannot protect", &e))?;
        }
        // SipHash with fixed keys: every process of one build computes the same hash.
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self { dir: dir.to_owned(), engine, compatibility: hasher.finish(), checked: Mutex::default() })
    }

    /// The path of the compiled form of the component with this digest.
    pub(crate) fn path(&self, digest: &[u8; 32]) -> PathBuf {
        let key =
            Sha256::new().chain_update(digest).chain_update(self.compatibility.to_be_bytes()).finalize();
        self.dir.join(format!("{}.cwasm", hex(&key)))
    }

    /// A unique temporary path in the cache folder for the output of the compiler.
    pub(crate) fn scratch(&self, digest: &[u8; 32]) -> PathBuf {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.dir.join(format!(".{}.{}.{n}", &hex(digest)[..16], std::process::id()))
    }

    /// Whether the cache has an entry with a matching sum. Reads and hashes the file the first time in a process;
    /// removes an entry whose sum does not match.
    pub(crate) fn contains(&self, file: &Path) -> bool {
        if self.checked.lock().contains(file) && file.exists() {
            return true;
        }
        let sound = match (digest_of(file), fs::read_to_string(file.with_extension("sum"))) {
            (Ok(found), Ok(sum)) => sum == found,
            // No host of this cache completed an entry without a sum, or another host is replacing it now.
            (Err(_), _) | (Ok(_), Err(_)) => return false,
        };
        if sound {
            self.checked.lock().insert(file.to_owned());
        } else {
            tracing::warn!(event = "compile_cache_entry_damaged", file = %file.display(), "damaged entry in the compile cache removed");
            self.remove(file);
        }
        sound
    }

    /// Removes an unusable entry.
    pub(crate) fn remove(&self, file: &Path) {
        self.checked.lock().remove(file);
        let _ = fs::remove_file(file.with_extension("sum"));
        let _ = fs::remove_file(file);
    }

    /// Adds the output of the compiler at `scratch` as the entry `file`.
    pub(crate) fn adopt(&self, scratch: &Path, file: &Path) -> Result<(), LoadError> {
        let at = |e: std::io::Error| LoadError::Cache(format!("{}: {e}", file.display()));
        fs::set_permissions(scratch, fs::Permissions::from_mode(0o400)).map_err(at)?;
        let sum = scratch.with_extension("sum");
        let mut out = fs::File::create(&sum).map_err(at)?;
        out.write_all(digest_of(scratch).map_err(at)?.as_bytes()).map_err(at)?;
        fs::rename(&sum, file.with_extension("sum")).map_err(at)?;
        fs::rename(scratch, file).map_err(at)?;
        self.checked.lock().insert(file.to_owned());
        Ok(())
    }

    /// Maps an entry that [`contains`](Self::contains) has checked or [`adopt`](Self::adopt) has added in this process.
    pub(crate) fn open(&self, file: &Path) -> wasmtime::Result<Component> {
        cwasm::map(&self.engine, file)
    }
}

/// The SHA-256 of a file, read in chunks: compiled code is large, and the host may check a thousand files at startup.
fn digest_of(file: &Path) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    std::io::copy(&mut fs::File::open(file)?, &mut hasher)?;
    Ok(hex(&hasher.finalize()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, b| {
        let _ = write!(out, "{b:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{InstancePool, wasmtime_engine};

    fn cache(dir: &Path) -> CompileCache {
        CompileCache::new(dir, wasmtime_engine(&InstancePool::None).unwrap()).unwrap()
    }

    fn filled(cache: &CompileCache) -> PathBuf {
        let (scratch, file) = (cache.scratch(&[1; 32]), cache.path(&[1; 32]));
        fs::write(&scratch, b"machine code").unwrap();
        cache.adopt(&scratch, &file).unwrap();
        file
    }

    #[test]
    fn the_folder_and_its_files_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("deep/cache");
        let file = filled(&cache(&dir));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir), mode(&file)), (0o700, 0o400));
    }

    #[test]
    fn an_entry_is_found_by_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let file = filled(&cache(dir.path()));
        assert!(cache(dir.path()).contains(&file));
        assert!(!cache(dir.path()).contains(&cache(dir.path()).path(&[2; 32])));
    }

    #[test]
    fn a_damaged_entry_is_removed_and_one_without_its_sum_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let file = filled(&cache(dir.path()));
        fs::remove_file(&file).unwrap();
        fs::write(&file, b"other code").unwrap();
        assert!(!cache(dir.path()).contains(&file));
        assert!(!file.exists());
        let file = filled(&cache(dir.path()));
        fs::remove_file(file.with_extension("sum")).unwrap();
        assert!(!cache(dir.path()).contains(&file));
        assert!(cache(dir.path()).contains(&filled(&cache(dir.path()))));
    }

    #[test]
    fn what_cannot_be_a_folder_is_an_error_with_a_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, b"").unwrap();
        let error =
            CompileCache::new(&file, wasmtime_engine(&InstancePool::None).unwrap()).map(drop).unwrap_err();
        assert!(error.to_string().contains("--cache-dir"), "{error}");
    }
}
