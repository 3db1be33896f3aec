//! kubectl on both servers: the same commands in the same order, and what they print is the same, line by line, but for what
//! differs from run to run: ages, UIDs, resource versions, ports. Of a command that fails only the reason has to be the same.
//!
//! The real server is the oracle: nothing here says what the output is.

mod objects;
mod operations;
mod validated;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::process::{self, Process};
use pilothouse_tests::{ControlPlane, poll};

/// For `wait`, the longest.
const COMMAND: Duration = Duration::from_secs(60);

pilothouse_tests::on_both_servers!(a_watch_is_shown_line_by_line);

pilothouse_tests::on_the_real_server!(kubectl_prints_the_same_on_both_servers);

/// Only the development server has no containers.
#[test]
fn commands_that_need_containers_say_what_to_do_instead() -> Result<()> {
    Server::Development.test(operations::commands_that_need_containers_say_what_to_do_instead)
}

/// One command, with what it reads from standard input.
#[derive(Clone)]
struct Step {
    args: Cow<'static, str>,
    stdin: Cow<'static, str>,
    /// The editor of `kubectl edit`.
    editor: &'static str,
    compare: Compare,
}

/// What of two outputs is compared, unless the command fails.
#[derive(Clone, Copy, PartialEq)]
enum Compare {
    /// Every line.
    Output,
    /// Every line but the descriptions of `kubectl explain`: the development server has none of built-in kinds.
    Fields,
    /// The lines that `kubectl diff` adds and takes away; the others hold times and resource versions.
    Changes,
}

const fn run(args: &'static str) -> Step {
    with(args, "")
}

const fn with(args: &'static str, stdin: &'static str) -> Step {
    Step { args: Cow::Borrowed(args), stdin: Cow::Borrowed(stdin), editor: "", compare: Compare::Output }
}

/// What came of a command.
struct Played {
    success: bool,
    text: String,
}

/// Runs the steps on a server; the outputs, with what may differ taken out.
fn play(server: Server, steps: &[Step]) -> Result<Vec<Played>> {
    let plane = ControlPlane::start(Options::on(server))?;
    steps
        .iter()
        .map(|step| {
            let args: Vec<&str> = step.args.split_whitespace().collect();
            let mut command = plane.kubectl_command(&args)?;
            let finished = process::run(command.env("KUBE_EDITOR", step.editor), &step.stdin, COMMAND)?;
            let (stdout, stderr) = (&finished.stdout, &finished.stderr);
            ensure!(!stderr.contains("connection refused"), "{}: {stderr}", step.args);
            let success = finished.status.success();
            let text = match step.compare {
                // A diff that finds something fails.
                Compare::Changes => changes(stdout),
                _ if !success => reason(stderr).to_owned(),
                Compare::Output => stdout.clone(),
                Compare::Fields => without_descriptions(stdout),
            };
            Ok(Played { success, text: without_chance(&text) })
        })
        .collect()
}

/// What `kubectl explain` says, without what stands between these two lines.
fn without_descriptions(output: &str) -> String {
    let (start, rest) = output.split_once("DESCRIPTION:\n").unwrap_or((output, ""));
    let (_, fields) = rest.split_once("FIELDS:\n").unwrap_or_default();
    format!("{start}{fields}")
}

/// The changed lines of a diff; not what an object has of the time and by chance.
fn changes(diff: &str) -> String {
    let by_chance = |line: &str| {
        let field = line[1..].trim_start();
        ["++", "--", "creationTimestamp:", "uid:"].iter().any(|start| field.starts_with(start))
    };
    let changed = diff.lines().filter(|line| line.starts_with(['+', '-']) && !by_chance(line));
    changed.fold(String::new(), |text, line| text + line + "\n")
}

/// The output without ages and times of day.
fn without_chance(output: &str) -> String {
    let mut text = String::new();
    for line in output.lines() {
        let words: Vec<&str> =
            line.split_whitespace().map(|word| if is_chance(word) { "*" } else { word }).collect();
        let _ = writeln!(text, "{}", words.join(" "));
    }
    text
}

fn is_chance(word: &str) -> bool {
    let age = word.strip_suffix('s').is_some_and(|n| n.chars().all(|c| c.is_ascii_digit() || c == 'm'));
    let time = word.len() == 20 && word.ends_with('Z') && word.as_bytes()[10] == b'T';
    age && word.len() > 1 || time
}

/// `NotFound` of `Error from server (NotFound): …`; kubectl says of an invalid object only that it is.
fn reason(text: &str) -> &str {
    if text.contains(" is invalid: ") {
        return "Invalid";
    }
    let rest = text.split_once("Error from server (").map_or("", |(_, rest)| rest);
    rest.split_once(')').map_or("", |(reason, _)| reason)
}

/// `kubectl get -w` shows what happens as it happens, in a Table line by line.
fn a_watch_is_shown_line_by_line(server: Server) -> Result<()> {
    let plane = ControlPlane::start(Options::on(server))?;
    plane.kubectl(&["create", "configmap", "first", "--from-literal=a=b"])?;
    let args = ["get", "configmaps", "-w", "--output-watch-events", "--no-headers", "-l", "!skipped"];
    let watch = Process::spawn_watched(&mut plane.kubectl_command(&args)?)?;
    let shown = |count: usize| -> Result<Vec<String>> {
        poll::until(&format!("{count} lines"), SOON, || {
            let lines = watch.output().matching("");
            let lines: Vec<String> = lines
                .iter()
                .filter(|line| !line.contains("kube-root-ca"))
                .map(|line| line.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
                .collect();
            (lines.len() >= count).then_some(lines)
        })
    };
    shown(1)?;
    plane.kubectl(&["create", "configmap", "second", "--from-literal=a=b", "--from-literal=c=d"])?;
    plane.kubectl(&["patch", "configmap", "first", "--type=merge", "-p", r#"{"data":{"x":"y","z":"z"}}"#])?;
    plane.kubectl(&["label", "configmap", "second", "skipped=yes"])?;
    plane.kubectl(&["delete", "configmap", "first"])?;
    let expected =
        ["ADDED first 1", "ADDED second 2", "MODIFIED first 3", "DELETED second 2", "DELETED first 3"];
    assert_eq!(shown(expected.len())?, expected);
    Ok(())
}

fn kubectl_prints_the_same_on_both_servers() -> Result<()> {
    let steps = [objects::STEPS, operations::STEPS, &validated::steps()[..]].concat();
    let (real, development) = thread::scope(|scope| {
        let real = scope.spawn(|| play(Server::Real, &steps).context("on the real server"));
        let development = play(Server::Development, &steps).context("on the development server");
        (real.join().map_err(|_| anyhow!("a panic")), development)
    });
    let (real, development) = (real??, development?);
    let mut differences = String::new();
    for ((step, real), development) in steps.iter().zip(&real).zip(&development) {
        if (real.success, &real.text) != (development.success, &development.text) {
            let _ = writeln!(
                differences,
                "\nkubectl {}\n--- the real server ({})\n{}--- the development server ({})\n{}",
                step.args, real.success, real.text, development.success, development.text
            );
        }
    }
    ensure!(differences.is_empty(), "{differences}");
    Ok(())
}
