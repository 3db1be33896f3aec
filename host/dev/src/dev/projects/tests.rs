//! What is found where, with the real Cargo.

use super::*;

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn guest(dir: &Path, folder: &str, name: &str) {
    let toml = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n"
    );
    write(dir, &format!("{folder}/Cargo.toml"), &toml);
    write(dir, &format!("{folder}/src/lib.rs"), "");
}

fn manifest(dir: &Path, path: &str, name: &str, component: &str) {
    let text = format!(
        "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: {{name: {name}}}\nspec: {{source: {{file: {component}}}}}\n"
    );
    write(dir, path, &text);
}

/// Labels and components of what is found, or the error.
fn found(dir: &Path, paths: &[&str]) -> Result<Vec<(String, String)>, String> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| dir.join(path)).collect();
    match find(&paths) {
        Ok(found) => {
            Ok(found.projects.into_iter().map(|project| (project.label, project.component)).collect())
        }
        Err(error) => Err(format!("{error:#}")),
    }
}

fn pair(label: &str, component: &str) -> (String, String) {
    (label.to_owned(), component.to_owned())
}

#[test]
fn crates_are_found_a_few_levels_down_and_not_where_builds_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    guest(dir, "guests/deep/er/one-guest", "one-guest");
    manifest(dir, "guests/deep/er/one-guest/x.yaml", "one", "one_guest.wasm");
    guest(dir, "guests/two", "two");
    guest(dir, "guests/a/b/c/too-deep", "too-deep");
    guest(dir, "guests/target/old", "old");
    guest(dir, "guests/.hidden/old", "old");
    write(
        dir,
        "guests/lib/Cargo.toml",
        "[package]\nname = \"lib\"\nversion = \"0.1.0\"\n[workspace] # no cdylib\n",
    );
    write(dir, "guests/lib/src/lib.rs", "");
    std::os::unix::fs::symlink(dir.join("guests"), dir.join("guests/circle")).unwrap();
    let expected = [pair("one", "one_guest.wasm"), pair("two", "two.wasm")];
    assert_eq!(found(dir, &["guests"]).unwrap(), expected);
    // Twice is once, whichever path leads there.
    assert_eq!(found(dir, &["guests", "guests/two", "guests/two/Cargo.toml"]).unwrap(), expected);
}

#[test]
fn a_crate_that_wants_to_be_asked_for_is_left_out_unless_its_own_path_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for name in ["usual", "special"] {
        guest(dir, &format!("guests/{name}"), name);
    }
    let toml = dir.join("guests/special/Cargo.toml");
    let text = fs::read_to_string(&toml).unwrap() + "[package.metadata.pilothouse]\ndev = false\n";
    fs::write(&toml, text).unwrap();
    let (usual, special) = (pair("usual", "usual.wasm"), pair("special", "special.wasm"));
    let folder = dir.join("guests/special").canonicalize().unwrap();
    let all = find(&[dir.join("guests")]).unwrap();
    assert_eq!(all.left_out, [("special".to_owned(), folder)]);
    let runs = |path: &str, plugin: &(String, String)| {
        assert_eq!(found(dir, &[path]).unwrap(), std::slice::from_ref(plugin), "{path}");
    };
    runs("guests", &usual);
    runs("guests/special", &special);
    runs("guests/special/Cargo.toml", &special);
    for both in [["guests", "guests/special"], ["guests/special", "guests"]] {
        assert_eq!(found(dir, &both).unwrap().len(), 2, "{both:?}");
        let both = both.map(|path| dir.join(path));
        assert_eq!(find(&both).unwrap().left_out, []);
    }
    // Nothing else is there.
    fs::remove_dir_all(dir.join("guests/usual")).unwrap();
    let error = found(dir, &["guests"]).unwrap_err();
    assert!(error.contains("special runs only when its own path is given"), "{error}");
}

#[test]
fn components_are_found_in_the_folder_itself() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, "built/a_b.wasm", "");
    write(dir, "built/c.wasm", "");
    write(dir, "built/deeper/d.wasm", "");
    manifest(dir, "built/see.yaml", "sea", "c.wasm");
    assert_eq!(found(dir, &["built"]).unwrap(), [pair("a-b", "a_b.wasm"), pair("sea", "c.wasm")]);
    assert_eq!(found(dir, &["built/c.wasm"]).unwrap(), [pair("sea", "c.wasm")]);
}

#[test]
fn a_path_with_nothing_to_run_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    guest(dir, "guest", "guest");
    write(dir, "empty/README.md", "");
    let error = found(dir, &["guest", "empty"]).unwrap_err();
    assert!(
        error.contains("no plugin found") && error.contains("/empty") && error.contains("cdylib"),
        "{error}"
    );
    let error = found(dir, &["nowhere"]).unwrap_err();
    assert!(error.contains("/nowhere") && error.contains("No such file"), "{error}");
    write(dir, "bad/Cargo.toml", "cdylib = [\n");
    let error = found(dir, &["bad"]).unwrap_err();
    assert!(error.contains("bad/Cargo.toml"), "{error}");
}

#[test]
fn names_are_had_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    guest(dir, "a", "one");
    guest(dir, "b", "two");
    manifest(dir, "b/b.yaml", "one", "two.wasm");
    let error = found(dir, &["a", "b"]).unwrap_err();
    assert!(error.contains("duplicate plugin name \"one\"") && error.contains("/b"), "{error}");
    guest(dir, "c", "two");
    manifest(dir, "b/b.yaml", "other", "two.wasm");
    let error = found(dir, &["b", "c"]).unwrap_err();
    assert!(error.contains("duplicate component name two.wasm"), "{error}");
}

#[test]
fn a_change_asks_for_a_build_or_for_the_manifest_alone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    guest(&dir, "g", "g");
    write(&dir, "w/c.wasm", "");
    let projects = find(&[dir.join("g"), dir.join("w")]).unwrap().projects;
    let need = |index: usize, path: &str| projects[index].need(&projects[index].roots(), &dir.join(path));
    assert_eq!(need(0, "g/src/lib.rs"), Some(PendingWork::Build));
    assert_eq!(need(0, "g/g.yaml"), Some(PendingWork::Install));
    assert_eq!(need(0, "g/wit/x.yaml"), Some(PendingWork::Build));
    assert_eq!(need(0, "elsewhere/src/lib.rs"), None);
    assert_eq!(need(1, "w/c.wasm"), Some(PendingWork::Build));
    assert_eq!(need(1, "w/c.yaml"), Some(PendingWork::Install));
    assert_eq!(need(1, "w/other.wasm"), None);
}
