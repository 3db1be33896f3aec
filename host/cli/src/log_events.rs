//! Each line that the host logs at `INFO` and above has a stable `event`, and docs/observability.md lists all of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pilothouse_testkit::paths::repository;

/// The programs whose lines are not of the host: the development server, the workshop of `pilothouse dev`, and commands
/// that inspect components.
const NOT_THE_HOST: [&str; 3] = ["host/devserver/src", "host/dev/src", "host/hosting/src/inspect"];

/// All sources below a folder.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
}

/// The events of the lines that a source logs, and the lines that have none.
fn events(path: &Path, events: &mut BTreeSet<(String, &'static str)>, without: &mut Vec<String>) {
    let text = fs::read_to_string(path).unwrap();
    // What unit tests log is no line of the host.
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    for (number, line) in text.lines().enumerate() {
        for level in ["info", "warn", "error"] {
            let Some((before, _)) = line.split_once(&format!("tracing::{level}!(")) else { continue };
            if before.trim_start().starts_with("//") {
                continue;
            }
            let arguments: String = text.lines().skip(number).take(3).collect::<Vec<_>>().join(" ");
            let name = arguments
                .split_once("!(")
                .and_then(|(_, arguments)| arguments.split_once("event = \""))
                .and_then(|(_, name)| name.split_once('"'));
            match name {
                Some((name, _)) => drop(events.insert((name.to_owned(), level))),
                None => without.push(format!("{}:{}", path.display(), number + 1)),
            }
        }
    }
}

#[test]
fn each_line_of_the_log_has_an_event_that_the_documents_name() {
    let mut paths = Vec::new();
    for entry in fs::read_dir(repository().join("host")).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut paths);
    }
    paths.retain(|path| {
        let inside = path.strip_prefix(repository()).unwrap();
        !NOT_THE_HOST.iter().any(|folder| inside.starts_with(folder)) && !inside.ends_with("tests.rs")
    });
    let (mut logged, mut without) = (BTreeSet::new(), Vec::new());
    for path in &paths {
        events(path, &mut logged, &mut without);
    }
    assert_eq!(without, Vec::<String>::new(), "lines without an event = \"…\" as their first field");
    assert!(logged.len() > 50, "the sources were not found: {logged:?}");

    let page = fs::read_to_string(repository().join("docs/observability.md")).unwrap();
    let section = page.split("\n## Log\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut documented = BTreeSet::new();
    for row in section.lines().filter_map(|line| line.strip_prefix("| `")) {
        let (name, rest) = row.split_once("` | ").unwrap();
        let level = ["info", "warn", "error"].into_iter().find(|level| rest.starts_with(level)).unwrap();
        documented.insert((name.to_owned(), level));
    }
    assert_eq!(logged, documented, "left: logged; right: docs/observability.md, \"Log\"");
}
