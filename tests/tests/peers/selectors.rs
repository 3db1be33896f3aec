//! Selectors beside apimachinery's own: random texts are refused and accepted alike, match the same labels and fields, and what ours print
//! is a selector of the same meaning to both.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pilothouse_object::{FieldSelector, FieldSelectorError, LabelSelector, Object};
use pilothouse_tests::{clientgo, or_skip, process};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Questions of each kind.
const QUESTIONS: usize = 20_000;
/// Answering them takes a moment; building the program may take minutes.
const PATIENCE: Duration = Duration::from_secs(60);

type Set = BTreeMap<String, String>;

#[derive(Debug, Clone, Serialize)]
struct Question {
    kind: &'static str,
    text: String,
    set: Set,
}

/// What apimachinery says, or ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
struct Answer {
    valid: bool,
    matches: bool,
}

fn apimachinery(questions: &[Question]) -> Result<Vec<Answer>> {
    let dir = tempfile::tempdir()?;
    let program = dir.path().join("selectors");
    clientgo::build("./selectors", &program)?;
    let lines: Vec<String> = questions.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    let finished = process::run(&mut std::process::Command::new(program), &lines.join("\n"), PATIENCE)?;
    ensure!(finished.status.success(), "{}\n{}", finished.status, finished.stderr);
    let answers: Vec<Answer> =
        finished.stdout.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("its answers")?;
    ensure!(answers.len() == questions.len(), "{} answers", answers.len());
    Ok(answers)
}

fn samples<T: Debug>(strategy: &impl Strategy<Value = T>) -> Result<Vec<T>> {
    let mut runner = TestRunner::deterministic();
    let mut sample = || Ok(strategy.new_tree(&mut runner).map_err(|e| anyhow::anyhow!("{e}"))?.current());
    (0..QUESTIONS).map(|_| sample()).collect()
}

/// Asks apimachinery and ours, about the texts and about what ours print; not about texts that ours are meant to refuse.
fn compare<S>(
    kind: &'static str,
    asked: Vec<(String, Set)>,
    is_stricter: impl Fn(&S::Err) -> bool,
    matches: impl Fn(&S, &Set) -> bool,
) -> Result<()>
where
    S: FromStr + Display + PartialEq,
{
    let mut questions = Vec::new();
    let mut ours = Vec::new();
    let mut ask = |text: String, set: &Set, answer: Answer| {
        questions.push(Question { kind, text, set: set.clone() });
        ours.push(answer);
    };
    let mut wrong = Vec::new();
    for (text, set) in asked {
        let selector = match text.parse::<S>() {
            Ok(selector) => selector,
            Err(error) if is_stricter(&error) => continue,
            Err(_) => {
                ask(text, &set, Answer { valid: false, matches: false });
                continue;
            }
        };
        let answer = Answer { valid: true, matches: matches(&selector, &set) };
        let printed = selector.to_string();
        if !printed.parse::<S>().is_ok_and(|read| read == selector) {
            wrong.push(format!("{text:?} is printed as {printed:?}, which is another"));
        }
        ask(text, &set, answer);
        ask(printed, &set, answer);
    }
    let (mut valid, mut matching) = (0, 0);
    for ((question, ours), theirs) in questions.iter().zip(&ours).zip(apimachinery(&questions)?) {
        valid += usize::from(theirs.valid);
        matching += usize::from(theirs.matches);
        if *ours != theirs {
            wrong.push(format!("{:?} of {:?}: {theirs:?}, ours {ours:?}", question.text, question.set));
        }
    }
    eprintln!("{} questions, {valid} valid, {matching} matches", questions.len());
    let few = questions.len() / 20;
    ensure!(valid > few && questions.len() - valid > few && matching > few, "the samples show too little");
    wrong.sort_by_key(String::len);
    wrong.dedup();
    let shown = &wrong[..wrong.len().min(30)];
    ensure!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), shown.join("\n"));
    Ok(())
}

/// Some of these words in any order, or a sound text with one of them put somewhere.
fn text(sound: impl Strategy<Value = String>, words: Vec<String>) -> impl Strategy<Value = String> {
    let word = || prop::sample::select(words.clone());
    let spoiled =
        (sound, word(), any::<prop::sample::Index>(), any::<bool>()).prop_map(|(text, word, at, spoil)| {
            if !spoil {
                return text;
            }
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let (begin, end) = text.split_at(ends[at.index(ends.len())]);
            format!("{begin}{word}{end}")
        });
    prop_oneof![3 => spoiled, 1 => prop::collection::vec(word(), 0..7).prop_map(|words| words.concat())]
}

fn words(more: &[&str]) -> Vec<String> {
    let long = |n| "x".repeat(n);
    let words = [
        "a", "b", "A.b", "1", "-1", "007", "_", "-", ".", "a-", "", " ", "\t", "\n", "\u{a0}", "\u{e4}",
        "\\", "\\=", "\\,",
    ];
    let signs = ["=", "==", "!=", "!", ",", ",,", "(", ")", "<", ">", "+", "/", "//"];
    let all = words.iter().chain(&signs).chain(more).map(|word| (*word).to_owned());
    all.chain([long(63), long(64)]).collect()
}

#[test]
fn label_selectors_are_those_of_apimachinery() -> Result<()> {
    or_skip(label_selectors)
}

fn label_selectors() -> Result<()> {
    let label = || prop::sample::select(vec!["a", "b", "in", "notin", "x.y/a", "x.y/z-1", "exists"]);
    let value = || prop::sample::select(vec!["", "a", "b", "in", "1", "5", "12", "x.1_y"]);
    let space = || prop::sample::select(vec!["", "", " ", "  ", "\t"]);
    let values = || {
        prop::collection::vec((space(), value(), space()), 1..4).prop_map(|values| {
            values.into_iter().map(|(a, v, b)| format!("{a}{v}{b}")).collect::<Vec<_>>().join(",")
        })
    };
    let requirement = prop_oneof![
        label().prop_map(str::to_owned),
        (label(), space()).prop_map(|(l, s)| format!("!{s}{l}")),
        (label(), space(), prop::sample::select(vec!["=", "==", "!=", ">", "<"]), space(), value())
            .prop_map(|(l, s, o, t, v)| format!("{l}{s}{o}{t}{v}")),
        (label(), prop::sample::select(vec!["in", "notin"]), space(), values())
            .prop_map(|(l, o, s, v)| format!("{l} {o}{s}({v})")),
    ];
    let sound = prop::collection::vec((requirement, space()), 0..4)
        .prop_map(|all| all.into_iter().map(|(r, s)| format!("{s}{r}{s}")).collect::<Vec<_>>().join(","));
    let words = words(&[
        "in", "notin", " in (a)", "in(", "()", "( )", "x.y/", "-x/a", "x..y/a", "X/a", "/a", "a/b/c",
    ]);
    let set =
        prop::collection::btree_map(label().prop_map(str::to_owned), value().prop_map(str::to_owned), 0..5);
    let asked = samples(&(text(sound, words), set))?;
    compare::<LabelSelector>(
        "label",
        asked,
        |_| false,
        |selector, set| selector.matches_with(|label| set.get(label)),
    )
}

#[test]
fn field_selectors_are_those_of_apimachinery() -> Result<()> {
    or_skip(field_selectors)
}

fn field_selectors() -> Result<()> {
    let field =
        || prop::sample::select(vec!["metadata.name", "metadata.namespace", "spec.nodeName", "status.phase"]);
    let value = || {
        prop::sample::select(vec![
            "",
            "a",
            "b",
            " ",
            "a b",
            "\\,",
            "\\=",
            "\\\\",
            "x\\,y\\=z",
            "\u{e4}",
            "!",
            "a!",
        ])
    };
    let requirement = (field(), prop::sample::select(vec!["=", "==", "!="]), value())
        .prop_map(|(f, o, v)| format!("{f}{o}{v}"));
    let sound = prop::collection::vec(requirement, 0..4).prop_map(|all| all.join(","));
    // What a value of a field is in the object, and so in the set.
    let is =
        || prop::sample::select(vec!["a", "b", " ", "a b", ",", "=", "\\", "x,y=z", "\u{e4}", "!", "a!"]);
    let set = (is(), is(), prop::option::of(is()), prop::option::of(is()));
    let asked = samples(&(text(sound, words(&["metadata.name", "..", "a.b=", "=a"])), set))?;
    let asked = asked
        .into_iter()
        .map(|(text, (name, namespace, node, phase))| {
            let some = [
                ("metadata.name", Some(name)),
                ("metadata.namespace", Some(namespace)),
                ("spec.nodeName", node),
                ("status.phase", phase),
            ];
            let set =
                some.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?.to_owned())));
            (text, set.collect())
        })
        .collect();
    // Apimachinery leaves it to the kinds which fields there are, and none has such a one.
    let no_field = |error: &FieldSelectorError| error.to_string().contains("dotted path");
    compare::<FieldSelector>("field", asked, no_field, |selector, set| {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": set["metadata.name"], "namespace": set["metadata.namespace"]},
            "spec": {"nodeName": set.get("spec.nodeName")}, "status": {"phase": set.get("status.phase")},
        });
        Object::decode(object.to_string().as_bytes()).is_ok_and(|object| selector.matches(&object))
    })
}
