//! [`Directory`]: what is told of files that come, change and go, on a real file system.
//!
//! Nothing here waits for a time to pass: a wait is for what must be told, and that nothing is told of a change is shown
//! by a later one that is told alone.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::FutureExt as _;
use pilothouse_manager::{Directory, DirectoryError, DirectoryOptions};
use pilothouse_plugin::directory::{Change, Files, read_component};
use tempfile::TempDir;

/// Long enough for a machine that builds meanwhile.
const DEADLINE: Duration = Duration::from_secs(60);

/// Relies on inotify alone.
const HEARD: DirectoryOptions = DirectoryOptions {
    poll_interval: Duration::from_secs(3600),
    settle: Duration::from_millis(60),
    allow_writable: false,
};
/// Looks often.
const POLLED: DirectoryOptions = DirectoryOptions {
    poll_interval: Duration::from_millis(20),
    settle: Duration::from_millis(60),
    allow_writable: false,
};

struct Plugins {
    /// Holds the plugin directory, so that it can be moved.
    outer: TempDir,
    dir: PathBuf,
    directory: Directory,
    /// Told, but not asked for yet.
    told: std::collections::VecDeque<Change>,
}

impl Plugins {
    /// A directory with these files, after what was there at the start has been told; also answers that.
    async fn with(files: &[(&str, &str)], options: DirectoryOptions) -> (Self, Vec<Change>) {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("plugins");
        fs::create_dir(&dir).unwrap();
        for (name, content) in files {
            fs::write(dir.join(name), content).unwrap();
        }
        let directory = Directory::new(&dir, options).unwrap();
        let mut plugins = Self { outer, dir, directory, told: Default::default() };
        let mut first = Vec::new();
        loop {
            match plugins.next().await {
                Change::Synced => return (plugins, first),
                change => first.push(change),
            }
        }
    }

    async fn empty() -> Self {
        let (plugins, first) = Self::with(&[], HEARD).await;
        assert_eq!(first, []);
        plugins
    }

    async fn next(&mut self) -> Change {
        while self.told.is_empty() {
            let changes =
                tokio::time::timeout(DEADLINE, self.directory.next()).await.expect("nothing was told");
            assert!(!changes.is_empty());
            self.told.extend(changes);
        }
        self.told.pop_front().unwrap()
    }

    async fn changed(&mut self) -> Files {
        match self.next().await {
            Change::Changed(files) => files,
            other => panic!("{other:?}"),
        }
    }

    /// File and reason.
    async fn broken(&mut self, plugin: &str) -> (String, String) {
        match self.next().await {
            Change::Broken { name, file, reason } if name == plugin => {
                assert_eq!(file.parent(), Some(&*self.dir));
                (file.file_name().unwrap().to_str().unwrap().to_owned(), reason)
            }
            other => panic!("{other:?}"),
        }
    }

    async fn removed(&mut self, plugin: &str) {
        assert_eq!(self.next().await, Change::Removed { name: plugin.into() });
    }

    /// Nothing is told but this change, which is made now.
    async fn nothing_else(&mut self) {
        let name = format!("sentinel-{}", number());
        self.write(&format!("{name}.wasm"), "");
        assert_eq!(self.changed().await.name, name);
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    fn write(&self, file: &str, content: &str) {
        fs::write(self.path(file), content).unwrap();
    }

    fn remove(&self, file: &str) {
        fs::remove_file(self.path(file)).unwrap();
    }
}

/// A number that was not handed out before.
fn number() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

fn manifest(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: {{ name: {name} }}\nspec: {{ {spec} }}\n"
    )
}

/// The content of the component that was told.
#[track_caller]
fn wasm(files: &Files) -> Vec<u8> {
    read_component(&files.wasm_path, &files.digest)
        .unwrap()
        .expect("the file is the one that was told")
        .into()
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing from: {text}");
    }
}

#[tokio::test]
async fn what_is_there_at_the_start_is_told_and_then_the_mark() {
    let (mut plugins, first) = Plugins::with(
        &[
            ("a.yaml", &manifest("first", "source: { file: other.wasm }")),
            ("other.wasm", "other"),
            ("pods_per_node.wasm", "bare"),
            ("z.yml", &manifest("last", "onReload: keep")),
            ("z.wasm", "z"),
            ("readme.md", "ignored"),
            (".hidden.wasm", "ignored"),
            ("z.yaml~", "ignored"),
            (".z.yaml.swp", "ignored"),
            ("4913", "ignored"),
            ("z.wasm.tmp", "ignored"),
        ],
        HEARD,
    )
    .await;
    let files: Vec<&Files> = first
        .iter()
        .map(|change| match change {
            Change::Changed(files) => files,
            other => panic!("{other:?}"),
        })
        .collect();
    let names: Vec<_> = files.iter().map(|files| (files.name.as_str(), wasm(files))).collect();
    let expected = [("first", "other"), ("pods-per-node", "bare"), ("last", "z")];
    assert_eq!(names, expected.map(|(name, content)| (name, content.as_bytes().to_vec())));
    assert_eq!(files[0].wasm_path, plugins.path("other.wasm"));
    assert_eq!(files[0].places.manifest, Some(plugins.path("a.yaml").display().to_string()));
    assert_eq!(files[0].digest, "sha256:d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa");
    assert_eq!(files[1].places.manifest, None);
    assert_eq!(files[1].manifest.permissions, []);
    assert_eq!(files[2].manifest.name, "last");
    plugins.nothing_else().await;
}

#[test]
fn a_directory_that_is_not_there_is_an_error_of_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let error = Directory::new(dir.path().join("no"), HEARD).unwrap_err();
    assert!(matches!(error, DirectoryError::Unreadable { .. }));
    says(&error.to_string(), &["/no cannot be read", "No such file", "create it", "--plugins"]);
    assert!(
        std::error::Error::source(&error).is_none(),
        "the text has the cause, which a chain would repeat"
    );
    fs::write(dir.path().join("file"), "").unwrap();
    let error = Directory::new(dir.path().join("file"), HEARD).unwrap_err();
    says(&error.to_string(), &["/file is not a directory", "--plugins"]);
}

#[tokio::test]
async fn a_component_comes_changes_and_goes() {
    let mut plugins = Plugins::empty().await;
    plugins.write("a.wasm", "1");
    assert_eq!(wasm(&plugins.changed().await), b"1");
    plugins.write("a.wasm", "2");
    assert_eq!(wasm(&plugins.changed().await), b"2");
    plugins.remove("a.wasm");
    plugins.removed("a").await;
    plugins.write("a.wasm", "2");
    assert_eq!(wasm(&plugins.changed().await), b"2");
    plugins.nothing_else().await;
}

#[tokio::test]
async fn touching_and_writing_the_same_is_silent() {
    let (mut plugins, _) = Plugins::with(&[("a.wasm", "1"), ("a.yaml", &manifest("a", ""))], HEARD).await;
    fs::File::open(plugins.path("a.wasm")).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
    plugins.write("a.yaml", &manifest("a", ""));
    plugins.nothing_else().await;
    plugins.remove("a.wasm");
    plugins.write("a.wasm", "1");
    plugins.nothing_else().await;
}

#[tokio::test]
async fn content_that_changes_behind_the_same_size_and_time_is_seen() {
    let (mut plugins, _) = Plugins::with(&[("a.wasm", "1")], HEARD).await;
    let modified = fs::metadata(plugins.path("a.wasm")).unwrap().modified().unwrap();
    plugins.write("a.wasm", "2");
    fs::File::options().write(true).open(plugins.path("a.wasm")).unwrap().set_modified(modified).unwrap();
    assert_eq!(wasm(&plugins.changed().await), b"2");
}

#[tokio::test]
async fn a_slow_copy_is_read_when_it_is_whole() {
    let options = DirectoryOptions { settle: Duration::from_secs(1), ..HEARD };
    let (mut plugins, _) = Plugins::with(&[("b.wasm", "old")], options).await;
    let paths = [plugins.path("a.wasm"), plugins.path("b.wasm")];
    let copy = tokio::task::spawn_blocking(move || {
        use std::io::Write as _;
        let mut files = paths.map(|path| fs::File::create(path).unwrap());
        for chunk in 0..30 {
            for file in &mut files {
                file.write_all(&[chunk; 1000]).unwrap();
            }
            // The pace of the copy, far below the settling time; nothing waits for it.
            std::thread::sleep(Duration::from_millis(40));
        }
    });
    for name in ["a", "b"] {
        let files = plugins.changed().await;
        assert_eq!((files.name.as_str(), wasm(&files).len()), (name, 30_000));
    }
    copy.await.unwrap();
    plugins.nothing_else().await;
}

#[tokio::test]
async fn files_moved_over_and_written_by_editors_are_seen_once() {
    let (mut plugins, _) = Plugins::with(&[("a.wasm", "1"), ("a.yaml", &manifest("a", ""))], HEARD).await;
    fs::write(plugins.outer.path().join("new"), "2").unwrap();
    fs::rename(plugins.outer.path().join("new"), plugins.path("a.wasm")).unwrap();
    assert_eq!(wasm(&plugins.changed().await), b"2");
    // As vim does it: a probe, the old one aside, a new one, the old one away.
    plugins.write("4913", "");
    plugins.remove("4913");
    fs::rename(plugins.path("a.yaml"), plugins.path("a.yaml~")).unwrap();
    plugins.write("a.yaml", &manifest("a", "onReload: keep"));
    plugins.remove("a.yaml~");
    let files = plugins.changed().await;
    assert_eq!(files.manifest.on_reload, pilothouse_plugin::OnReload::Keep);
    // As others do it.
    plugins.write(".a.yaml.x7", &manifest("a", ""));
    fs::rename(plugins.path(".a.yaml.x7"), plugins.path("a.yaml")).unwrap();
    assert_eq!(plugins.changed().await.manifest.on_reload, pilothouse_plugin::OnReload::Resync);
    plugins.nothing_else().await;
}

/// Writes a version of a ConfigMap as the kubelet does and swaps it in.
fn swap(dir: &Path, version: &str, files: &[(&str, &str)]) {
    let data = dir.join(format!("..{version}"));
    fs::create_dir(&data).unwrap();
    for (name, content) in files {
        fs::write(data.join(name), content).unwrap();
        if !dir.join(name).is_symlink() {
            symlink(Path::new("..data").join(name), dir.join(name)).unwrap();
        }
    }
    let old = fs::read_link(dir.join("..data")).ok();
    symlink(format!("..{version}"), dir.join("..data_tmp")).unwrap();
    fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    if let Some(old) = old {
        fs::remove_dir_all(dir.join(old)).unwrap();
    }
}

#[tokio::test]
async fn a_config_map_is_seen_through_its_links() {
    let mut plugins = Plugins::empty().await;
    let keep = manifest("a", "onReload: keep");
    swap(&plugins.dir, "2026_1", &[("a.wasm", "1"), ("a.yaml", &manifest("a", "")), ("b.wasm", "b")]);
    assert_eq!(wasm(&plugins.changed().await), b"1");
    assert_eq!(plugins.changed().await.name, "b");
    swap(&plugins.dir, "2026_2", &[("a.wasm", "2"), ("a.yaml", &keep), ("b.wasm", "b")]);
    let files = plugins.changed().await;
    assert_eq!((&wasm(&files)[..], files.manifest.on_reload), (&b"2"[..], pilothouse_plugin::OnReload::Keep));
    plugins.nothing_else().await;
}

#[tokio::test]
async fn a_manifest_that_cannot_be_read_leaves_the_plugin_as_it_was() {
    let good = manifest("other", "source: { file: b.wasm }");
    let (mut plugins, _) = Plugins::with(&[("a.yaml", &good), ("b.wasm", "1")], HEARD).await;
    plugins.write("a.yaml", &good.replace("source", "sauce"));
    let (file, reason) = plugins.broken("other").await;
    assert_eq!(file, "a.yaml");
    says(&reason, &["line 4", "sauce", "source", "docs/manifest.md"]);
    // Its component does not become a plugin without grants meanwhile, nor is it told again.
    plugins.write("b.wasm", "2");
    plugins.nothing_else().await;
    plugins.write("a.yaml", &good);
    assert_eq!(wasm(&plugins.changed().await), b"2");
}

#[tokio::test]
async fn a_plugin_whose_manifest_is_mended_is_told_again_though_it_is_as_before() {
    let good = manifest("a", "");
    let (mut plugins, _) = Plugins::with(&[("a.yaml", &good), ("a.wasm", "1")], HEARD).await;
    plugins.write("a.yaml", "kind: {");
    plugins.broken("a").await;
    plugins.write("a.yaml", &good);
    assert_eq!(plugins.changed().await.name, "a");
    plugins.nothing_else().await;
}

#[tokio::test]
async fn a_broken_manifest_that_goes_away_takes_its_plugin_along() {
    let (mut plugins, first) = Plugins::with(&[("a.yaml", "kind: ConfigMap")], HEARD).await;
    assert_eq!(first.len(), 1, "{first:?}");
    plugins.remove("a.yaml");
    plugins.removed("a").await;
    plugins.nothing_else().await;
}

#[tokio::test]
async fn another_digest_than_demanded_is_refused_with_both() {
    let wanted = format!("sha256:{}", "0".repeat(64));
    let spec = format!("source: {{ digest: \"{wanted}\" }}");
    let (mut plugins, first) =
        Plugins::with(&[("a.yaml", &manifest("a", &spec)), ("a.wasm", "other")], HEARD).await;
    let [Change::Broken { name, file, reason }] = &first[..] else { panic!("{first:?}") };
    assert_eq!((name.as_str(), file), ("a", &plugins.path("a.yaml")));
    let found = "sha256:d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa";
    says(reason, &["a.wasm", found, &wanted, "copy the right component"]);
    plugins.write("a.yaml", &manifest("a", &format!("source: {{ digest: \"{found}\" }}")));
    assert_eq!(wasm(&plugins.changed().await), b"other");
}

#[tokio::test]
async fn of_two_plugins_of_one_name_the_later_file_is_refused() {
    let (mut plugins, first) =
        Plugins::with(&[("a_b.wasm", "1"), ("z.yaml", &manifest("a-b", "")), ("z.wasm", "2")], HEARD).await;
    let [Change::Changed(files), Change::Broken { name, file, reason }] = &first[..] else {
        panic!("{first:?}")
    };
    assert_eq!((&wasm(files)[..], name.as_str(), file), (&b"1"[..], "a-b", &plugins.path("z.yaml")));
    says(reason, &["\"a-b\" is taken by a_b.wasm", "metadata.name"]);
    // With the first one gone, the name is free.
    plugins.remove("a_b.wasm");
    assert_eq!(wasm(&plugins.changed().await), b"2");
    // With the first one back, the later one loses it again.
    plugins.write("a_b.wasm", "1");
    assert_eq!(wasm(&plugins.changed().await), b"1");
    plugins.broken("a-b").await;
    plugins.write("z.yaml", &manifest("own", ""));
    let mut names = [plugins.changed().await.name, plugins.changed().await.name];
    names.sort_unstable();
    assert_eq!(names, ["a-b", "own"], "the first is told again, since its error is gone");
    plugins.nothing_else().await;
}

#[tokio::test]
async fn a_manifest_that_was_never_read_does_not_take_a_name() {
    let (_plugins, first) =
        Plugins::with(&[("a.yaml", "kind: {"), ("b.yaml", &manifest("a", "")), ("b.wasm", "1")], HEARD).await;
    let [Change::Broken { name, file, .. }, Change::Changed(files)] = &first[..] else { panic!("{first:?}") };
    assert!(file.ends_with("a.yaml"), "{file:?}");
    assert_eq!(
        (name.as_str(), files.name.as_str()),
        ("a.yaml", "a"),
        "the error is not that of the plugin a"
    );
}

#[tokio::test]
async fn a_plugin_ends_with_its_component_and_comes_back_with_it() {
    let (mut plugins, _) = Plugins::with(&[("a.yaml", &manifest("a", "")), ("a.wasm", "1")], HEARD).await;
    plugins.remove("a.wasm");
    plugins.removed("a").await;
    let (file, reason) = plugins.broken("a").await;
    assert_eq!(file, "a.yaml");
    says(&reason, &["a.wasm is not in the directory", "copy it there"]);
    plugins.nothing_else().await;
    plugins.write("a.wasm", "1");
    assert_eq!(plugins.changed().await.name, "a");
    plugins.remove("a.wasm");
    plugins.remove("a.yaml");
    plugins.removed("a").await;
    plugins.nothing_else().await;
}

#[tokio::test]
async fn without_its_manifest_a_component_is_a_plugin_of_its_own() {
    let permissions = "permissions: [ { groups: [''], resources: [pods], verbs: [get] } ]";
    let (mut plugins, _) =
        Plugins::with(&[("a.yaml", &manifest("a", permissions)), ("a.wasm", "1")], HEARD).await;
    plugins.remove("a.yaml");
    let files = plugins.changed().await;
    assert_eq!(
        (files.name.as_str(), files.places.manifest, files.manifest.permissions.len()),
        ("a", None, 0)
    );
    plugins.write("a.yaml", &manifest("named", permissions));
    plugins.removed("a").await;
    let files = plugins.changed().await;
    assert_eq!((files.name.as_str(), files.manifest.permissions.len()), ("named", 1));
    plugins.nothing_else().await;
}

#[tokio::test]
async fn a_component_waits_for_a_manifest_that_is_being_written() {
    let options = DirectoryOptions { settle: Duration::from_secs(1), ..HEARD };
    let (mut plugins, _) = Plugins::with(&[], options).await;
    plugins.write("a.wasm", "1");
    let path = plugins.path("b.yaml");
    let write = tokio::task::spawn_blocking(move || {
        let mut text = manifest("b", "source: { file: a.wasm }");
        for _ in 0..40 {
            text.push('#');
            fs::write(&path, &text).unwrap();
            // The pace of the writer; the whole takes longer than the component's settling time.
            std::thread::sleep(Duration::from_millis(40));
        }
    });
    assert_eq!(plugins.changed().await.name, "b");
    write.await.unwrap();
    plugins.nothing_else().await;
}

#[tokio::test]
async fn manifests_may_share_a_component() {
    let with = |config: &str| format!("source: {{ file: x.wasm }}, config: {{ a: {config} }}");
    let (mut plugins, first) = Plugins::with(
        &[("a.yaml", &manifest("a", &with("1"))), ("b.yaml", &manifest("b", &with("2"))), ("x.wasm", "1")],
        HEARD,
    )
    .await;
    assert_eq!(first.len(), 2, "{first:?}");
    plugins.write("x.wasm", "2");
    assert_eq!((plugins.changed().await.name, plugins.changed().await.name), ("a".into(), "b".into()));
    plugins.nothing_else().await;
}

#[tokio::test]
async fn what_cannot_be_a_component_is_refused_with_a_remedy() {
    let mut plugins = Plugins::empty().await;
    plugins.write("Not.A.Label.wasm", "");
    let (_, reason) = plugins.broken("Not.A.Label").await;
    says(&reason, &["\"not.a.label\"", "not a DNS label", "rename the file"]);
    fs::File::create(plugins.path("large.wasm")).unwrap().set_len((64 << 20) + 1).unwrap();
    let (file, reason) = plugins.broken("large").await;
    assert_eq!(file, "large.wasm");
    says(&reason, &["too large (67108865 bytes)", "64 MiB", "release mode"]);
    fs::create_dir(plugins.path("folder.wasm")).unwrap();
    says(&plugins.broken("folder").await.1, &["not a regular file", "move it out"]);
    symlink("nowhere", plugins.path("link.wasm")).unwrap();
    says(&plugins.broken("link").await.1, &["a link to a file that does not exist", "remove the link"]);
    plugins.write("large.yaml", &manifest("other", ""));
    plugins.removed("large").await;
    assert_eq!(plugins.broken("other").await.0, "large.wasm", "the file to blame is the component");
    fs::remove_dir(plugins.path("folder.wasm")).unwrap();
    plugins.removed("folder").await;
    plugins.nothing_else().await;
}

#[tokio::test]
async fn targets_of_links_outside_are_seen_by_looking() {
    let (mut plugins, _) = Plugins::with(&[], POLLED).await;
    let target = plugins.outer.path().join("built");
    fs::write(&target, "1").unwrap();
    symlink(&target, plugins.path("a.wasm")).unwrap();
    assert_eq!(wasm(&plugins.changed().await), b"1");
    fs::write(&target, "2").unwrap();
    assert_eq!(wasm(&plugins.changed().await), b"2");
}

#[tokio::test]
async fn a_directory_that_vanishes_ends_nothing_and_is_found_again() {
    let (mut plugins, _) = Plugins::with(&[("a.wasm", "1"), ("b.wasm", "1")], POLLED).await;
    let aside = plugins.outer.path().join("aside");
    fs::rename(&plugins.dir, &aside).unwrap();
    let Change::Unreadable { reason } = plugins.next().await else { panic!() };
    says(&reason, &["/plugins cannot be read", "No such file", "create it again"]);
    fs::rename(&aside, &plugins.dir).unwrap();
    plugins.nothing_else().await;
    // Another directory in its place counts for what is in it; inotify follows, too.
    let other = plugins.outer.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("a.wasm"), "2").unwrap();
    fs::write(other.join("b.wasm"), "1").unwrap();
    fs::rename(&plugins.dir, &aside).unwrap();
    assert!(matches!(plugins.next().await, Change::Unreadable { .. }));
    fs::rename(&other, &plugins.dir).unwrap();
    loop {
        match plugins.next().await {
            Change::Removed { name } => assert!(name.starts_with("sentinel"), "{name}"),
            Change::Changed(files) => {
                assert_eq!((files.name.as_str(), &wasm(&files)[..]), ("a", &b"2"[..]));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn what_a_dropped_call_would_have_answered_is_not_lost() {
    let mut plugins = Plugins::empty().await;
    let mut told = Vec::new();
    for name in ["a", "b", "c"] {
        plugins.write(&format!("{name}.wasm"), name);
        while !told.contains(&name.to_owned()) {
            // Polled once and dropped, again and again.
            if let Some(changes) = plugins.directory.next().now_or_never() {
                told.extend(changes.into_iter().map(|change| match change {
                    Change::Changed(files) => files.name,
                    other => panic!("{other:?}"),
                }));
            }
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(told, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_directory_that_others_may_write_is_refused_and_left_as_it_is() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("plugins");
    fs::create_dir(&path).unwrap();
    let mode = |mode: u32| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    for writable in [0o777, 0o757, 0o1777] {
        mode(writable);
        let error = Directory::new(&path, HEARD).unwrap_err().to_string();
        assert!(error.contains(&format!("(mode {writable:04o}, group ")), "{error}");
        assert!(error.contains("chmod go-w") && error.contains("--allow-writable-plugins"), "{error}");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, writable);
        let trusting = DirectoryOptions { allow_writable: true, ..HEARD };
        Directory::new(&path, trusting).unwrap();
    }
    mode(0o755);
    Directory::new(&path, HEARD).unwrap();
    let link = parent.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let error = Directory::new(&link, HEARD).unwrap_err().to_string();
    assert!(error.contains("is a link; name the directory itself"), "{error}");
}
