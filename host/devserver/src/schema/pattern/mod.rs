//! [`Pattern`]: regular expressions as Go's `regexp` takes them, matched in bounded time.
//!
//! [`go_syntax`] brings an expression to the syntax of the `regex` crates, whose simplest engine matches it: all states of the
//! automaton advance together, a byte at a time, without backtracking. A match costs at most states times bytes, and the
//! caller's [`Budget`] pays for that before.
//!
//! A schema holds many expressions: [`Patterns`] compiles each text once and bounds them together.

mod go_syntax;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use regex_automata::Input;
use regex_automata::nfa::thompson::pikevm::{Cache, PikeVM};
use regex_automata::nfa::thompson::{Compiler, Config, WhichCaptures};
use regex_syntax::ParserBuilder;

use super::budget::Budget;

/// How long an expression may be. The longest known from a published definition has some hundred letters.
const MAX_LENGTH: usize = 8 << 10;
/// How many levels an expression may have; Go takes a thousand.
const MAX_DEPTH: u32 = 250;
/// How many bytes the automaton of an expression may have.
const MAX_SIZE: usize = 4 << 20;
/// How many bytes the automatons of a schema may have together.
const MAX_TOTAL: usize = 16 << 20;
/// How many states an automaton goes through at a byte in the time of a step of the budget.
const STATES_A_STEP: u64 = 8;

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
            let pattern = Pattern::new(text);
            // One that is refused has cost work as well.
            self.size += pattern.as_ref().map_or(text.len(), Pattern::size);
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
    engine: PikeVM,
    /// What the engine works on, kept from match to match.
    cache: Mutex<Cache>,
}

impl Pattern {
    /// # Errors
    /// What is wrong with the expression, or that it is too large.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let failed = |why: String| format!("error parsing regexp: {why}");
        let too_large = || failed(format!("expression too large: `{text}`"));
        if text.len() > MAX_LENGTH {
            return Err(too_large());
        }
        let translated = go_syntax::translate(text).map_err(failed)?;
        let mut parser = ParserBuilder::new().utf8(false).nest_limit(MAX_DEPTH).build();
        let tree = parser.parse(&translated).map_err(|error| {
            failed(match error {
                regex_syntax::Error::Parse(error) => error.kind().to_string(),
                regex_syntax::Error::Translate(error) => error.kind().to_string(),
                other => other.to_string(),
            })
        })?;
        let config =
            Config::new().utf8(false).nfa_size_limit(Some(MAX_SIZE)).which_captures(WhichCaptures::None);
        let automaton = Compiler::new().configure(config).build_from_hir(&tree).map_err(|_| too_large())?;
        let engine = PikeVM::builder().build_from_nfa(automaton).map_err(|_| too_large())?;
        let cache = Mutex::new(engine.create_cache());
        Ok(Self(Arc::new(Automaton { text: text.into(), engine, cache })))
    }

    /// As the schema has it.
    pub(crate) fn text(&self) -> &str {
        &self.0.text
    }

    /// How many bytes of memory it takes.
    fn size(&self) -> usize {
        self.0.engine.get_nfa().memory_usage() + self.0.cache.lock().memory_usage()
    }

    /// Whether it matches somewhere in a text; also if the budget was spent before that was known.
    pub(crate) fn matches(&self, text: &str, budget: &mut Budget) -> bool {
        let states = self.0.engine.get_nfa().states().len() as u64;
        if !budget.spend(1 + states * (1 + text.len() as u64) / STATES_A_STEP) {
            return true;
        }
        self.0.engine.is_match(&mut self.0.cache.lock(), Input::new(text))
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

    #[test]
    fn expressions_are_refused_that_go_refuses() {
        for pattern in [
            "a**",
            "a{2}{3}",
            "a*??",
            "a|*",
            "(*)",
            "*",
            "a{1001}",
            "a{2,1}",
            "(?x)a",
            "(?R)",
            "(?u)a",
            "(",
            ")",
            "[",
            "[]",
            "[b-a]",
            r"\",
            r"\8",
            r"\1",
            r"\y",
            r"\x1",
            r"\x{110000}",
            r"\x{}",
            r"\pX",
            r"\p{Nothing}",
            r"[\b]",
            r"[[:no:]]",
            "(?P<a>x)(?P<a>y)",
            "(?P<a",
            "(?z)",
        ] {
            let error = Pattern::new(pattern).unwrap_err();
            assert!(error.starts_with("error parsing regexp: "), "{pattern}: {error}");
        }
    }

    #[test]
    fn a_large_expression_is_refused() {
        let long = "a".repeat(10_000);
        for pattern in [
            "((((.{1000}){30}){1000}){1000}){1000}".to_owned(),
            "((a?){1000}|b){0,1000}".to_owned(),
            long,
            r"[\pLa]".repeat(1000),
            format!("(?i){}", r"[\x{300}-\x{10FFFF}]".repeat(300)) + &"\\pL".repeat(1000),
        ] {
            let error = Pattern::new(&pattern).unwrap_err();
            assert_eq!(error, format!("error parsing regexp: expression too large: `{pattern}`"));
        }
        assert!(is_match(r"^[\p{L}\p{N}_-]{1,63}$", "ä-1_β"));
    }

    #[test]
    fn a_deep_expression_is_refused() {
        for pattern in
            ["(".repeat(4000), format!("{}a{}", "(".repeat(4000), ")".repeat(4000)), "(?:a".repeat(2000)]
        {
            let error = Pattern::new(&pattern).unwrap_err();
            assert!(error.starts_with("error parsing regexp: "), "{error}");
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
        assert!((10..500).contains(&read), "{read}");
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
