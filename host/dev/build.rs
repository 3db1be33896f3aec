//! Writes `sdk.rs` for `pilothouse new`: the sources of the SDK, which the binary has with it, and their stamp.

use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

/// The crates of the SDK, in the workspace `guests`.
const CRATES: [&str; 2] = ["sdk", "sdk-macros"];

/// Folders of a crate that are for its own development.
const OWN: [&str; 4] = ["benches", "examples", "target", "tests"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let (own, out) = (variable("CARGO_MANIFEST_DIR"), variable("OUT_DIR"));
    let repository = own.ancestors().nth(2).expect("the repository").to_owned();
    let guests = repository.join("guests");
    let license = repository.join("LICENSE");
    let inputs = CRATES.iter().chain(&["Cargo.toml", "Cargo.lock"]).map(|path| guests.join(path));
    for path in inputs.chain([license.clone()]) {
        println!("cargo::rerun-if-changed={}", path.display());
    }

    let mut files = vec![("LICENSE".to_owned(), license)];
    let mut sources = vec![guests.join("Cargo.toml")];
    CRATES.iter().for_each(|name| collect(&guests.join(name), &mut sources));
    sources.sort();
    for path in sources {
        let name = path.strip_prefix(&guests).expect("a file of the workspace");
        let name = name.to_str().expect("a name in UTF-8").to_owned();
        let manifest = match &*name {
            "Cargo.toml" => Some(workspace_of_the_sdk(&read(&path))),
            name if name.ends_with("/Cargo.toml") => Some(without_development(&read(&path))),
            _ => None,
        };
        match manifest {
            None => files.push((name, path)),
            Some(text) => {
                let to = out.join(name.replace('/', "-"));
                fs::write(&to, text).expect("writing to OUT_DIR");
                files.push((name, to));
            }
        }
    }

    // SipHash with fixed keys: the same sources have the same stamp.
    let mut hasher = DefaultHasher::new();
    let mut table =
        String::from("/// Path and text of each file.\npub(crate) const FILES: &[(&str, &str)] = &[\n");
    for (name, path) in &files {
        (name, read(path)).hash(&mut hasher);
        writeln!(table, "    ({name:?}, include_str!({path:?})),").expect("writing to a string");
    }
    let lock = guests.join("Cargo.lock");
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

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files of a crate, without those that are for its own development.
fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the SDK") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !OWN.contains(&&*name) {
                collect(&path, into);
            }
        } else if !name.starts_with('.') && name != "Cargo.lock" {
            into.push(path);
        }
    }
}

/// The `Cargo.toml` of the workspace with the SDK's crates alone.
fn workspace_of_the_sdk(text: &str) -> String {
    let mut found = false;
    let lines = text.lines().filter_map(|line| match line.split_once(" = ") {
        Some(("members", _)) => {
            found = true;
            Some("members = [\"sdk\", \"sdk-macros\"]")
        }
        Some(("exclude", _)) => None,
        // About the other members.
        _ if line.starts_with("# `fixtures`") => None,
        _ => Some(line),
    });
    let text = lines.fold(String::new(), |text, line| text + line + "\n");
    assert!(found, "guests/Cargo.toml has no line with `members`");
    text
}

/// The `Cargo.toml` of a crate without the sections that its own tests and benches need.
fn without_development(text: &str) -> String {
    let mut kept = true;
    let mut result = String::new();
    for line in text.lines() {
        if line.starts_with('[') {
            kept = !["[dev-dependencies]", "[[bench]]", "[[test]]", "[[example]]"].contains(&line);
        }
        if kept {
            result = result + line + "\n";
        }
    }
    result
}
