//! [`Pattern`]: regular expressions as Go's `regexp` takes them, matched in bounded time.
//!
//! `parse` reads Go's syntax, with Go's errors; of `regex-syntax` it takes the tables of Unicode alone. A tree is compiled
//! to a nondeterministic automaton. All its states advance together, one letter at a time: there is no backtracking, and
//! the caller's [`Budget`] can end a match after every letter, which no engine of the `regex` crates allows.
//!
//! A schema holds many expressions: [`Patterns`] parses each text once and bounds them together.

mod classes;
mod parse;

use std::collections::HashMap;
use std::sync::Arc;

use super::budget::Budget;
use classes::{Classes, LetterRange};
use parse::{Look, Tree, TreeKind};

/// How long an expression may be. The longest known from a published definition has some hundred letters.
const MAX_LENGTH: usize = 8 << 10;
/// How many states an expression may have; ranges of letters count as well. `[a-z]{1,253}` has 506.
const MAX_STATES: usize = 32 << 10;
/// How many parts may be visited to compile an expression: a part that is repeated is visited as often.
const MAX_VISITS: usize = 1 << 20;
/// How much the regular expressions of a schema may hold together, in states and ranges of letters: some MiB.
const MAX_TOTAL: usize = 400_000;

/// The regular expressions of a schema.
#[derive(Debug, Default)]
pub(crate) struct Patterns<'a> {
    known: HashMap<&'a str, Result<Pattern, String>>,
    size: usize,
}

/// The regular expressions of a schema are too large together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyPatterns;

impl<'a> Patterns<'a> {
    /// The expression of this text, or what is wrong with it.
    pub(crate) fn get(&mut self, text: &'a str) -> Result<&Result<Pattern, String>, TooManyPatterns> {
        if !self.known.contains_key(text) {
            if self.size > MAX_TOTAL {
                return Err(TooManyPatterns);
            }
            let mut work = 0;
            let pattern = Pattern::compile(text, &mut work);
            self.size += work;
            self.known.insert(text, pattern);
        }
        if self.size > MAX_TOTAL { Err(TooManyPatterns) } else { self.known.get(text).ok_or(TooManyPatterns) }
    }
}

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(Arc<Automaton>);

#[derive(Debug)]
struct Automaton {
    text: Box<str>,
    states: Vec<State>,
    ranges: Vec<LetterRange>,
    start: u32,
}

/// What a state does before it goes on.
#[derive(Debug, Clone, Copy)]
enum State {
    /// Takes a letter of these ranges.
    Letter {
        first: u32,
        count: u32,
        next: u32,
    },
    /// Looks around, and takes nothing.
    Look(Look, u32),
    Either(u32, u32),
    Match,
}

impl Pattern {
    /// # Errors
    /// What is wrong with the expression, or that it is too large.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        Self::compile(text, &mut 0)
    }

    /// `work` gets what it cost, in states and ranges, also if nothing came of it.
    fn compile(text: &str, work: &mut usize) -> Result<Self, String> {
        let failed = |why: String| format!("error parsing regexp: {why}");
        let too_large = || failed(format!("expression too large: `{text}`"));
        *work += 1 + text.len() / 16;
        if text.len() > MAX_LENGTH {
            return Err(too_large());
        }
        let parsed = parse::parse(text).map_err(failed)?;
        let class_work = parsed.classes.work / 64;
        let mut compiler = Compiler::new(&parsed.classes);
        let found = compiler.state(State::Match).and_then(|end| compiler.compile(&parsed.tree, end));
        *work += class_work + compiler.visits / 64 + compiler.states.len() + compiler.ranges.len();
        let start = found.map_err(|TooLarge| too_large())?;
        let Compiler { states, ranges, .. } = compiler;
        Ok(Self(Arc::new(Automaton { text: text.into(), states, ranges, start })))
    }

    /// As the schema has it.
    pub(crate) fn text(&self) -> &str {
        &self.0.text
    }

    /// Whether it matches somewhere in a text; also if the budget was spent before that was known.
    pub(crate) fn matches(&self, text: &str, budget: &mut Budget) -> bool {
        let automaton = &*self.0;
        // The marks of active states are memory to be cleared.
        if !budget.spend(1 + automaton.states.len() as u64 / 64) {
            return true;
        }
        let (mut now, mut later) = (ActiveStates::of(automaton), ActiveStates::of(automaton));
        let mut before = None;
        let mut letters = text.chars();
        loop {
            let letter = letters.clone().next();
            let around = Around { before, after: letter };
            now.add(automaton, automaton.start, around);
            if now.matched || !budget.spend(now.list.len() as u64) {
                return true;
            }
            let Some(letter) = letter else { return false };
            letters.next();
            before = Some(letter);
            let around = Around { before, after: letters.clone().next() };
            for state in &now.list {
                if let State::Letter { first, count, next } = automaton.states[*state as usize] {
                    let ranges = &automaton.ranges[first as usize..(first + count) as usize];
                    let letter = u32::from(letter);
                    let at = ranges.partition_point(|range| range.1 < letter);
                    if ranges.get(at).is_some_and(|range| range.0 <= letter) {
                        later.add(automaton, next, around);
                    }
                }
            }
            std::mem::swap(&mut now, &mut later);
            later.clear();
        }
    }
}

/// The letters on both sides of a place.
#[derive(Clone, Copy)]
struct Around {
    before: Option<char>,
    after: Option<char>,
}

impl Around {
    fn fulfils(self, look: Look) -> bool {
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        match look {
            Look::TextStart => self.before.is_none(),
            Look::TextEnd => self.after.is_none(),
            Look::LineStart => self.before.is_none_or(|c| c == '\n'),
            Look::LineEnd => self.after.is_none_or(|c| c == '\n'),
            Look::WordBoundary => is_word(self.before) != is_word(self.after),
            Look::NoWordBoundary => is_word(self.before) == is_word(self.after),
        }
    }
}

/// The states that an automaton is in, each once.
struct ActiveStates {
    list: Vec<u32>,
    is_in: Vec<bool>,
    /// States to be added: the way through those that take nothing.
    open: Vec<u32>,
    matched: bool,
}

impl ActiveStates {
    fn of(automaton: &Automaton) -> Self {
        Self {
            list: Vec::new(),
            is_in: vec![false; automaton.states.len()],
            open: Vec::new(),
            matched: false,
        }
    }

    fn clear(&mut self) {
        for state in self.list.drain(..) {
            self.is_in[state as usize] = false;
        }
        self.matched = false;
    }

    fn add(&mut self, automaton: &Automaton, state: u32, around: Around) {
        self.open.push(state);
        while let Some(state) = self.open.pop() {
            if std::mem::replace(&mut self.is_in[state as usize], true) {
                continue;
            }
            self.list.push(state);
            match automaton.states[state as usize] {
                State::Letter { .. } => {}
                State::Match => self.matched = true,
                State::Either(a, b) => self.open.extend([a, b]),
                State::Look(look, next) if around.fulfils(look) => self.open.push(next),
                State::Look(..) => {}
            }
        }
    }
}

/// The expression needs more than [`MAX_STATES`].
struct TooLarge;

struct Compiler<'a> {
    classes: &'a Classes,
    /// Where the ranges of each class stand, once they do: many states share them.
    placed: Vec<Option<(u32, u32)>>,
    states: Vec<State>,
    ranges: Vec<LetterRange>,
    visits: usize,
}

impl<'a> Compiler<'a> {
    fn new(classes: &'a Classes) -> Self {
        let placed = vec![None; classes.list.len()];
        Self { classes, placed, states: Vec::new(), ranges: Vec::new(), visits: 0 }
    }

    fn state(&mut self, state: State) -> Result<u32, TooLarge> {
        if self.states.len() + self.ranges.len() >= MAX_STATES {
            return Err(TooLarge);
        }
        self.states.push(state);
        u32::try_from(self.states.len() - 1).map_err(|_| TooLarge)
    }

    fn letter(&mut self, class: classes::ClassId, next: u32) -> Result<u32, TooLarge> {
        let (first, count) = match self.placed[class.0] {
            Some(placed) => placed,
            None => {
                let ranges = &self.classes.list[class.0];
                let index = |n: usize| u32::try_from(n).map_err(|_| TooLarge);
                let placed = (index(self.ranges.len())?, index(ranges.len())?);
                self.ranges.extend(ranges);
                self.placed[class.0] = Some(placed);
                placed
            }
        };
        self.state(State::Letter { first, count, next })
    }

    /// The states of a part that go on at `next`; gives the first of them. The depth is that of the parser's limit.
    fn compile(&mut self, tree: &Tree, next: u32) -> Result<u32, TooLarge> {
        self.visits += 1;
        if self.visits > MAX_VISITS {
            return Err(TooLarge);
        }
        match &tree.kind {
            TreeKind::Letter(class) => self.letter(*class, next),
            TreeKind::Look(look) => self.state(State::Look(*look, next)),
            TreeKind::Concat(parts) => {
                parts.iter().rev().try_fold(next, |next, part| self.compile(part, next))
            }
            TreeKind::Alternate(parts) => {
                let mut parts = parts.iter();
                let Some(first) = parts.next() else { return Ok(next) };
                let mut start = self.compile(first, next)?;
                for part in parts {
                    let other = self.compile(part, next)?;
                    start = self.state(State::Either(start, other))?;
                }
                Ok(start)
            }
            TreeKind::Repeat { tree, min, max } => {
                let mut start = next;
                match max {
                    None => {
                        let again = self.state(State::Either(next, next))?;
                        let body = self.compile(tree, again)?;
                        self.states[again as usize] = State::Either(body, next);
                        // Once at least: what stands before the choice is the first of them.
                        start = if *min == 0 { again } else { body };
                    }
                    Some(max) => {
                        for _ in *min..*max {
                            let body = self.compile(tree, start)?;
                            start = self.state(State::Either(body, next))?;
                        }
                    }
                }
                let copies = if max.is_none() { min.saturating_sub(1) } else { *min };
                for _ in 0..copies {
                    start = self.compile(tree, start)?;
                }
                Ok(start)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).unwrap().matches(text, &mut Budget::new())
    }

    #[test]
    fn expressions_match_what_they_match_in_go() {
        for (pattern, text, expected) in [
            ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "my-app-1", true),
            ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "my-app-", false),
            ("b+", "abc", true),
            ("^b", "abc", false),
            ("", "", true),
            ("^$", "x", false),
            (r"^\d+$", "12", true),
            (r"^\d+$", "٣", false),
            (r"^[\d.]+$", "1.2", true),
            (r"^[^\s]+$", "a b", false),
            (r"^\w\W$", "a-", true),
            (r"\bcat\b", "a cat!", true),
            (r"\bcat\b", "concat", false),
            ("^(a|bc){2,3}$", "abca", true),
            ("^(a|bc){2,3}$", "a", false),
            ("^a{2,}$", "aaaa", true),
            ("^(a*)*$", "aaab", false),
            ("^(?i)Ready$", "rEADY", true),
            ("(?m)^b$", "a\nb\nc", true),
            ("^.$", "\n", false),
            ("^(?s).$", "\n", true),
            ("^ä.ö$", "äüö", true),
            (r"^\pL+$", "äß", true),
            (r"^\p{^Greek}$", "α", false),
            (r"^[[:alpha:]_]+$", "a_b", true),
            ("^[[a]$", "[", true),
            ("^[]a]+$", "]a", true),
            ("^[a&&b]+$", "&", true),
            ("^[+--]+$", ",-", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^\/\<\_$", "/<_", true),
            ("^a{b}$", "a{b}", true),
            (r"^(?P<name>x)(?:y)$", "xy", true),
            (r"^\x41\x{42}[\x{1F600}\p{Greek}]+$", "ABα😀", true),
        ] {
            assert_eq!(is_match(pattern, text), expected, "{pattern:?} on {text:?}");
        }
    }

    /// An expression, what Go says against it, and else which texts it matches.
    #[derive(serde::Deserialize)]
    struct Vector {
        pattern: String,
        error: Option<String>,
        #[serde(default)]
        matches: Vec<String>,
        #[serde(default)]
        others: Vec<String>,
    }

    #[test]
    fn expressions_are_taken_refused_and_matched_as_by_go() {
        // Made by `controlplane patterns`.
        let vectors: Vec<Vector> = serde_json::from_str(include_str!("vectors.json")).unwrap();
        assert!(vectors.len() > 4000 && vectors.iter().filter(|v| v.error.is_none()).count() > 1000);
        let mut wrong = Vec::new();
        for vector in &vectors {
            let read = Pattern::new(&vector.pattern);
            let error = read.as_ref().err();
            if error != vector.error.as_ref() {
                wrong.push(format!("{:?}: {error:?}, and in Go {:?}", vector.pattern, vector.error));
                continue;
            }
            let Ok(pattern) = read else { continue };
            let tried = vector.matches.iter().map(|text| (text, true));
            for (text, expected) in tried.chain(vector.others.iter().map(|text| (text, false))) {
                if pattern.matches(text, &mut Budget::new()) != expected {
                    wrong.push(format!("{:?} on {text:?}: not {expected}", vector.pattern));
                }
            }
        }
        assert!(
            wrong.is_empty(),
            "{} of {}:\n{}",
            wrong.len(),
            vectors.len(),
            wrong[..wrong.len().min(60)].join("\n")
        );
    }

    #[test]
    fn a_large_expression_is_refused_before_it_takes_memory() {
        let texts = ["((((.{1000}){30}){1000}){1000}){1000}".to_owned(), "((a?){1000}|b){0,1000}".to_owned()];
        for pattern in texts {
            let (error, mut work) = (Pattern::new(&pattern).unwrap_err(), 0);
            assert!(error.starts_with("error parsing regexp: invalid repeat count"), "{error}");
            let _ = Pattern::compile(&pattern, &mut work);
            assert!(work < 100);
        }
        let long = "a".repeat(10_000);
        for pattern in [r"[\pLa]".repeat(1000), long.clone(), "(?:[a-z]?[0-9]?){500}".repeat(40)] {
            let mut work = 0;
            let error = Pattern::compile(&pattern, &mut work).unwrap_err();
            assert_eq!(error, format!("error parsing regexp: expression too large: `{pattern}`"));
            assert!(work < 2 * MAX_STATES, "{work}");
        }
    }

    #[test]
    fn folding_the_case_of_wide_classes_costs_little() {
        let mut classes = Classes::default();
        classes.folded(vec![(32, 0x10_FFFF)]);
        // The letters that have other forms, not all letters.
        assert!(classes.work < 4000, "{}", classes.work);
        let many: String =
            (0..800).map(|i| format!("[{}-\u{10FFFF}]", char::from_u32(0x300 + i).unwrap())).collect();
        let mut work = 0;
        let _ = Pattern::compile(&format!("(?i){many}"), &mut work);
        assert!(work < 2 * MAX_STATES, "{work}");
    }

    #[test]
    fn a_class_that_stands_often_is_kept_once() {
        let pattern = Pattern::new(r"^[\p{L}\p{N}_-]{1,63}$").unwrap();
        assert!(pattern.0.ranges.len() < 1000, "{}", pattern.0.ranges.len());
        assert!(is_match(r"^[\p{L}\p{N}_-]{1,63}$", "ä-1_β"));
    }

    #[test]
    fn a_deep_expression_is_refused() {
        for pattern in
            ["(".repeat(4000), format!("{}a{}", "(".repeat(4000), ")".repeat(4000)), "(?:a".repeat(2000)]
        {
            let error = Pattern::new(&pattern).unwrap_err();
            assert!(
                error.starts_with("error parsing regexp: expression nests too deeply"),
                "{}",
                &error[..60]
            );
        }
        assert!(Pattern::new(&format!("{}a{}", "(".repeat(200), ")".repeat(200))).is_ok());
    }

    #[test]
    fn a_match_is_charged_for_the_memory_of_its_states() {
        let pattern = Pattern::new("^(abcdefgh){1000}$").unwrap();
        let mut budget = Budget::new();
        pattern.matches("", &mut budget);
        assert!(budget.spent() > 100, "{}", budget.spent());
    }

    #[test]
    fn the_expressions_of_a_schema_are_parsed_once_and_bounded_together() {
        let texts: Vec<String> = (0..1000).map(|i| format!("^.{{1000}}{i}$")).collect();
        let mut patterns = Patterns::default();
        let read = texts.iter().take_while(|text| patterns.get(text).is_ok()).count();
        assert!((100..500).contains(&read), "{read}");
        let mut patterns = Patterns::default();
        let one = patterns.get("a+").unwrap().clone().unwrap();
        assert!(Arc::ptr_eq(&one.0, &patterns.get("a+").unwrap().clone().unwrap().0));
    }

    #[test]
    fn a_hostile_expression_ends_with_its_budget() {
        // Without an anchor, every letter may be the first: no state ever ends.
        let pattern = Pattern::new("(a?){500}a{500}b$").unwrap();
        let mut budget = Budget::new();
        pattern.matches(&"a".repeat(1 << 20), &mut budget);
        assert!(budget.is_spent());
        assert!(!is_match("^(a|a)*(a*)*b$", &"a".repeat(10_000)));
    }

    proptest::proptest! {
        #[test]
        fn no_expression_panics(pattern in ".{0,40}", text in ".{0,40}") {
            if let Ok(pattern) = Pattern::new(&pattern) {
                pattern.matches(&text, &mut Budget::new());
            }
        }

        #[test]
        fn expressions_of_special_signs_do_not_panic(pattern in r"[\[\]\\(){}?*+|^$.,a0-3:pQEbd&~-]{0,30}", text in "[a-d0-3-]{0,20}") {
            if let Ok(pattern) = Pattern::new(&pattern) {
                pattern.matches(&text, &mut Budget::new());
            }
        }
    }
}
