//! [`files`]: the files that a build has read, from the `.d` file that Cargo writes beside what it builds.
//!
//! It is a rule for `make`: `target: file file …`, with `\ ` for a blank in a name. It has what folders do not tell: files that a
//! crate includes from elsewhere, such as WIT. Called by [`super::build`].

use std::path::{Path, PathBuf};

/// The files that a component was built from; none if Cargo left no word.
pub(crate) fn files(component: &Path) -> Vec<PathBuf> {
    std::fs::read_to_string(component.with_extension("d")).map(|text| parse(&text)).unwrap_or_default()
}

fn parse(text: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for (_, names) in text.lines().filter_map(|line| line.split_once(": ")) {
        let mut name = String::new();
        let mut characters = names.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' if characters.next_if_eq(&' ').is_some() => name.push(' '),
                ' ' => files.push(std::mem::take(&mut name)),
                other => name.push(other),
            }
        }
        files.push(name);
    }
    files.into_iter().filter(|name| !name.is_empty()).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_blanks() {
        let text = "/t/a.wasm: /src/lib.rs /with\\ blank/wit/x.wit\n/src/lib.rs:\n";
        assert_eq!(parse(text), ["/src/lib.rs", "/with blank/wit/x.wit"].map(PathBuf::from));
        assert_eq!(files(Path::new("/nowhere/a.wasm")), [""; 0].map(PathBuf::from));
    }
}
