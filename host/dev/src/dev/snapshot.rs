//! [`Snapshot`]: the sources as they were when they were last looked at, and what is different now.
//!
//! Invariants: a file counts as changed when its content is another, so neither `touch` nor a build script that writes what is
//! there already brings about a build; output of builds, hidden files and editors' leftovers are not looked at. Called by
//! [`super::watch`] on its thread.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::projects::{is_hidden, is_output};

/// File systems read a coarser clock than we do: a file may look so much older. A change told in vain costs a build with
/// nothing to do.
const CLOCKS_DIFFER: Duration = Duration::from_millis(50);

/// What is watched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Root {
    /// A package: its folder and those in it, but for packages of their own.
    Tree(PathBuf),
    /// The components and manifests of a folder.
    Flat(PathBuf),
    /// The files with objects of a folder, YAML and JSON.
    Objects(PathBuf),
    /// One file.
    File(PathBuf),
}

impl Root {
    /// Whether a file that changed is one of these.
    pub(crate) fn holds(&self, file: &Path) -> bool {
        match self {
            Self::Tree(folder) => file.starts_with(folder),
            Self::Flat(folder) | Self::Objects(folder) => file.parent() == Some(folder),
            Self::File(path) => file == path,
        }
    }
}

/// How a file looked, and what it held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    size: u64,
    modified: SystemTime,
    content: u64,
}

/// The files of the roots.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    roots: BTreeSet<Root>,
    files: BTreeMap<PathBuf, Seen>,
    /// Folders whose entries matter.
    pub(super) folders: BTreeSet<PathBuf>,
}

impl Snapshot {
    /// Watches these too, and looks. What is in them counts as known, unless it was changed after `since`.
    pub(super) fn add(&mut self, roots: BTreeSet<Root>, since: SystemTime) -> Vec<PathBuf> {
        // What changed in the roots before is no question of time.
        let mut changed = self.look();
        if !roots.is_subset(&self.roots) {
            self.roots.extend(roots);
            let since = since.checked_sub(CLOCKS_DIFFER).unwrap_or(since);
            let mut found = self.look();
            found.retain(|path| self.files.get(path).is_some_and(|seen| seen.modified >= since));
            changed.extend(found);
        }
        changed
    }

    /// Looks at all files and answers which are new, gone or different.
    pub(super) fn look(&mut self) -> Vec<PathBuf> {
        let mut found = Found::default();
        for root in &self.roots {
            match root {
                Root::Tree(folder) => found.tree(folder),
                Root::Flat(folder) => {
                    let ours = |path: &Path| {
                        super::manifests::is_yaml(path)
                            || path.extension().is_some_and(|ending| ending == "wasm")
                    };
                    found.entries(folder, &ours);
                }
                Root::Objects(folder) => {
                    let objects = |path: &Path| {
                        super::manifests::is_yaml(path)
                            || path.extension().is_some_and(|ending| ending == "json")
                    };
                    found.entries(folder, &objects);
                }
                Root::File(path) => {
                    found.folders.extend(path.parent().filter(|folder| folder.is_dir()).map(Path::to_owned));
                    found.files.insert(path.clone());
                }
            }
        }
        self.folders = found.folders;
        let mut changed = Vec::new();
        let mut files = BTreeMap::new();
        for path in found.files {
            let before = self.files.remove(&path);
            let Some(seen) = see(&path, before) else {
                changed.extend(before.is_some().then_some(path));
                continue;
            };
            if before.is_none_or(|before| before.content != seen.content) {
                changed.push(path.clone());
            }
            files.insert(path, seen);
        }
        changed.extend(std::mem::replace(&mut self.files, files).into_keys());
        changed
    }
}

/// How a file looks now; it is read if it looks otherwise than before. None when it is no file.
fn see(path: &Path, before: Option<Seen>) -> Option<Seen> {
    let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let (size, modified) = (metadata.len(), metadata.modified().ok()?);
    if let Some(before) = before
        && (before.size, before.modified) == (size, modified)
    {
        return Some(before);
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read(path).ok()?);
    Some(Seen { size, modified, content: hasher.finish() })
}

/// What is there.
#[derive(Default)]
struct Found {
    files: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
}

impl Found {
    fn tree(&mut self, folder: &Path) {
        // Links may lead in circles.
        let folders = self.entries(folder, &|path| !is_leftover(path));
        for inner in folders {
            let apart =
                is_output(&inner) || inner.join("Cargo.toml").exists() || self.folders.contains(&inner);
            if !apart && !inner.is_symlink() {
                self.tree(&inner);
            }
        }
    }

    /// Takes the files of a folder that matter and gives back the folders.
    fn entries(&mut self, folder: &Path, matters: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        let Ok(entries) = fs::read_dir(folder) else { return folders };
        self.folders.insert(folder.to_owned());
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| !is_hidden(path)) {
            if path.is_dir() {
                folders.push(path);
            } else if matters(&path) {
                self.files.insert(path);
            }
        }
        folders
    }
}

/// What editors keep beside a file.
fn is_leftover(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(b"~") || name.starts_with(b"#") || name == b"4913"
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        snapshot: Snapshot,
    }

    impl Place {
        fn new(files: &[&str], root: fn(PathBuf) -> Root) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let mut place = Self { snapshot: Snapshot::default(), dir };
            files.iter().for_each(|file| place.write(file, "1"));
            let root = root(place.dir.path().join("p"));
            assert_eq!(
                place.snapshot.add(BTreeSet::from([root]), SystemTime::now() + Duration::from_secs(60)),
                [""; 0].map(PathBuf::from)
            );
            place
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn changed(&mut self) -> Vec<String> {
            let name =
                |path: PathBuf| path.strip_prefix(self.dir.path()).unwrap().to_str().unwrap().to_owned();
            self.snapshot.look().into_iter().map(name).collect()
        }
    }

    #[test]
    fn sources_that_come_change_and_go_are_told_once() {
        let mut place = Place::new(&["p/Cargo.toml", "p/src/lib.rs", "p/src/gone.rs"], Root::Tree);
        place.write("p/src/lib.rs", "two");
        place.write("p/src/deep/new.rs", "1");
        fs::remove_file(place.dir.path().join("p/src/gone.rs")).unwrap();
        assert_eq!(place.changed(), ["p/src/deep/new.rs", "p/src/lib.rs", "p/src/gone.rs"]);
        assert_eq!(place.changed(), [""; 0]);
        assert!(place.snapshot.folders.contains(&place.dir.path().join("p/src/deep")));
    }

    #[test]
    fn what_tools_leave_and_what_only_looks_different_is_no_change() {
        let mut place = Place::new(&["p/Cargo.toml", "p/src/lib.rs", "p/cache/CACHEDIR.TAG"], Root::Tree);
        for file in
            ["p/target/x.rs", "p/cache/x.rs", "p/.git/x", "p/src/.lib.rs.swp", "p/src/lib.rs~", "p/4913"]
        {
            place.write(file, "1");
        }
        // A package of its own.
        place.write("p/other/Cargo.toml", "1");
        place.write("p/other/src/lib.rs", "1");
        let later = SystemTime::now() + Duration::from_secs(60);
        let touched = fs::File::options().append(true).open(place.dir.path().join("p/src/lib.rs")).unwrap();
        touched.set_modified(later).unwrap();
        assert_eq!(place.changed(), [""; 0]);
    }

    #[test]
    fn a_folder_of_components_is_not_looked_into() {
        let mut place = Place::new(&["p/a.wasm", "p/a.yaml"], Root::Flat);
        for file in ["p/a.wasm", "p/b.yaml", "p/notes.txt", "p/deeper/a.wasm"] {
            place.write(file, "two");
        }
        assert_eq!(place.changed(), ["p/a.wasm", "p/b.yaml"]);
    }

    #[test]
    fn a_file_may_come_later() {
        let mut place = Place::new(&["q/x"], Root::File);
        assert_eq!(place.changed(), [""; 0]);
        place.write("p", "1");
        assert_eq!(place.changed(), ["p"]);
    }

    #[test]
    fn what_changed_while_it_was_not_known_yet_is_told() {
        let mut place = Place::new(&["p/Cargo.toml"], Root::Tree);
        place.write("sdk/old.rs", "1");
        let old = fs::File::options().append(true).open(place.dir.path().join("sdk/old.rs")).unwrap();
        let since = SystemTime::now() - Duration::from_secs(60);
        old.set_modified(since - Duration::from_secs(60)).unwrap();
        place.write("sdk/new.rs", "1");
        let sdk = Root::Tree(place.dir.path().join("sdk"));
        let changed = place.snapshot.add(BTreeSet::from([sdk.clone()]), since);
        assert_eq!(changed, [place.dir.path().join("sdk/new.rs")]);
        assert_eq!(place.snapshot.add(BTreeSet::from([sdk]), since), [""; 0].map(PathBuf::from));
    }
}
