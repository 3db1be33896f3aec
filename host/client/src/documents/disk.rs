//! [`DiskStore`]: discovery documents in files, in the layout of kubectl's cache, which reads what is written here and
//! writes what is read here.
//!
//! ```text
//!   ~/.kube/cache/discovery/HOST_PORT/servergroups.json             APIGroupList
//!                                     v1/serverresources.json       APIResourceList of the core group
//!                                     GROUP/VERSION/serverresources.json
//!                                     pilothouse-etags.json         ours: which ETags these files have
//! ```
//!
//! Invariants: a file appears whole or not at all (written beside and renamed), whichever process writes it; a file that
//! cannot be read, is no JSON or is of another group version is ignored; an `ETag` counts for files only while they
//! are byte for byte those that it was noted for, since kubectl may have replaced some; no name that a server gives leads out
//! of the folder. Everything blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::root::{Root, RootPart, RootResponse, stale};
use super::types::{ApiGroup, GroupVersion};
use super::wire::{GroupList, ResourceList};

/// kubectl's modes: its users' group may share a cache.
const FILE_MODE: u32 = 0o660;
const FOLDER_MODE: u32 = 0o750;

const GROUPS: &str = "servergroups.json";
const TAGS: &str = "pilothouse-etags.json";

/// Where a disk cache is and how long its files count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskCacheOptions {
    /// The cache folder, kubectl's `--cache-dir`. `None` looks as kubectl does: `KUBECACHEDIR`, then `~/.kube/cache`.
    pub cache_dir: Option<PathBuf>,
    /// After how long the server is asked whether a file still holds.
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

/// A document and the file it was in.
pub(super) struct Stored<T> {
    pub(super) value: T,
    pub(super) modified: SystemTime,
    hash: String,
}

/// `pilothouse-etags.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Tags {
    /// Hash of `servergroups.json`.
    groups: String,
    core: Tag,
    named: Tag,
}

/// Of one of the two documents.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(default)]
struct Tag {
    /// Empty when there is none.
    etag: String,
    /// Hashes of the lists' files by group version.
    lists: BTreeMap<String, String>,
    /// Group versions that did not answer.
    failed: BTreeSet<String>,
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
        let Stored { value, modified, hash } = self.read::<GroupList>(GROUPS)?;
        Some(Stored { value: value.groups()?, modified, hash })
    }

    pub(super) fn read_list(&self, place: &GroupVersion) -> Option<Stored<ResourceList>> {
        self.read::<ResourceList>(&list_name(place)?).filter(|stored| stored.value.is_of(place))
    }

    /// Writes one list.
    pub(super) fn write_list(&self, place: &GroupVersion, list: &ResourceList) {
        if let (Some(name), false) = (list_name(place), list.is_empty()) {
            let written = self.write(&name, list);
            self.log_failure(written.map(drop));
        }
    }

    /// What the files hold, for who will ask the server by `ETag` whether it holds still, however old they are.
    pub(super) fn load(&self) -> Option<Root> {
        let tags: Tags = self.read(TAGS)?.value;
        let groups = self.read_groups()?;
        let (core, named): (Vec<_>, Vec<_>) =
            groups.value.into_iter().partition(|group| group.name.is_empty());
        let same = groups.hash == tags.groups;
        let part = |groups, tag| {
            // A part without an ETag cannot be confirmed, so that it does not matter what it holds.
            Arc::new(if same { self.load_part(groups, tag).unwrap_or_default() } else { RootPart::default() })
        };
        let (core, named) = (part(core, &tags.core), part(named, &tags.named));
        Some(Root { core, named, live: true })
    }

    fn load_part(&self, groups: Vec<ApiGroup>, tag: &Tag) -> Option<RootPart> {
        let mut lists = Vec::new();
        for group in &groups {
            for version in &group.versions {
                let place = GroupVersion::new(&group.name, version);
                let stored = self.read_list(&place)?;
                if tag.lists.get(&place.to_string()) != Some(&stored.hash) {
                    return None;
                }
                lists.push((place.clone(), Ok(stored.value.fold(&place).into())));
            }
        }
        // The groups may be those of another process than the tag.
        if lists.len() != tag.lists.len() {
            return None;
        }
        for failed in &tag.failed {
            let place = parse(failed);
            groups.iter().find(|group| group.name == place.group)?;
            let error = stale(&place);
            lists.push((place, Err(error)));
        }
        let etag = Some(tag.etag.clone()).filter(|etag| !etag.is_empty())?;
        Some(RootPart::new(groups, lists, Some(etag)))
    }

    /// Writes what is new, and lets the files of what the server has confirmed (`None`) be as of now.
    pub(super) fn save(&self, old: Option<&Root>, core: Option<&RootResponse>, named: Option<&RootResponse>) {
        self.log_failure(self.try_save(old, core, named));
    }

    fn try_save(
        &self,
        old: Option<&Root>,
        core: Option<&RootResponse>,
        named: Option<&RootResponse>,
    ) -> io::Result<()> {
        let before: Tags = self.read(TAGS).map(|stored| stored.value).unwrap_or_default();
        let changed = core.is_some() || named.is_some();
        let old_part = |part: fn(&Root) -> &Arc<RootPart>| old.map(|old| &**part(old));
        let (old_core, old_named) = (old_part(|root| &root.core), old_part(|root| &root.named));
        let tags = Tags {
            core: self.save_part(&before.core, old_core, core)?,
            named: self.save_part(&before.named, old_named, named)?,
            groups: if changed {
                let of = |new: Option<&RootResponse>, old: Option<&RootPart>| {
                    new.map(|new| new.groups.clone()).or(old.map(|old| old.groups.clone()))
                };
                let groups = [of(core, old_core), of(named, old_named)].into_iter().flatten().flatten();
                self.write(GROUPS, &GroupList::of(&groups.collect::<Vec<_>>()))?
            } else {
                if confirms(old_core, &before.core) && confirms(old_named, &before.named) {
                    self.touch(GROUPS, &before.groups);
                }
                before.groups.clone()
            },
        };
        if changed {
            self.write(TAGS, &tags)?;
        }
        Ok(())
    }

    fn save_part(&self, before: &Tag, old: Option<&RootPart>, new: Option<&RootResponse>) -> io::Result<Tag> {
        let Some(new) = new else {
            if confirms(old, before) {
                for (place, hash) in &before.lists {
                    if let Some(name) = list_name(&parse(place)) {
                        self.touch(&name, hash);
                    }
                }
            }
            return Ok(before.clone());
        };
        let mut tag = Tag { etag: new.etag.clone().unwrap_or_default(), ..Tag::default() };
        for (place, list) in new.lists.iter().flatten() {
            match (list, list_name(place)) {
                (Err(_), _) => {
                    tag.failed.insert(place.to_string());
                }
                // As kubectl, which takes an empty list for a failure.
                (Ok(list), Some(name)) if !list.is_empty() => {
                    tag.lists.insert(place.to_string(), self.write(&name, list)?);
                }
                _ => {}
            }
        }
        if new.lists.is_some() {
            for gone in before.lists.keys().filter(|place| !tag.lists.contains_key(*place)) {
                if let Some(name) = list_name(&parse(gone)) {
                    // Another may have been faster.
                    let _ = fs::remove_file(self.dir.join(name));
                }
            }
        }
        Ok(tag)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<Stored<T>> {
        let path = self.dir.join(name);
        let file = File::open(&path).ok()?;
        let modified = file.metadata().ok()?.modified().ok()?;
        let bytes = io::read_to_string(file).ok()?;
        match serde_json::from_str(&bytes) {
            Ok(value) => Some(Stored { value, modified, hash: hash(bytes.as_bytes()) }),
            Err(error) => {
                tracing::debug!("discovery cache: {} is ignored: {error}", path.display());
                None
            }
        }
    }

    /// Writes a file beside its name and renames it, and gives the hash of what it holds.
    fn write(&self, name: &str, value: &impl Serialize) -> io::Result<String> {
        let bytes = serde_json::to_vec(value)?;
        let path = self.dir.join(name);
        let folder = path.parent().unwrap_or(&self.dir);
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
        let mut file = tempfile::Builder::new().prefix(".pilothouse-").tempfile_in(folder)?;
        file.write_all(&bytes)?;
        // Whatever the umask.
        file.as_file().set_permissions(Permissions::from_mode(FILE_MODE))?;
        file.persist(&path)?;
        Ok(hash(&bytes))
    }

    /// Lets a file be as of now, if it is still the one of this hash.
    fn touch(&self, name: &str, expected: &str) {
        let path = self.dir.join(name);
        if fs::read(&path).is_ok_and(|bytes| hash(&bytes) == expected) {
            let touched = OpenOptions::new().write(true).open(&path);
            let touched = touched.and_then(|file| file.set_modified(SystemTime::now()));
            self.log_failure(touched);
        }
    }

    /// A cache that cannot be written is none, and no fault of who asked.
    fn log_failure(&self, written: io::Result<()>) {
        if let Err(error) = written {
            tracing::debug!("discovery cache: {} cannot be written: {error}", self.dir.display());
        }
    }
}

/// Whether what the server has confirmed is what the files hold: another process may have written newer ones.
fn confirms(confirmed: Option<&RootPart>, files: &Tag) -> bool {
    confirmed.is_some_and(|part| part.etag.as_ref() == Some(&files.etag))
}

fn parse(place: &str) -> GroupVersion {
    let (group, version) = place.split_once('/').unwrap_or(("", place));
    GroupVersion::new(group, version)
}

/// The file of a group version below the server's folder; nothing for names that are no file names.
fn list_name(place: &GroupVersion) -> Option<String> {
    let plain = |name: &str| {
        !name.is_empty()
            && !name.starts_with('.')
            && !name.contains(['/', '\\', '\0'])
            && ![GROUPS, TAGS].contains(&name)
    };
    let good = (place.group.is_empty() || plain(&place.group)) && plain(&place.version);
    good.then(|| format!("{place}/serverresources.json"))
}

/// Tells whether a file is the one that was written; a compiler whose hash is another one costs a fetch.
fn hash(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests;
