//! A document that is run as it is written: [`steps`] reads its code blocks, [`compare`] holds the output of a command
//! against the one that the document shows.
//!
//! ```text
//! Write this into `PATH`:              the next block becomes the file
//! Replace this in `PATH`:              the next block is in the file, once;
//! with this:                               the block after it takes its place
//! Add this to the end of `PATH`:       the next block is added to the file
//! ```
//!
//! A block `console` has commands and their output, a block `text` lines of a log, a block `sh` is for the reader alone.
//! Any other block has one of the lines above it.

use anyhow::{Context, Result, bail, ensure};

/// What a reader does with one block.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Writes a file.
    Write {
        /// Where, below the document's folder.
        path: String,
        /// All of it.
        text: String,
    },
    /// Replaces a part of a file.
    Replace {
        /// Where, below the document's folder.
        path: String,
        /// The part.
        old: String,
        /// What takes its place.
        new: String,
    },
    /// Adds to the end of a file.
    Append {
        /// Where, below the document's folder.
        path: String,
        /// What is added.
        text: String,
    },
    /// Runs commands: each with the lines that it prints, none if the document shows none.
    Shell(Vec<(String, Vec<String>)>),
    /// Sees lines in the log of a running command.
    Log(Vec<String>),
    /// Is done before, outside of the document's folder.
    Reader(String),
}

/// The steps of a document, in their order.
pub fn steps(document: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let mut replaced: Option<(String, String)> = None;
    let mut before = "";
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            if !line.is_empty() {
                before = line;
            }
            continue;
        };
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        let text = block.iter().map(|line| format!("{line}\n")).collect::<String>();
        let path = |start: &str| before.strip_prefix(start)?.strip_suffix("`:").map(ToOwned::to_owned);
        if let Some((path, old)) = replaced.take() {
            ensure!(before == "with this:", "{before:?} is not `with this:`, after a block of {path}");
            steps.push(Step::Replace { path, old, new: text });
        } else if let Some(path) = path("Write this into `") {
            steps.push(Step::Write { path, text });
        } else if let Some(path) = path("Add this to the end of `") {
            steps.push(Step::Append { path, text });
        } else if let Some(path) = path("Replace this in `") {
            replaced = Some((path, text));
        } else {
            steps.push(match language {
                "console" => Step::Shell(commands(&block)?),
                "text" => Step::Log(block.iter().map(ToString::to_string).collect()),
                "sh" => Step::Reader(text),
                _ => bail!("a block {language:?} without a line that says what it is for, after {before:?}"),
            });
        }
        before = "";
    }
    ensure!(replaced.is_none(), "nothing replaces the last block: {replaced:?}");
    Ok(steps)
}

fn commands(block: &[&str]) -> Result<Vec<(String, Vec<String>)>> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in block {
        match line.strip_prefix("$ ") {
            Some(command) => commands.push((command.to_owned(), Vec::new())),
            None => commands.last_mut().context("output without a command")?.1.push((*line).to_owned()),
        }
    }
    Ok(commands)
}

/// Whether the output is as shown: a line `…` stands for any number of lines, a `…` within a line for any text. Times,
/// sizes and durations may be others, and columns may be wider.
pub fn compare(shown: &[String], output: &str) -> Result<()> {
    let output: Vec<_> = output.lines().map(without_measures).collect();
    let shown: Vec<_> = shown.iter().map(|line| without_measures(line)).collect();
    let (mut at, mut skips) = (0, false);
    for line in &shown {
        if line == "…" {
            skips = true;
            continue;
        }
        let rest = output.get(at..).unwrap_or_default();
        let found = rest.iter().position(|other| is_line(line, other));
        match found {
            Some(found) if found == 0 || skips => at += found + 1,
            _ => bail!("no line {line:?} at its place in:\n{}", output.join("\n")),
        }
        skips = false;
    }
    ensure!(skips || at == output.len(), "more than is shown, from line {}:\n{}", at + 1, output.join("\n"));
    Ok(())
}

/// Whether a line of the document stands for this line.
fn is_line(shown: &str, line: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    last.map_or(rest.is_empty(), |last| last.is_empty() || rest.is_empty())
}

/// The line with single spaces, and `#` for what differs between two runs.
fn without_measures(line: &str) -> String {
    let mut words = line.split_whitespace().map(word).collect::<Vec<_>>();
    // `203.4 KiB`, `5.2 s`, `1 min 3 s`
    for at in 1..words.len() {
        let unit = words[at].trim_matches(|other: char| !other.is_alphabetic()).to_owned();
        let number = words[at - 1].trim_start_matches('(').to_owned();
        if ["B", "KiB", "MiB", "min", "ms", "s", "µs"].contains(&unit.as_str()) && is_number(&number) {
            words[at - 1] = words[at - 1].replace(&number, "#");
            words[at] = words[at].replace(&unit, "unit");
        }
    }
    words.join(" ").replace("# unit # unit", "# unit").replace("built in # unit", "up to date after # unit")
}

fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(|other| other.is_ascii_digit() || ".,:".contains(other))
}

/// A time of the day, or a duration such as `0s` or `0.00s`, as `#`.
fn word(word: &str) -> String {
    let is_time = word.matches(':').count() == 2 && is_number(word);
    let is_duration =
        word.trim_end_matches(['s', 'm']) != word && is_number(word.trim_end_matches(['s', 'm']));
    if is_time || is_duration { "#".to_owned() } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn a_block_is_what_the_line_before_it_says() {
        let document = "Write this into `a/b`:\n\n```rust\nx\n\ny\n```\nReplace this in `c`:\n```yaml\n1\n```\n\nwith this:\n\
            \n```yaml\n2\n```\nText.\n```console\n$ one\nout\n$ two\n```\nAdd this to the end of `d`:\n```rust\n\nz\n```\n";
        let text = ToOwned::to_owned;
        let wanted = [
            Step::Write { path: text("a/b"), text: text("x\n\ny\n") },
            Step::Replace { path: text("c"), old: text("1\n"), new: text("2\n") },
            Step::Shell(vec![(text("one"), vec![text("out")]), (text("two"), vec![])]),
            Step::Append { path: text("d"), text: text("\nz\n") },
        ];
        assert_eq!(steps(document).unwrap(), wanted);
        for broken in [
            "Some text.\n```rust\nx\n```\n",
            "Replace this in `c`:\n```yaml\n1\n```\nand\n```yaml\n2\n```\n",
            "Replace this in `c`:\n```yaml\n1\n```\n",
            "```console\nout\n```\n",
        ] {
            assert!(steps(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn output_is_compared_but_for_measures_and_what_is_left_out() {
        let shown = lines("17:34:32.927  api  up after 240 ms\n…\nsize 203.4 KiB, in … steps\nok (300 ms)");
        let output = "01:02:03.004  api   up after 1.5 s\na\nb\nsize 1.0 MiB, in 5 or 6 steps\nok (1.2 s)\n";
        compare(&shown, output).unwrap();
        compare(&lines("a, up to date after 5 ms"), "a, built in 1 min 3 s").unwrap();
        for (from, to) in
            [("api", "host"), ("steps", "steps more"), ("1.2 s)\n", "1.2 s)\nc\n"), ("ok", "b\nok")]
        {
            assert!(compare(&shown, &output.replace(from, to)).is_err(), "{from} {to}");
        }
        assert!(compare(&lines("replicas 2"), "replicas 3").is_err());
    }
}
