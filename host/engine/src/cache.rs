//! [`CompileCache`]: compiled components on disk, keyed by the component and everything that affects the machine code.
//!
//! ```text
//! DIR/compiled/KEY.sum     the SUM of a component's machine code
//! DIR/compiled/SUM.cwasm   the machine code whose SHA-256 is SUM
//! ```
//!
//! KEY is the SHA-256 of the component's digest and of wasmtime's compatibility hash (version, target, settings). Code is
//! found by its own sum: two hosts that share a folder never combine the sum of one with the code of the other.
//!
//! A file that is mapped as code is trusted, so the trust is checked, never repaired. The folder must belong to this user
//! with mode 0700; it is opened once, and all names are relative to that descriptor. Each file must be a regular file of
//! this user that nobody may write (0400), and its content must have its sum. All of this is checked on the descriptor
//! that is then mapped. Files are written under a temporary name and renamed, the code first: a crash leaves no sum
//! without its code.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use pilothouse_plugin::open_private_folder;
use rustix::fs::{AtFlags, Mode, OFlags};
use sha2::{Digest as _, Sha256};
use wasmtime::component::Component;

use crate::cwasm;
use crate::engine::{InstancePool, wasmtime_engine};
use crate::error::{EngineError, LoadError};

/// The folder of the cache in `--cache-dir`: the cache never changes a folder that others may use.
const FOLDER: &str = "compiled";
/// An entry that no host opened for so long is removed when a host starts.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);
/// An opened entry is marked as used when the last mark is older.
const MARK_USED: Duration = Duration::from_secs(24 * 3600);
/// A temporary file of this age is left over: compilation takes less (`compile.rs`).
const LEFT_OVER: Duration = Duration::from_secs(1800);
/// Beginning of the names of temporary files.
const TEMPORARY: &str = ".new-";

pub(crate) struct CompileCache {
    path: PathBuf,
    dir: Arc<OwnedFd>,
    engine: wasmtime::Engine,
    compatibility: u64,
    /// The files whose content this process has hashed, by sum.
    checked: Mutex<HashMap<String, FileIdentity>>,
}

/// What changes when the content of a file changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Why a file of the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EntryError {
    #[error("it is missing")]
    Missing,
    /// Another type, owner, mode or content than this host gives its files: it is worth nothing.
    #[error("{0}")]
    Unsound(String),
    /// It cannot be read now, and may be sound.
    #[error("{0}")]
    Unreadable(io::Error),
}

impl From<io::Error> for EntryError {
    fn from(error: io::Error) -> Self {
        match rustix::io::Errno::from_io_error(&error) {
            Some(rustix::io::Errno::NOENT) => Self::Missing,
            Some(rustix::io::Errno::LOOP) => Self::Unsound("it is a symbolic link".to_owned()),
            _ => Self::Unreadable(error),
        }
    }
}

/// A new file of the cache under a temporary name; removed when it is not adopted.
pub(crate) struct Scratch {
    dir: Arc<OwnedFd>,
    name: String,
    file: File,
}

impl Scratch {
    /// The open file, for the compiler.
    pub(crate) fn output(&self) -> Result<File, LoadError> {
        self.file.try_clone().map_err(|e| LoadError::Cache(e.to_string()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It has another name once it is published.
        let _ = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty());
    }
}

impl CompileCache {
    pub(crate) fn new(dir: &Path, engine: wasmtime::Engine) -> Result<Self, EngineError> {
        let path = dir.join(FOLDER);
        let opened = open_private_folder(&path, "native code")
            .map_err(|reason| EngineError::Cache(format!("{reason}; choose another one with --cache-dir")))?;
        // SipHash with fixed keys: every process of one build computes the same hash.
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let cache = Self {
            dir: Arc::new(opened.into()),
            engine,
            compatibility: hasher.finish(),
            checked: Mutex::default(),
            path,
        };
        cache.prune(SystemTime::now());
        Ok(cache)
    }

    /// The key of the component with this digest.
    pub(crate) fn key(&self, digest: &[u8; 32]) -> String {
        hex(&Sha256::new().chain_update(digest).chain_update(self.compatibility.to_be_bytes()).finalize())
    }

    /// The sum of the machine code that belongs to a key; `None` when the cache has no sound entry. An unsound one is
    /// removed.
    ///
    /// # Errors
    /// When the entry cannot be read now. It stays, since it may be sound.
    pub(crate) fn find(&self, key: &str) -> Result<Option<String>, LoadError> {
        let Some(sum) = self.sum_of(key)? else { return Ok(None) };
        match self.verified(&sum) {
            Ok(_) => Ok(Some(sum)),
            Err(EntryError::Missing) => Ok(None),
            Err(error @ EntryError::Unreadable(_)) => Err(self.unusable(&code_name(&sum), &error)),
            Err(error @ EntryError::Unsound(_)) => {
                let file = self.path.join(code_name(&sum));
                tracing::warn!(
                    event = "compile_cache_entry_damaged", file = %file.display(), %error,
                    "entry of the compile cache not used; the component is compiled again"
                );
                self.remove(key, &sum);
                Ok(None)
            }
        }
    }

    fn sum_of(&self, key: &str) -> Result<Option<String>, LoadError> {
        let name = format!("{key}.sum");
        let mut sum = String::new();
        let read = self.open(&name).and_then(|file| Ok(file.take(65).read_to_string(&mut sum)?));
        match read {
            Ok(_) => {}
            Err(error @ EntryError::Unreadable(_)) => return Err(self.unusable(&name, &error)),
            // The next one takes its place.
            Err(EntryError::Missing | EntryError::Unsound(_)) => return Ok(None),
        }
        Ok((sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(sum))
    }

    /// Maps the machine code with this sum.
    pub(crate) fn map(&self, sum: &str) -> Result<Component, LoadError> {
        let file = self.verified(sum).map_err(|error| self.unusable(&code_name(sum), &error))?;
        cwasm::map(&self.engine, &file).map_err(|error| {
            // An engine without a pool has no limits of its own, so it maps whatever the compiler made.
            match wasmtime_engine(&InstancePool::None).and_then(|engine| cwasm::map(&engine, &file)) {
                Ok(_) => LoadError::TooLarge(format!("{error:#}")),
                Err(error) if error.root_cause().is::<io::Error>() => self.unusable(
                    &code_name(sum),
                    &EntryError::Unreadable(io::Error::other(format!("{error:#}"))),
                ),
                Err(error) => self.unusable(&code_name(sum), &EntryError::Unsound(format!("{error:#}"))),
            }
        })
    }

    /// The error of a load for which this file cannot be used.
    fn unusable(&self, name: &str, error: &EntryError) -> LoadError {
        let message = format!("{}: {error}", self.path.join(name).display());
        match error {
            EntryError::Missing | EntryError::Unsound(_) => LoadError::CodeLost(message),
            EntryError::Unreadable(_) => LoadError::Cache(message),
        }
    }

    /// Removes an unusable entry.
    pub(crate) fn remove(&self, key: &str, sum: &str) {
        self.checked.lock().remove(sum);
        for name in [format!("{key}.sum"), code_name(sum)] {
            let _ = rustix::fs::unlinkat(&self.dir, name, AtFlags::empty());
        }
    }

    /// A new file for the output of the compiler.
    pub(crate) fn scratch(&self) -> Result<Scratch, LoadError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Hosts in several containers that share the folder may have the same process id.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = format!("{TEMPORARY}{now}-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, &name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|e| LoadError::Cache(format!("{}: {e}", self.path.display())))?;
        Ok(Scratch { dir: Arc::clone(&self.dir), name, file: file.into() })
    }

    /// Adds the output of the compiler as the entry of `key` and returns its sum.
    pub(crate) fn adopt(&self, key: &str, code: Scratch) -> Result<String, LoadError> {
        let at = |e: io::Error| LoadError::Cache(format!("{}: {e}", self.path.display()));
        let sum = digest_of(&code.file).map_err(at)?;
        self.publish(&code, &code_name(&sum)).map_err(at)?;
        let mut of_key = self.scratch()?;
        of_key.file.write_all(sum.as_bytes()).map_err(at)?;
        self.publish(&of_key, &format!("{key}.sum")).map_err(at)?;
        Ok(sum)
    }

    /// Makes a file read-only and gives it its name.
    fn publish(&self, new: &Scratch, name: &str) -> io::Result<()> {
        rustix::fs::fchmod(&new.file, Mode::RUSR)?;
        rustix::fs::renameat(&self.dir, &new.name, &self.dir, name)?;
        Ok(())
    }

    /// Opens a file of the cache and checks its type, owner and mode.
    fn open(&self, name: &str) -> Result<File, EntryError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.dir, name, flags, Mode::empty());
        let file = File::from(opened.map_err(io::Error::from)?);
        let meta = file.metadata()?;
        let me = rustix::process::geteuid().as_raw();
        if !meta.is_file() || meta.uid() != me || meta.mode() & 0o7377 != 0 {
            return Err(EntryError::Unsound(format!(
                "not a file of user {me} with mode 400 (user {}, mode {:03o})",
                meta.uid(),
                meta.mode() & 0o7777
            )));
        }
        Ok(file)
    }

    /// Opens the machine code with this sum and checks its content, unless this process has hashed the same file before.
    fn verified(&self, sum: &str) -> Result<File, EntryError> {
        let file = self.open(&code_name(sum))?;
        // Compared before the file is marked, which changes its times.
        let known = self.checked.lock().get(sum) == Some(&FileIdentity::of(&file)?);
        let is_marked = file.metadata()?.modified()?.elapsed().is_ok_and(|age| age <= MARK_USED);
        if known && is_marked {
            return Ok(file);
        }
        if !is_marked {
            // Not on a read-only file system, where nothing is removed either.
            let _ = file.set_modified(SystemTime::now());
        }
        let identity = FileIdentity::of(&file)?;
        if !known && digest_of(&file)? != sum {
            return Err(EntryError::Unsound("its content does not have the sum that is its name".to_owned()));
        }
        self.checked.lock().insert(sum.to_owned(), identity);
        Ok(file)
    }

    /// Removes temporary files that were left over, code that no host used for long, and sums without their code.
    fn prune(&self, now: SystemTime) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        let mut sums = Vec::new();
        for entry in entries.flatten() {
            let (Ok(name), Ok(meta)) = (entry.file_name().into_string(), entry.metadata()) else { continue };
            let age = meta.modified().ok().and_then(|at| now.duration_since(at).ok()).unwrap_or_default();
            let old = if name.starts_with(TEMPORARY) { LEFT_OVER } else { UNUSED };
            if name.ends_with(".sum") {
                sums.push(name);
            } else if age > old {
                let _ = rustix::fs::unlinkat(&self.dir, name, AtFlags::empty());
            }
        }
        for name in sums {
            let Ok(sum) = self.sum_of(name.trim_end_matches(".sum")) else { continue };
            if !sum.is_some_and(|sum| self.path.join(code_name(&sum)).exists()) {
                let _ = rustix::fs::unlinkat(&self.dir, name, AtFlags::empty());
            }
        }
    }
}

/// The name of the machine code with this sum.
fn code_name(sum: &str) -> String {
    format!("{sum}.cwasm")
}

impl FileIdentity {
    fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        Ok(Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

/// The SHA-256 of a file, read in chunks: compiled code is large, and the host may check a thousand files at startup.
fn digest_of(mut file: &File) -> io::Result<String> {
    use std::io::Seek as _;
    file.rewind()?;
    let mut hasher = Sha256::new();
    io::copy(&mut file, &mut hasher)?;
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
mod tests;
