//! The commands in the documents exist: those of `pilothouse` are parsed, and what `cargo` is to build is looked up. All
//! commands are in the documents, and links lead to files and headings.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use clap::CommandFactory as _;
use pilothouse_testkit::documents::{all_documents, anchors, commands, links};
use pilothouse_testkit::paths::repository;
use serde::Deserialize;

use crate::Cli;

/// Subcommands and flags of the feature `oci`.
const OF_OCI: [&str; 3] = ["pull", "--signatures", "--signature-key"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
    features: std::collections::BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// The arguments of `pilothouse` in a command, if it runs that.
fn of_pilothouse(command: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = command.split_whitespace().skip_while(|word| word.contains('=')).collect();
    let first = words.first()?;
    let after = if *first == "pilothouse" || first.ends_with("/pilothouse") {
        1
    } else if words.starts_with(&["cargo", "run"])
        && !words.contains(&"--example")
        && !words.contains(&"--bin")
    {
        words.iter().position(|word| *word == "--")? + 1
    } else {
        return None;
    };
    let own = words[after..].iter().take_while(|word| !["|", "&", "&&", ">", ">>", "<"].contains(word));
    // A shell takes the quotes of a word away.
    Some(own.map(|word| word.trim_matches('\'')).collect())
}

#[test]
fn every_pilothouse_command_in_the_documents_is_parsed() {
    let mut seen = BTreeSet::new();
    for (document, command) in commands().unwrap() {
        let Some(args) = of_pilothouse(&command) else { continue };
        if cfg!(not(feature = "oci")) && args.iter().any(|word| OF_OCI.contains(word)) {
            continue;
        }
        let parsed = Cli::command().try_get_matches_from(["pilothouse"].iter().chain(&args));
        assert!(parsed.is_ok(), "{document}: {command}: {}", parsed.unwrap_err());
        seen.extend(args.first().map(|name| (*name).to_owned()));
    }
    for name in ["dev", "run", "status"] {
        assert!(seen.contains(name), "no document has a command `pilothouse {name}`: {seen:?}");
    }
}

#[test]
fn the_help_of_every_command_has_examples_and_they_are_parsed() {
    let cli = Cli::command();
    let shown = cli.get_subcommands().filter(|command| !command.is_hide_set());
    for command in [&cli].into_iter().chain(shown) {
        let name = command.get_name();
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.starts_with("Examples:\n"), "{name}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{name}: {help}");
        // An example is a line in a shell; `source <(…)` runs one as well.
        let lines =
            help.lines().map(|line| line.trim().trim_start_matches("source <(").trim_end_matches(')'));
        let examples: Vec<Vec<&str>> = lines.filter_map(of_pilothouse).collect();
        assert!(examples.len() >= 2, "{name}: {help}");
        for example in examples {
            let parsed = Cli::command().try_get_matches_from(["pilothouse"].iter().chain(&example));
            assert!(parsed.is_ok(), "{name}: {example:?}: {}", parsed.unwrap_err());
            assert!(name == "pilothouse" || example.first() == Some(&name), "{name}: {example:?}");
        }
    }
}

#[test]
fn the_page_of_commands_has_every_command_and_synopses_have_all_their_flags() {
    let page = fs::read_to_string(repository().join("docs/cli.md")).unwrap();
    let cli = Cli::command();
    let mut synopses = 0;
    for command in cli.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        assert!(page.contains(&format!("\n| `pilothouse {name}` | ")), "{name} has no row");
        let Some((_, section)) = page.split_once(&format!("\n## `pilothouse {name}`\n\n```\n")) else {
            continue;
        };
        synopses += 1;
        let (synopsis, _) = section.split_once("```").unwrap();
        let words = synopsis.split(|c: char| !(c.is_alphanumeric() || c == '-'));
        let mut written: BTreeSet<String> =
            words.filter(|word| word.starts_with('-')).map(str::to_owned).collect();
        for flag in command.get_arguments().filter(|arg| arg.get_long().is_some()) {
            let long = flag.get_long().map(|long| format!("--{long}"));
            let mut forms = long.into_iter().chain(flag.get_short().map(|short| format!("-{short}")));
            assert!(
                forms.any(|form| written.remove(&form)),
                "{name}: {} is not in {synopsis}",
                flag.get_id()
            );
        }
        assert!(written.is_empty(), "{name} has no {written:?}");
    }
    assert!(synopses > 5, "only {synopses} synopses were found");
}

#[test]
fn every_link_of_the_documents_leads_to_a_file_and_a_heading() {
    let (mut checked, mut lost) = (0, Vec::new());
    for document in all_documents().unwrap() {
        let folder = Path::new(&document).parent().unwrap();
        for link in links(&document).unwrap() {
            let (file, anchor) = link.split_once('#').unwrap_or((link.as_str(), ""));
            let target = if file.is_empty() { Path::new(&document).to_owned() } else { folder.join(file) };
            let has = |anchor: &str| {
                let is_page = target.extension().is_some_and(|extension| extension == "md");
                !is_page || anchors(&target.to_string_lossy()).unwrap().contains(anchor)
            };
            checked += 1;
            let leads = repository().join(&target).exists() && (anchor.is_empty() || has(anchor));
            if !leads {
                lost.push(format!("{document}: {link}"));
            }
        }
    }
    assert!(lost.is_empty(), "links that lead nowhere: {lost:#?}");
    assert!(checked > 300, "only {checked} links were found");
}

/// The words of a text that are long flags.
fn long_flags(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words
        .filter_map(|word| word.strip_prefix("--"))
        .filter(|flag| !flag.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_page_of_the_host_has_every_flag_of_run_in_its_synopsis_and_in_its_table() {
    let page = fs::read_to_string(repository().join("docs/running.md")).unwrap();
    let (_, synopsis) = page.split_once("\n```\npilothouse run ").unwrap();
    let (_, table) = page.split_once("\n## Flags\n").unwrap();
    let (table, _) = table.split_once("\n\n- ").unwrap();
    let rows: String =
        table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next()).collect();
    let cli = Cli::command();
    let run = cli.find_subcommand("run").unwrap();
    let flags: BTreeSet<String> =
        run.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect();
    // Flags of features that this build may lack are on the page as well.
    let of_features = ["signatures", "signature-key", "otlp-endpoint", "trace-ratio"].map(str::to_owned);
    let wanted: BTreeSet<String> = flags.into_iter().chain(of_features).collect();
    assert_eq!(long_flags(synopsis.split_once("```").unwrap().0), wanted);
    assert_eq!(long_flags(&rows), wanted);
}

#[test]
fn what_cargo_commands_in_the_documents_name_exists() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(repository())
        .output()
        .unwrap();
    let Metadata { packages } = serde_json::from_slice(&output.stdout).unwrap();
    let has = |wanted: Option<&str>, kind: &str, name: &str| {
        packages.iter().filter(|package| wanted.is_none_or(|wanted| wanted == package.name)).any(|package| {
            match kind {
                "feature" => package.features.contains_key(name),
                kind => package
                    .targets
                    .iter()
                    .any(|target| target.name == name && target.kind.iter().any(|own| own == kind)),
            }
        })
    };
    let mut checked = 0;
    for (document, command) in commands().unwrap() {
        let words: Vec<&str> = command.split_whitespace().take_while(|word| *word != "--").collect();
        if !words.contains(&"cargo") {
            continue;
        }
        let value = |flag: &str| -> Vec<&str> {
            words.windows(2).filter(|pair| pair[0] == flag).map(|pair| pair[1]).collect()
        };
        let package = value("-p").first().copied();
        if let Some(package) = package {
            assert!(
                packages.iter().any(|own| own.name == package),
                "{document}: {command}: no package {package}"
            );
            checked += 1;
        }
        for (flag, kind) in [
            ("--test", "test"),
            ("--bench", "bench"),
            ("--example", "example"),
            ("--bin", "bin"),
            ("--features", "feature"),
        ] {
            for name in value(flag) {
                assert!(has(package, kind, name), "{document}: {command}: no {kind} {name}");
                checked += 1;
            }
        }
        for manifest in value("--manifest-path") {
            assert!(repository().join(manifest).exists(), "{document}: {command}: no {manifest}");
            checked += 1;
        }
    }
    assert!(checked > 10, "only {checked} names were found");
}
