//! [`DiskStore`]: discovery documents in files, in the layout of kubectl's cache, which reads what is written here and
//! writes what is read here.
//!
//! ```text
//!   ~/.kube/cache/discovery/HOST_PORT/servergroups.json             APIGroupList
//!                                     v1/serverresources.json       APIResourceList of the core group
//!                                     GROUP/VERSION/serverresources.json
//! ```
//!
//! Invariants: a file appears whole or not at all (written beside and renamed), whichever process writes it; a file that
//! cannot be read, is no JSON or is of another group version is ignored; no name that a server gives leads out of the
//! folder. Everything blocks.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::root::RootResponse;
use super::types::{ApiGroup, GroupVersion};
use super::wire::{GroupList, ResourceList};

/// kubectl's modes: its users' group may share a cache.
const FILE_MODE: u32 = 0o660;
const FOLDER_MODE: u32 = 0o750;

const GROUPS: &str = "servergroups.json";

/// Where a disk cache is and how long its files count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskCacheOptions {
    /// The cache folder, kubectl's `--cache-dir`. `None` looks as kubectl does: `KUBECACHEDIR`, then `~/.kube/cache`.
    pub cache_dir: Option<PathBuf>,
    /// After how long a file is fetched again.
    pub ttl: Duration,
}

impl Default for DiskCacheOptions {
    fn default() -> Self {
        Self { cache_dir: None, ttl: Duration::from_secs(10 * 60) }
    }
}

impl DiskCacheOptions {
    /// The folder of a server.
    pub(super) fn folder(&self, server: &str) -> PathBuf {
        let environment = std::env::var_os("KUBECACHEDIR").filter(|dir| !dir.is_empty());
        let cache = self.cache_dir.clone().unwrap_or_else(|| default_dir(environment, std::env::home_dir()));
        cache.join("discovery").join(host_folder(server))
    }
}

fn default_dir(environment: Option<OsString>, home: Option<PathBuf>) -> PathBuf {
    match environment {
        Some(dir) => PathBuf::from(dir),
        None => home.unwrap_or_default().join(".kube").join("cache"),
    }
}

/// The server's address as kubectl writes it: without the scheme, and everything that a file system may dislike as `_`.
/// Unlike kubectl's it does not lead out of where it stands.
fn host_folder(server: &str) -> PathBuf {
    let host = server.replacen("https://", "", 1).replacen("http://", "", 1);
    let safe = |c: char| if c.is_ascii_alphanumeric() || "_/.()".contains(c) { c } else { '_' };
    let host: String = host.chars().map(safe).collect();
    Path::new(&host).components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// A document, and when its file was written.
pub(super) struct Stored<T> {
    pub(super) value: T,
    pub(super) modified: SystemTime,
}

/// The files of one server.
#[derive(Debug)]
pub(super) struct DiskStore {
    dir: PathBuf,
}

impl DiskStore {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    pub(super) fn read_groups(&self) -> Option<Stored<Vec<ApiGroup>>> {
        let Stored { value, modified } = self.read::<GroupList>(GROUPS)?;
        Some(Stored { value: value.groups()?, modified })
    }

    pub(super) fn read_list(&self, place: &GroupVersion) -> Option<Stored<ResourceList>> {
        self.read::<ResourceList>(&list_name(place)?).filter(|stored| stored.value.is_of(place))
    }

    /// Writes one list.
    pub(super) fn write_list(&self, place: &GroupVersion, list: &ResourceList) {
        // As kubectl, which takes an empty list for a failure.
        if let (Some(name), false) = (list_name(place), list.is_empty()) {
            self.write(&name, list);
        }
    }

    /// Writes both documents.
    pub(super) fn save(&self, core: &RootResponse, named: &RootResponse) {
        for (place, list) in [core, named].into_iter().flat_map(|part| part.lists.iter().flatten()) {
            if let Ok(list) = list {
                self.write_list(place, list);
            }
        }
        let groups: Vec<ApiGroup> = core.groups.iter().chain(&named.groups).cloned().collect();
        self.write(GROUPS, &GroupList::of(&groups));
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<Stored<T>> {
        let path = self.dir.join(name);
        let file = File::open(&path).ok()?;
        let modified = file.metadata().ok()?.modified().ok()?;
        let bytes = io::read_to_string(file).ok()?;
        match serde_json::from_str(&bytes) {
            Ok(value) => Some(Stored { value, modified }),
            Err(error) => {
                tracing::debug!("discovery cache: {} is ignored: {error}", path.display());
                None
            }
        }
    }

    /// Writes a file. A cache that cannot be written is none, and no fault of who asked.
    fn write(&self, name: &str, value: &impl Serialize) {
        if let Err(error) = self.try_write(name, value) {
            tracing::debug!("discovery cache: {} cannot be written: {error}", self.dir.display());
        }
    }

    /// Writes a file beside its name and renames it.
    fn try_write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let bytes = serde_json::to_vec(value)?;
        let path = self.dir.join(name);
        let folder = path.parent().unwrap_or(&self.dir);
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
        let mut file = tempfile::Builder::new().prefix(".pilothouse-").tempfile_in(folder)?;
        file.write_all(&bytes)?;
        // Whatever the umask.
        file.as_file().set_permissions(Permissions::from_mode(FILE_MODE))?;
        file.persist(&path)?;
        Ok(())
    }
}

/// The file of a group version below the server's folder; nothing for names that are no file names.
fn list_name(place: &GroupVersion) -> Option<String> {
    let plain = |name: &str| {
        !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']) && name != GROUPS
    };
    let good = (place.group.is_empty() || plain(&place.group)) && plain(&place.version);
    good.then(|| format!("{place}/serverresources.json"))
}

#[cfg(test)]
mod tests;
