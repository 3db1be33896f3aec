//! [`Pattern`]: regular expressions as Go's `regexp` reads them, matched in bounded time.
//!
//! The expression is translated to the syntax of `regex-syntax` (in Go `\d`, `\w`, `\s` and `\b` know ASCII alone, and a
//! class holds no class), parsed by it, and compiled to a nondeterministic automaton. All its states advance together,
//! one letter at a time: there is no backtracking, so a match costs at most letters times states, and the caller's
//! [`Budget`] ends it before.

use std::sync::Arc;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::budget::Budget;

/// How long an expression may be. The longest known from a published definition has some hundred letters.
const MAX_LENGTH: usize = 8 << 10;
/// How many states an expression may have; ranges of letters count as well. `[a-z]{1,253}` has 253.
const MAX_STATES: usize = 32 << 10;
/// How often Go repeats at most.
const MAX_REPEAT: u32 = 1000;

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(Arc<Automaton>);

#[derive(Debug)]
struct Automaton {
    text: Box<str>,
    states: Vec<State>,
    ranges: Vec<(char, char)>,
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
        let failed = |why: String| format!("error parsing regexp: {why}");
        if text.len() > MAX_LENGTH {
            return Err(failed("expression too large".to_owned()));
        }
        let translated = Translation::of(text).map_err(failed)?;
        let parsed = ParserBuilder::new().nest_limit(100).utf8(false).build().parse(&translated);
        // The parser's message shows the expression in several lines; the reason stands in the last.
        let hir = parsed.map_err(|e| {
            let message = e.to_string();
            let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ");
            failed(reason.to_owned())
        })?;
        let mut compiler = Compiler { states: Vec::new(), ranges: Vec::new() };
        let found = compiler.state(State::Match).and_then(|end| compiler.compile(&hir, end));
        let start = found.map_err(|TooLarge| failed("expression too large".to_owned()))?;
        let Compiler { states, ranges } = compiler;
        Ok(Self(Arc::new(Automaton { text: text.into(), states, ranges, start })))
    }

    /// As the schema has it.
    pub(crate) fn text(&self) -> &str {
        &self.0.text
    }

    /// How much it holds, in states and ranges.
    pub(crate) fn size(&self) -> usize {
        self.0.states.len() + self.0.ranges.len()
    }

    /// Whether it matches somewhere in a text; also if the budget was spent before that was known.
    pub(crate) fn matches(&self, text: &str, budget: &mut Budget) -> bool {
        let automaton = &*self.0;
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
            Look::Start => self.before.is_none(),
            Look::End => self.after.is_none(),
            Look::StartLF => self.before.is_none_or(|c| c == '\n'),
            Look::EndLF => self.after.is_none_or(|c| c == '\n'),
            Look::WordAscii => is_word(self.before) != is_word(self.after),
            Look::WordAsciiNegate => is_word(self.before) == is_word(self.after),
            // The translation makes no others.
            _ => false,
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

struct Compiler {
    states: Vec<State>,
    ranges: Vec<(char, char)>,
}

impl Compiler {
    fn state(&mut self, state: State) -> Result<u32, TooLarge> {
        if self.states.len() + self.ranges.len() >= MAX_STATES {
            return Err(TooLarge);
        }
        self.states.push(state);
        u32::try_from(self.states.len() - 1).map_err(|_| TooLarge)
    }

    fn letter(&mut self, ranges: impl Iterator<Item = (char, char)>, next: u32) -> Result<u32, TooLarge> {
        let first = self.ranges.len();
        self.ranges.extend(ranges);
        let index = |n: usize| u32::try_from(n).map_err(|_| TooLarge);
        let (first, count) = (index(first)?, index(self.ranges.len() - first)?);
        self.state(State::Letter { first, count, next })
    }

    /// The states of a part that go on at `next`; gives the first of them. The depth is that of the parser's limit.
    fn compile(&mut self, hir: &Hir, next: u32) -> Result<u32, TooLarge> {
        match hir.kind() {
            HirKind::Empty => Ok(next),
            HirKind::Literal(literal) => {
                let text = String::from_utf8_lossy(&literal.0).into_owned();
                text.chars().rev().try_fold(next, |next, c| self.letter(std::iter::once((c, c)), next))
            }
            HirKind::Class(Class::Unicode(class)) => {
                let ranges: Vec<_> = class.iter().map(|r| (r.start(), r.end())).collect();
                self.letter(ranges.into_iter(), next)
            }
            HirKind::Class(Class::Bytes(class)) => {
                let ranges: Vec<_> =
                    class.iter().map(|r| (char::from(r.start()), char::from(r.end()))).collect();
                self.letter(ranges.into_iter(), next)
            }
            HirKind::Look(look) => self.state(State::Look(*look, next)),
            HirKind::Capture(capture) => self.compile(&capture.sub, next),
            HirKind::Concat(parts) => {
                parts.iter().rev().try_fold(next, |next, part| self.compile(part, next))
            }
            HirKind::Alternation(parts) => {
                let mut parts = parts.iter();
                let Some(first) = parts.next() else { return Ok(next) };
                let mut start = self.compile(first, next)?;
                for part in parts {
                    let other = self.compile(part, next)?;
                    start = self.state(State::Either(start, other))?;
                }
                Ok(start)
            }
            HirKind::Repetition(repetition) => {
                let mut start = next;
                match repetition.max {
                    None => {
                        let again = self.state(State::Either(next, next))?;
                        let body = self.compile(&repetition.sub, again)?;
                        self.states[again as usize] = State::Either(body, next);
                        start = again;
                    }
                    Some(max) => {
                        for _ in repetition.min..max {
                            let body = self.compile(&repetition.sub, start)?;
                            start = self.state(State::Either(body, next))?;
                        }
                    }
                }
                for _ in 0..repetition.min {
                    start = self.compile(&repetition.sub, start)?;
                }
                Ok(start)
            }
        }
    }
}

/// An expression of Go in the syntax of `regex-syntax`.
struct Translation<'a> {
    rest: std::str::Chars<'a>,
    out: String,
}

impl<'a> Translation<'a> {
    fn of(text: &'a str) -> Result<String, String> {
        let mut translation = Self { rest: text.chars(), out: String::with_capacity(text.len() * 2) };
        while let Some(letter) = translation.rest.next() {
            match letter {
                '\\' => translation.escape(false)?,
                '[' => translation.class()?,
                '{' => translation.repetition()?,
                '(' => translation.group()?,
                other => translation.out.push(other),
            }
        }
        Ok(translation.out)
    }

    fn literal(&mut self, letter: char) {
        self.out.push_str(&format!("\\x{{{:x}}}", u32::from(letter)));
    }

    /// What follows a backslash.
    fn escape(&mut self, in_class: bool) -> Result<(), String> {
        let Some(letter) = self.rest.next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        match letter {
            'd' => self.out.push_str("[0-9]"),
            'D' => self.out.push_str("[^0-9]"),
            'w' => self.out.push_str("[0-9A-Za-z_]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            's' => self.out.push_str(r"[\t\n\x0C\r ]"),
            'S' => self.out.push_str(r"[^\t\n\x0C\r ]"),
            'b' if !in_class => self.out.push_str(r"(?-u:\b)"),
            'B' if !in_class => self.out.push_str(r"(?-u:\B)"),
            'A' | 'z' if !in_class => self.out.extend(['\\', letter]),
            'a' | 'f' | 't' | 'n' | 'r' | 'v' => self.out.extend(['\\', letter]),
            'x' | 'p' | 'P' => self.named(letter),
            'Q' if !in_class => {
                let rest = self.rest.as_str();
                let (quoted, behind) = rest.split_once(r"\E").unwrap_or((rest, ""));
                quoted.chars().for_each(|c| self.literal(c));
                self.rest = behind.chars();
            }
            other if other.is_ascii() && !other.is_ascii_alphanumeric() => self.literal(other),
            other => return Err(format!("invalid escape sequence: `\\{other}`")),
        }
        Ok(())
    }

    /// What follows `\x`, `\p` and `\P`: a name in braces, or letters that need no translation.
    fn named(&mut self, letter: char) {
        let Some((name, behind)) = self.rest.as_str().strip_prefix('{').and_then(|rest| rest.split_once('}'))
        else {
            self.out.extend(['\\', letter]);
            return;
        };
        let (letter, name) = match (name.strip_prefix('^'), letter) {
            (Some(name), 'p') => ('P', name),
            (Some(name), 'P') => ('p', name),
            _ => (letter, name),
        };
        self.out.push_str(&format!("\\{letter}{{{name}}}"));
        self.rest = behind.chars();
    }

    /// What follows `[`.
    fn class(&mut self) -> Result<(), String> {
        let opened = self.rest.as_str();
        self.out.push('[');
        if let Some(behind) = self.rest.as_str().strip_prefix('^') {
            self.out.push('^');
            self.rest = behind.chars();
        }
        let mut is_first = true;
        let mut after_dash = false;
        loop {
            let rest = self.rest.as_str();
            let Some(letter) = self.rest.next() else {
                return Err(format!("missing closing ]: `[{opened}`"));
            };
            match letter {
                ']' if !is_first => break,
                // A second dash, and doubled signs, are operators there.
                '-' if !after_dash => self.out.push('-'),
                '\\' => self.escape(true)?,
                '[' if rest.starts_with("[:") && rest.contains(":]") => {
                    let (name, behind) = rest.split_once(":]").unwrap_or((rest, ""));
                    self.out.push_str(name);
                    self.out.push_str(":]");
                    self.rest = behind.chars();
                }
                other if other.is_ascii_alphanumeric() || !other.is_ascii() => self.out.push(other),
                other => self.literal(other),
            }
            after_dash = letter == '-';
            is_first = false;
        }
        self.out.push(']');
        Ok(())
    }

    /// What follows `{`: numbers, or it is a letter like any other.
    fn repetition(&mut self) -> Result<(), String> {
        let rest = self.rest.as_str();
        let numbers = rest.split_once('}').map(|(inside, _)| inside).filter(|inside| {
            let (min, max) = inside.split_once(',').unwrap_or((inside, ""));
            let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
            !min.is_empty() && digits(min) && digits(max)
        });
        let Some(numbers) = numbers else {
            self.literal('{');
            return Ok(());
        };
        let fits = |text: &str| text.is_empty() || text.parse::<u32>().is_ok_and(|n| n <= MAX_REPEAT);
        if !numbers.split(',').all(fits) {
            return Err(format!("invalid repeat count: `{{{numbers}}}`"));
        }
        self.out.push('{');
        Ok(())
    }

    /// What follows `(`: Go looks neither ahead nor behind.
    fn group(&mut self) -> Result<(), String> {
        let rest = self.rest.as_str();
        for unsupported in ["?=", "?!", "?<=", "?<!", "?>", "?#"] {
            if rest.starts_with(unsupported) {
                let shown = unsupported.trim_end_matches(['=', '!']);
                let shown = if shown == "?" { unsupported } else { shown };
                return Err(format!("invalid or unsupported Perl syntax: `({shown}`"));
            }
        }
        self.out.push('(');
        Ok(())
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
    fn expressions_that_go_does_not_take_are_refused() {
        for (pattern, why) in [
            ("(", "unclosed group"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?<!a)", "invalid or unsupported Perl syntax: `(?<`"),
            (r"\Z", r"invalid escape sequence: `\Z`"),
            ("[a", "missing closing ]: `[a`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("*", "repetition operator missing expression"),
            (r"(a)\1", r"invalid escape sequence: `\1`"),
        ] {
            let error = Pattern::new(pattern).unwrap_err();
            assert_eq!(error, format!("error parsing regexp: {why}"), "{pattern}");
        }
    }

    #[test]
    fn a_large_expression_is_refused_before_it_takes_memory() {
        for pattern in
            ["((((.{1000}){1000}){1000}){1000}){1000}".to_owned(), r"\pL".repeat(2000), "a".repeat(10_000)]
        {
            assert_eq!(Pattern::new(&pattern).unwrap_err(), "error parsing regexp: expression too large");
        }
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
