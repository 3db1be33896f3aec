//! Writes `sdk.rs` for `pilothouse new`: the sources of the SDK, which the binary has with it, and their stamp.

use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

/// What of the repository the SDK is, beside its workspace's `Cargo.toml` and `Cargo.lock`.
const FOLDERS: [&str; 3] = ["guests/sdk", "guests/sdk-macros", "wit"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_DEV").is_none() {
        return;
    }
    let (own, out) = (variable("CARGO_MANIFEST_DIR"), variable("OUT_DIR"));
    let repository = own.ancestors().nth(2).expect("the repository").to_owned();
    for path in FOLDERS.iter().chain(&["guests/Cargo.toml", "guests/Cargo.lock", "LICENSE"]) {
        println!("cargo::rerun-if-changed={}", repository.join(path).display());
    }
    let mut paths = Vec::new();
    FOLDERS.iter().for_each(|folder| collect(&repository.join(folder), &mut paths));
    paths.push(repository.join("LICENSE"));
    paths.sort();

    let manifest = out.join("Cargo.toml");
    let text = fs::read_to_string(repository.join("guests/Cargo.toml")).expect("the workspace of guests");
    fs::write(&manifest, sdk_alone(&text)).expect("writing to OUT_DIR");
    let mut files = vec![("guests/Cargo.toml".to_owned(), manifest)];
    for path in paths {
        let name = path.strip_prefix(&repository).expect("a file of the repository");
        files.push((name.to_str().expect("a name in UTF-8").to_owned(), path));
    }

    // SipHash with fixed keys: the same sources have the same stamp.
    let mut hasher = DefaultHasher::new();
    let mut table =
        String::from("/// Path and text of each file.\npub(crate) const FILES: &[(&str, &str)] = &[\n");
    for (name, path) in &files {
        (name, fs::read(path).expect("a source of the SDK")).hash(&mut hasher);
        writeln!(table, "    ({name:?}, include_str!({path:?})),").expect("writing to a string");
    }
    let lock = repository.join("guests/Cargo.lock");
    write!(
        table,
        "];\n\n/// Versions of what the SDK depends on, with which it was built and tested.\npub(crate) const LOCK: &str = include_str!({lock:?});\n\n/// A digest of the files.\npub(crate) const STAMP: &str = \"{:016x}\";\n",
        hasher.finish()
    )
    .expect("writing to a string");
    fs::write(out.join("sdk.rs"), table).expect("writing to OUT_DIR");
}

fn variable(name: &str) -> PathBuf {
    std::env::var_os(name).expect("Cargo sets it").into()
}

/// All files below a folder, without what tools have made.
fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the SDK") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            if name != "target" {
                collect(&path, into);
            }
        } else if !name.as_encoded_bytes().starts_with(b".") && name != "Cargo.lock" {
            into.push(path);
        }
    }
}

/// The `Cargo.toml` of the workspace with the SDK's crates alone.
fn sdk_alone(text: &str) -> String {
    let mut found = false;
    let lines = text.lines().filter_map(|line| match line.split_once(" = ") {
        Some(("members", _)) => {
            found = true;
            Some("members = [\"sdk\", \"sdk-macros\"]")
        }
        Some(("exclude", _)) => None,
        _ => Some(line),
    });
    let text = lines.fold(String::new(), |text, line| text + line + "\n");
    assert!(found, "guests/Cargo.toml has no line with `members`");
    text
}
