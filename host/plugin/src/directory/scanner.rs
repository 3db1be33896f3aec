//! [`Scanner`]: scans the directory and returns the changes that were not reported yet.
//!
//! Invariants: `told` has the reported content of each plugin; `broken` has the reported errors; `named` has the
//! plugins of both and those whose error was dropped since. A scan reports exactly the differences between these and
//! the plan. Bytes of components are never held. The manager's directory thread calls it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::file::{self, Digest, Look, Tracked, role};
use super::plan::{Entry, Known, Outcome, plan};
use super::{Change, Files, Places, Rules};
use crate::manifest::Manifest;

/// Number of settling times for which components without a manifest wait for manifests that are being written.
const PATIENCE: u32 = 20;

/// Age of a change after which a file that is found by the first scan counts at once: nobody writes it any more, and the
/// start of a host need not wait for it. The clock of a network file system may differ by a part of this.
const OLD: Duration = Duration::from_secs(10);

/// The state of the scanner for one directory.
#[derive(Debug)]
pub struct Scanner {
    path: PathBuf,
    rules: Rules,
    files: BTreeMap<String, Tracked>,
    /// By manifest, see [`Known`].
    known: HashMap<String, Known>,
    /// Names of plugins with a report since their last report of removal.
    named: HashSet<String>,
    /// By plugin.
    told: HashMap<String, Told>,
    /// Reported errors by the defining file.
    broken: BTreeMap<String, (String, String)>,
    synced: bool,
    unreadable: bool,
}

#[derive(Debug)]
struct Told {
    head: String,
    content: (Option<Digest>, Digest),
    /// Whether to report the plugin again although its content is the same.
    stale: bool,
}

/// The result of a scan.
#[derive(Debug, Default)]
pub struct Seen {
    /// The changes, in the order in which to apply them.
    pub changes: Vec<Change>,
    /// The next time at which a file may settle.
    pub due: Option<Instant>,
}

impl Scanner {
    /// A scanner of a directory.
    #[must_use]
    pub fn new(path: PathBuf, rules: Rules) -> Self {
        Self {
            path,
            rules,
            files: BTreeMap::new(),
            known: HashMap::new(),
            named: HashSet::new(),
            told: HashMap::new(),
            broken: BTreeMap::new(),
            synced: false,
            unreadable: false,
        }
    }

    /// Scans the directory once.
    pub fn look(&mut self, now: Instant) -> Seen {
        self.look_at(now, SystemTime::now())
    }

    /// As [`look`](Self::look), with the time of the clock of files.
    fn look_at(&mut self, now: Instant, clock: SystemTime) -> Seen {
        let found = match list(&self.path) {
            Ok(found) => found,
            Err(error) => return self.lost(&error),
        };
        if std::mem::take(&mut self.unreadable) {
            tracing::info!(event = "plugin_directory_readable", directory = %self.path.display(), "the plugin directory is readable again");
        }
        for (name, file) in &mut self.files {
            if !found.contains_key(name) {
                file.seen(Look::Absent, now);
            }
        }
        let is_first = self.files.is_empty() && !self.synced;
        let old = clock.checked_sub(OLD).filter(|_| is_first);
        for (name, look) in found {
            match self.files.get_mut(&name) {
                Some(file) => file.seen(look, now),
                None => {
                    let is_old = old.is_some_and(|old| look.changed_before(old));
                    let since = now.checked_sub(self.rules.settle).filter(|_| is_old);
                    self.files.insert(name, Tracked::new(look, since.unwrap_or(now)));
                }
            }
        }
        self.settle(now);
        let patience = self.rules.settle * PATIENCE;
        let entries = plan(&self.files, &self.known, now, patience, &self.rules.ceilings);
        let mut changes = self.compare(entries);
        let waits = self.files.values().any(|file| file.is_restless(now, patience));
        if !self.synced && !waits {
            self.synced = true;
            changes.push(Change::Synced);
        }
        let due = self.files.values().filter_map(|file| file.due(self.rules.settle)).min();
        Seen { changes, due }
    }

    /// The directory cannot be read: the state of the files is unknown and stays as it is.
    fn lost(&mut self, error: &io::Error) -> Seen {
        let mut seen = Seen::default();
        if !std::mem::replace(&mut self.unreadable, true) {
            let reason = format!(
                "the plugin directory {} cannot be read: {error}; create it again; plugins keep running",
                self.path.display()
            );
            seen.changes.push(Change::Unreadable { reason });
        }
        seen
    }

    /// Reads settled files, and drops removed ones.
    fn settle(&mut self, now: Instant) {
        let Self { path, rules, files, .. } = self;
        files.retain(|name, file| {
            role(name).is_some_and(|(_, role)| file.settle(&path.join(name), role, now, rules))
        });
    }

    /// Computes the unreported changes and records them as reported.
    fn compare(&mut self, entries: Vec<Entry>) -> Vec<Change> {
        let mut changes = self.removed(&entries);
        self.known.retain(|head, _| entries.iter().any(|entry| entry.head == *head));
        self.forget_broken(&entries);
        for Entry { head, name, component, outcome } in entries {
            match outcome {
                Outcome::Hold => {}
                Outcome::Broken { file, reason } => self.tell_broken(head, name, &file, reason, &mut changes),
                Outcome::Gone { reason } => {
                    self.known.insert(head.clone(), Known { name: name.clone(), component });
                    self.tell_broken(head.clone(), name, &head, reason, &mut changes);
                }
                Outcome::Ready { manifest, manifest_digest, digest } => {
                    self.known
                        .insert(head.clone(), Known { name: name.clone(), component: component.clone() });
                    let content = (manifest_digest, digest);
                    let same = |told: &Told| told.head == head && told.content == content && !told.stale;
                    if self.told.get(&name).is_some_and(same) {
                        continue;
                    }
                    changes.push(Change::Changed(self.files_of(&head, component, content, manifest)));
                    self.named.insert(name.clone());
                    self.told.insert(name, Told { head, content, stale: false });
                }
            }
        }
        changes
    }

    fn files_of(
        &self,
        head: &str,
        component: String,
        (manifest_digest, digest): (Option<Digest>, Digest),
        manifest: Arc<Manifest>,
    ) -> Files {
        let wasm_path = self.path.join(&component);
        Files {
            name: manifest.name.clone(),
            digest: file::spell(&digest),
            places: Places {
                component: wasm_path.display().to_string(),
                manifest: (head != component).then(|| self.path.join(head).display().to_string()),
            },
            wasm_path,
            manifest_digest: manifest_digest.as_ref().map(file::spell).unwrap_or_default(),
            manifest,
        }
    }

    /// The reported plugins that no file defines any more, or whose component was removed. Reported first, so that a
    /// renamed plugin does not run twice.
    fn removed(&mut self, entries: &[Entry]) -> Vec<Change> {
        let standing: HashSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let mut gone: Vec<String> =
            self.named.iter().filter(|name| !standing.contains(name.as_str())).cloned().collect();
        gone.extend(entries.iter().filter_map(|entry| {
            let ends = matches!(entry.outcome, Outcome::Gone { .. })
                && self.told.get(&entry.name).is_some_and(|told| told.head == entry.head);
            ends.then(|| entry.name.clone())
        }));
        gone.sort_unstable();
        gone.dedup();
        for name in &gone {
            self.named.remove(name);
            self.told.remove(name);
        }
        gone.into_iter().map(|name| Change::Removed { name }).collect()
    }

    /// Drops errors that no longer apply. A plugin without errors is reported again, because the consumer shows its old
    /// error.
    fn forget_broken(&mut self, entries: &[Entry]) {
        let outcomes: HashMap<&str, &Outcome> =
            entries.iter().map(|entry| (entry.head.as_str(), &entry.outcome)).collect();
        let mut healed = Vec::new();
        self.broken.retain(|head, (name, _)| match outcomes.get(head.as_str()) {
            Some(Outcome::Hold | Outcome::Broken { .. } | Outcome::Gone { .. }) => true,
            Some(Outcome::Ready { .. }) | None => {
                healed.push(std::mem::take(name));
                false
            }
        });
        for name in healed {
            let still = self.broken.values().any(|(other, _)| *other == name);
            if let Some(told) = self.told.get_mut(&name).filter(|_| !still) {
                told.stale = true;
            }
        }
    }

    fn tell_broken(
        &mut self,
        head: String,
        name: String,
        file: &str,
        reason: String,
        changes: &mut Vec<Change>,
    ) {
        let new = (name, reason);
        if self.broken.get(&head) == Some(&new) {
            return;
        }
        let (name, reason) = new.clone();
        self.named.insert(name.clone());
        changes.push(Change::Broken { name, file: self.path.join(file), reason });
        self.broken.insert(head, new);
    }
}

/// The relevant files and their state.
fn list(path: &Path) -> io::Result<BTreeMap<String, Look>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(path)? {
        let name = entry?.file_name();
        match name.to_str() {
            Some(name) if role(name).is_none() => {}
            Some(name) => {
                found.insert(name.to_owned(), file::look(&path.join(name)));
            }
            None => {
                let name = name.to_string_lossy().into_owned();
                if role(&name).is_some() {
                    found.insert(name, Look::Unusable("its name is not UTF-8 text; rename it".into()));
                }
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLE: Duration = Duration::from_millis(100);

    fn scanner(path: &Path) -> Scanner {
        Scanner::new(path.into(), Rules { settle: SETTLE, ..Rules::default() })
    }

    /// Names of the reported plugins; `+` for the report that all are reported.
    fn told(seen: &Seen) -> Vec<&str> {
        fn name(change: &Change) -> &str {
            match change {
                Change::Changed(files) => &files.name,
                Change::Synced => "+",
                other => panic!("{other:?}"),
            }
        }
        seen.changes.iter().map(name).collect()
    }

    #[test]
    fn a_file_counts_when_it_has_kept_still_for_long_enough() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wasm");
        let mut scanner = scanner(dir.path());
        let start = Instant::now();
        std::fs::write(&path, "1").unwrap();
        let seen = scanner.look(start);
        assert_eq!((told(&seen), seen.due), (vec![], Some(start + SETTLE)));
        std::fs::write(&path, "12").unwrap();
        let later = start + SETTLE;
        let seen = scanner.look(later);
        assert_eq!((told(&seen), seen.due), (vec![], Some(later + SETTLE)));
        assert_eq!(told(&scanner.look(later + SETTLE - Duration::from_nanos(1))), [""; 0]);
        let seen = scanner.look(later + SETTLE);
        assert_eq!((told(&seen), seen.due), (vec!["a", "+"], None));
        assert_eq!(told(&scanner.look(later + SETTLE * 9)), [""; 0]);
    }

    #[test]
    fn an_old_file_counts_at_once_at_the_start_and_only_then() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str| std::fs::write(dir.path().join(name), "1").unwrap();
        write("a.wasm");
        let (start, clock) = (Instant::now(), SystemTime::now());
        assert_eq!(told(&scanner(dir.path()).look_at(start, clock)), [""; 0], "it is new");
        let later = clock + OLD + Duration::from_secs(2);
        let mut scanner = scanner(dir.path());
        assert_eq!(told(&scanner.look_at(start, later)), ["a", "+"]);
        write("b.wasm");
        let seen = scanner.look_at(start, later + OLD);
        assert_eq!((told(&seen), seen.due), (vec![], Some(start + SETTLE)));
        assert_eq!(told(&scanner.look_at(start + SETTLE, later + OLD)), ["b"]);
    }

    #[test]
    fn a_file_that_others_may_write_is_refused_until_its_mode_is_mended_or_the_host_is_told_to_take_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wasm");
        std::fs::write(&path, "1").unwrap();
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o666);
        let start = Instant::now();
        let allowed = Rules { settle: SETTLE, allow_writable: true, ..Rules::default() };
        let mut trusting = Scanner::new(dir.path().into(), allowed);
        trusting.look(start);
        assert_eq!(told(&trusting.look(start + SETTLE)), ["a", "+"]);
        let mut scanner = scanner(dir.path());
        scanner.look(start);
        let seen = scanner.look(start + SETTLE);
        let [Change::Broken { name, reason, .. }, Change::Synced] = &seen.changes[..] else {
            panic!("{seen:?}")
        };
        assert_eq!(name, "a");
        assert!(reason.starts_with("it may be written by others (mode 0666, group "), "{reason}");
        assert!(reason.contains(&format!("chmod go-w {}", path.display())), "{reason}");
        mode(0o644);
        scanner.look(start + SETTLE * 2);
        assert_eq!(told(&scanner.look(start + SETTLE * 3)), ["a"]);
    }

    /// Read-only, as old as the builder of an image likes, and with folders beside the files.
    #[test]
    fn a_folder_of_an_image_volume_is_taken_as_it_is() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        for name in ["a.wasm", "Dockerfile", "etc/b.wasm"] {
            let path = dir.path().join(name);
            std::fs::write(&path, "1").unwrap();
            std::fs::File::open(&path).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            mode(&path, 0o444);
        }
        mode(dir.path(), 0o555);
        let mut scanner = scanner(dir.path());
        let start = Instant::now();
        scanner.look(start);
        assert_eq!(told(&scanner.look(start + SETTLE)), ["a", "+"]);
        // It is removed with the test.
        mode(dir.path(), 0o755);
    }

    /// `foo.yaml` cannot be parsed, and `bar.yaml` defines the plugin `foo`.
    #[test]
    fn a_stray_file_blames_itself_and_not_the_plugin_of_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("c.wasm", "c");
        write(
            "bar.yaml",
            "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: { name: foo }\nspec: { source: { file: c.wasm } }\n",
        );
        let mut scanner = scanner(dir.path());
        let start = Instant::now();
        scanner.look(start);
        assert_eq!(told(&scanner.look(start + SETTLE)), ["foo", "+"]);
        write("foo.yaml", "a: [");
        scanner.look(start + SETTLE * 2);
        let seen = scanner.look(start + SETTLE * 3);
        let [Change::Broken { name, file, .. }] = &seen.changes[..] else { panic!("{:?}", seen.changes) };
        assert_eq!((name.as_str(), file.file_name().unwrap().to_str()), ("foo.yaml", Some("foo.yaml")));
        std::fs::remove_file(dir.path().join("foo.yaml")).unwrap();
        scanner.look(start + SETTLE * 4);
        let gone = scanner.look(start + SETTLE * 5).changes;
        let removed = Change::Removed { name: "foo.yaml".to_owned() };
        assert_eq!(gone, [removed], "the plugin foo is not loaded again");
    }

    #[test]
    fn a_file_that_never_keeps_still_does_not_hold_up_the_others_for_good() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.wasm"), "a").unwrap();
        let mut scanner = scanner(dir.path());
        let start = Instant::now();
        let mut text = String::new();
        for step in 0..PATIENCE {
            text.push(' ');
            std::fs::write(dir.path().join("b.yaml"), &text).unwrap();
            assert_eq!(told(&scanner.look(start + SETTLE * step)), [""; 0], "{step}");
        }
        std::fs::write(dir.path().join("b.yaml"), "").unwrap();
        assert_eq!(told(&scanner.look(start + SETTLE * PATIENCE)), ["a", "+"]);
    }
}
