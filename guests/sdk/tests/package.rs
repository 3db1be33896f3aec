//! The crate can be published by itself: the contract is in it, and is that of the repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn own() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Names and texts of the WIT files in a folder.
fn interfaces(folder: &Path) -> BTreeMap<String, String> {
    let files = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    files.map(|file| read(file.unwrap().path())).collect()
}

#[test]
fn the_contract_in_the_crate_is_that_of_the_repository() {
    let (copy, contract) = (interfaces(&own().join("wit")), interfaces(&own().join("../../wit")));
    assert_eq!(copy.keys().collect::<Vec<_>>(), contract.keys().collect::<Vec<_>>());
    for (name, text) in contract {
        assert!(copy[&name] == text, "wit/{name} differs: copy wit/{name} to guests/sdk/wit/{name}");
    }
}

#[test]
fn the_package_has_all_that_it_is_built_from() {
    let output = Command::new(env!("CARGO"))
        .args(["package", "--list", "--allow-dirty", "--offline"])
        .current_dir(own())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).unwrap();
    let has = |file: &str| listed.lines().any(|line| line == file);
    for name in interfaces(&own().join("wit")).keys() {
        assert!(has(&format!("wit/{name}")), "{name} is not in the package");
    }
    assert!(has("src/lib.rs") && has("README.md"));
    assert!(!listed.contains("tests/"), "tests need the repository");
}
