//! [`ComponentStore`]: the components of Plugins of the cluster, in a folder of the host.
//!
//! ```text
//! DIR/components/NAMESPACE.DIGEST.wasm, or NAMESPACE.DIGEST.KEYS.wasm where signatures are required
//! ```
//!
//! Invariants: a file has the content of its digest when it gets its name; it belongs to one namespace, so nobody runs what only
//! another namespace could fetch; where signatures are required, a file has the keys in its name, so that none is used that was not
//! checked with them; the folder is private, as that of compiled components; all components together have a bound,
//! beyond which the namespace that has the most bytes gives those up that it has not loaded for longest: nobody fills the folder at
//! the expense of others. All methods block. Called by [`super::component_fetch`].

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use pilothouse_plugin::directory::digest_of_hashed;
use pilothouse_plugin::open_private_folder;
use sha2::{Digest as _, Sha256};

/// Maximum size of a component in bytes, as in the plugin directory.
const MAX_COMPONENT: u64 = 64 << 20;
/// Bytes of all components together: sixteen of the largest, or some thousands of usual ones.
const MOST_BYTES: u64 = 1 << 30;
/// A temporary file of this age is left over: a fetch takes less.
const LEFT_OVER: Duration = Duration::from_secs(3600);
/// Beginning of the names of temporary files.
const TEMPORARY: &str = ".new-";

/// The components that were fetched.
#[derive(Debug)]
pub(crate) struct ComponentStore {
    folder: PathBuf,
    next: AtomicU64,
    most_bytes: u64,
    /// What comes behind the digest in the name of a file.
    keys: String,
}

/// A component that is being fetched; removed when it is not kept.
#[derive(Debug)]
pub(crate) struct IncomingComponent {
    path: PathBuf,
    file: File,
    hasher: Sha256,
    size: u64,
}

impl ComponentStore {
    /// Opens the folder, and makes it if it is missing.
    ///
    /// # Errors
    /// When it cannot be made, or others have access to it.
    pub(crate) fn open(folder: PathBuf) -> Result<Self, String> {
        open_private_folder(&folder, "components that the host runs")?;
        let store = Self { folder, next: AtomicU64::new(0), most_bytes: MOST_BYTES, keys: String::new() };
        store.remove_left_over(SystemTime::now());
        Ok(store)
    }

    /// The same folder for components that are checked with keys before they come here; those that others left there are not
    /// found.
    #[cfg(feature = "oci")]
    pub(crate) fn signed_by(self, keys: &str) -> Self {
        Self { keys: format!(".{keys}"), ..self }
    }

    /// The file of a component, whether it is there or not.
    pub(crate) fn path(&self, namespace: &str, digest: &str) -> PathBuf {
        let digits = digest.trim_start_matches("sha256:");
        self.folder.join(format!("{namespace}.{digits}{}.wasm", self.keys))
    }

    /// Whether a component is there. It counts as used now.
    pub(crate) fn has(&self, namespace: &str, digest: &str) -> bool {
        let file = File::open(self.path(namespace, digest));
        // The time only decides which one goes first.
        file.is_ok_and(|file| file.set_modified(SystemTime::now()).is_ok() || file.metadata().is_ok())
    }

    /// Removes a component, as one whose file was damaged.
    pub(crate) fn remove(&self, namespace: &str, digest: &str) {
        // It may be gone already.
        let _ = fs::remove_file(self.path(namespace, digest));
    }

    /// Begins to write a component.
    pub(crate) fn incoming(&self) -> io::Result<IncomingComponent> {
        let number = self.next.fetch_add(1, Relaxed);
        let path = self.folder.join(format!("{TEMPORARY}{}-{number}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(IncomingComponent { path, file, hasher: Sha256::new(), size: 0 })
    }

    /// Gives a component its name, and makes room for it.
    ///
    /// # Errors
    /// When it has another digest, or cannot be written.
    pub(crate) fn keep(
        &self,
        incoming: IncomingComponent,
        namespace: &str,
        digest: &str,
    ) -> Result<(), String> {
        let found = digest_of_hashed(incoming.hasher.clone());
        if found != digest {
            return Err(format!(
                "its digest is {found}, but spec.source.digest demands {digest}; put the right component there or correct the \
                 digest"
            ));
        }
        let path = self.path(namespace, digest);
        let named = incoming
            .file
            .set_permissions(fs::Permissions::from_mode(0o400))
            .and_then(|()| fs::rename(&incoming.path, &path));
        named.map_err(|error| not_written(&error))?;
        self.make_room(&path);
        Ok(())
    }

    /// Removes components until the others are within the bound, each of the namespace that has the most bytes then: the one that
    /// was not loaded for longest. The newest one stays.
    fn make_room(&self, newest: &Path) {
        let mut files = self.files();
        // Those that are being written are few, and go or get their names soon.
        files.retain(|(path, ..)| !is_temporary(path));
        // The last of a namespace goes first.
        files.sort_by_key(|(_, _, used)| std::cmp::Reverse(*used));
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        let mut namespaces: HashMap<String, Owned> = HashMap::new();
        for (path, size, _) in files {
            let owned = namespaces.entry(namespace_of(&path)).or_default();
            owned.bytes += size;
            if path != newest {
                owned.files.push((path, size));
            }
        }
        while total > self.most_bytes {
            let owned = namespaces.values_mut().filter(|owned| !owned.files.is_empty());
            let Some(largest) = owned.max_by_key(|owned| owned.bytes) else { return };
            let Some((path, size)) = largest.files.pop() else { return };
            largest.bytes -= size;
            // One that another host has removed is gone as well.
            if fs::remove_file(&path).is_ok() || !path.exists() {
                total -= size;
            }
        }
    }

    fn remove_left_over(&self, now: SystemTime) {
        for (path, _, written) in self.files() {
            let age = now.duration_since(written).unwrap_or_default();
            if is_temporary(&path) && age > LEFT_OVER {
                // Another host may have removed it.
                let _ = fs::remove_file(path);
            }
        }
    }

    /// The files, their sizes, and when they were used last.
    fn files(&self) -> Vec<(PathBuf, u64, SystemTime)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let file = |entry: fs::DirEntry| {
            let metadata = entry.metadata().ok()?;
            Some((entry.path(), metadata.len(), metadata.modified().ok()?))
        };
        entries.filter_map(file).collect()
    }
}

/// The components of one namespace.
#[derive(Default)]
struct Owned {
    bytes: u64,
    /// Those that may go, with their sizes; the one to go first is the last.
    files: Vec<(PathBuf, u64)>,
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn is_temporary(path: &Path) -> bool {
    name_of(path).starts_with(TEMPORARY)
}

/// The namespace of a component; namespaces have no dots.
fn namespace_of(path: &Path) -> String {
    name_of(path).split('.').next().unwrap_or_default().to_owned()
}

impl IncomingComponent {
    /// Appends to the component.
    ///
    /// # Errors
    /// When it becomes too large, or cannot be written.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.size += bytes.len() as u64;
        if self.size > MAX_COMPONENT {
            return Err(
                "it is too large; a component may have 64 MiB; build it in release mode and strip it"
                    .to_owned(),
            );
        }
        self.hasher.update(bytes);
        self.file.write_all(bytes).map_err(|error| not_written(&error))
    }
}

impl Drop for IncomingComponent {
    fn drop(&mut self) {
        // It has another name once it is kept.
        let _ = fs::remove_file(&self.path);
    }
}

fn not_written(error: &io::Error) -> String {
    format!("it cannot be written below --cache-dir: {error}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use pilothouse_plugin::directory::{digest_of, read_component};

    use super::*;

    fn store(folder: &Path) -> ComponentStore {
        ComponentStore::open(folder.join("components")).unwrap()
    }

    fn keep(store: &ComponentStore, namespace: &str, content: &[u8]) -> String {
        let digest = digest_of(content);
        let mut incoming = store.incoming().unwrap();
        content.chunks(3).for_each(|chunk| incoming.write(chunk).unwrap());
        store.keep(incoming, namespace, &digest).unwrap();
        digest
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder.join("components")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_component_is_kept_under_its_namespace_and_digest_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let digest = keep(&store, "a", b"component");
        assert!(store.has("a", &digest) && !store.has("b", &digest));
        let path = store.path("a", &digest);
        assert_eq!(read_component(&path, &digest).unwrap().as_deref(), Some(&b"component"[..]));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o400);
        assert_eq!(names(folder.path()).len(), 1);
        store.remove("a", &digest);
        assert!(!store.has("a", &digest));
    }

    #[cfg(feature = "oci")]
    #[test]
    fn a_component_that_was_not_checked_with_the_keys_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let digest = keep(&store(folder.path()), "a", b"component");
        let signed = store(folder.path()).signed_by("k1");
        assert!(!signed.has("a", &digest));
        keep(&signed, "a", b"component");
        assert!(signed.has("a", &digest) && !store(folder.path()).signed_by("k2").has("a", &digest));
    }

    #[test]
    fn another_content_than_the_digest_says_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let mut incoming = store.incoming().unwrap();
        incoming.write(b"other").unwrap();
        let wanted = digest_of(b"component");
        let error = store.keep(incoming, "a", &wanted).unwrap_err();
        assert!(error.contains(&digest_of(b"other")) && error.contains(&wanted), "{error}");
        drop(store.incoming().unwrap());
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn what_is_too_large_is_refused_before_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let mut incoming = store.incoming().unwrap();
        let chunk = vec![0; 16 << 20];
        for _ in 0..4 {
            incoming.write(&chunk).unwrap();
        }
        let error = incoming.write(b"1").unwrap_err();
        assert!(error.contains("64 MiB"), "{error}");
        assert_eq!(incoming.file.metadata().unwrap().len(), MAX_COMPONENT);
    }

    #[test]
    fn those_that_were_not_loaded_for_longest_go_when_there_is_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let store = ComponentStore { most_bytes: 20, ..store(folder.path()) };
        let [old, used] = [b"0000000000", b"1111111111"].map(|content| keep(&store, "a", content));
        let hours_ago = |hours| SystemTime::now() - Duration::from_secs(3600_u64 * hours);
        for (digest, hours) in [(&old, 1), (&used, 2)] {
            File::open(store.path("a", digest)).unwrap().set_modified(hours_ago(hours)).unwrap();
        }
        assert!(store.has("a", &used));
        let newest = keep(&store, "b", b"2222222222");
        assert!(!store.has("a", &old) && store.has("a", &used) && store.has("b", &newest));
        // One that is larger than all others together stays alone.
        let large = keep(&store, "b", &[3; 30]);
        assert_eq!(names(folder.path()), [store.path("b", &large).file_name().unwrap().to_str().unwrap()]);
    }

    #[test]
    fn a_namespace_that_fills_the_folder_gives_up_its_own_components_and_not_those_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let store = ComponentStore { most_bytes: 50, ..store(folder.path()) };
        let of_other = keep(&store, "other", b"0000000000");
        let hours_ago = SystemTime::now() - Duration::from_secs(3600);
        File::open(store.path("other", &of_other)).unwrap().set_modified(hours_ago).unwrap();
        // One that is being written is nobody's.
        let incoming = store.incoming().unwrap();
        let digests: Vec<String> =
            (0..20).map(|n| keep(&store, "greedy", format!("{n:010}").as_bytes())).collect();
        assert!(store.has("other", &of_other) && incoming.path.exists());
        let kept = digests.iter().filter(|digest| store.has("greedy", digest)).count();
        assert!(kept == 4 && store.has("greedy", &digests[19]), "{kept}");
        // A namespace with few is given room.
        keep(&store, "other", b"1111111111");
        keep(&store, "third", b"2222222222");
        assert!(store.has("other", &of_other));
        assert_eq!(digests.iter().filter(|digest| store.has("greedy", digest)).count(), 2);
    }

    #[test]
    fn temporary_files_that_were_left_over_go_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        std::mem::forget(store.incoming().unwrap());
        store.remove_left_over(SystemTime::now());
        assert_eq!(names(folder.path()).len(), 1, "another host may be writing it");
        store.remove_left_over(SystemTime::now() + LEFT_OVER * 2);
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn a_folder_that_others_may_enter_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("components");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let error = ComponentStore::open(path).unwrap_err();
        assert!(error.contains("mode 755"), "{error}");
    }
}
