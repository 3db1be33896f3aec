//! The layers that `src/lib.rs` draws: a module uses modules of lower lines only, or itself.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Files of a module, and the module.
fn files(dir: &Path, module: Option<&str>, all: &mut Vec<(String, PathBuf)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let module = module.unwrap_or(&name);
        if path.is_dir() {
            files(&path, Some(module), all);
        } else if name != "tests" && !path.components().any(|part| part.as_os_str() == "tests") {
            all.push((module.to_owned(), path));
        }
    }
}

#[test]
fn modules_use_only_modules_of_lower_layers() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let root = fs::read_to_string(src.join("lib.rs")).unwrap();
    let map = root.split("```text").nth(1).unwrap().split("```").next().unwrap();
    let layers: HashMap<&str, usize> = map
        .lines()
        .enumerate()
        .flat_map(|(depth, line)| {
            let modules = line.trim_start_matches("//!").trim().split("     ").next().unwrap_or_default();
            modules.split_whitespace().map(move |module| (module, depth))
        })
        .collect();
    let mut all = Vec::new();
    files(&src, None, &mut all);
    let mut upward = Vec::new();
    for (module, path) in all.iter().filter(|(module, _)| module != "lib") {
        let layer = layers.get(module.as_str()).unwrap_or_else(|| panic!("{module} is not in the map"));
        let text = fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        for used in lines.flat_map(|line| line.split("crate::").skip(1)) {
            let used: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if used != *module && layers.get(used.as_str()).is_some_and(|other| other <= layer) {
                upward.push(format!("{} uses {used}", path.display()));
            }
        }
    }
    assert!(upward.is_empty(), "{upward:#?}");
}
