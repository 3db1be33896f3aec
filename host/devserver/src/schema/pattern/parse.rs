//! From the text of a regular expression to a tree, in the syntax of Go's `regexp` and with its errors.
//!
//! The parser keeps its own stack of open groups, so that no expression can exhaust the thread's; the tree it makes is at
//! most [`MAX_DEPTH`] levels deep. What it does is bounded by the length of the text and by [`MAX_WORK`].

use super::classes::{ClassId, Classes, LetterRange, negated, perl, posix, unicode};

/// How many levels the tree of an expression may have; Go takes a thousand.
const MAX_DEPTH: u32 = 250;
/// How often Go repeats at most, repetitions in one another multiplied.
const MAX_REPEAT: u64 = 1000;
/// How much the classes of an expression may cost.
const MAX_WORK: usize = 1 << 20;

/// A part of an expression.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) kind: TreeKind,
    depth: u32,
    /// How often the most repeated part of it stands there.
    copies: u64,
}

#[derive(Debug)]
pub(super) enum TreeKind {
    Letter(ClassId),
    Look(Look),
    Concat(Vec<Tree>),
    Alternate(Vec<Tree>),
    Repeat { tree: Box<Tree>, min: u32, max: Option<u32> },
}

/// What may be asked of a place between letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    TextStart,
    TextEnd,
    LineStart,
    LineEnd,
    WordBoundary,
    NoWordBoundary,
}

/// What a parsed expression is made of.
pub(super) struct Parsed {
    pub(super) tree: Tree,
    pub(super) classes: Classes,
}

/// Parses an expression.
///
/// # Errors
/// What Go says of one that it does not take, without its first words.
pub(super) fn parse(text: &str) -> Result<Parsed, String> {
    let root = Group::default();
    let mut parser = Parser {
        text,
        rest: text,
        flags: Flags::default(),
        groups: Vec::new(),
        group: root,
        classes: Classes::default(),
    };
    parser.all()?;
    if !parser.groups.is_empty() {
        return Err(error("missing closing )", text));
    }
    let tree = std::mem::take(&mut parser.group).finish();
    parser.check(&tree)?;
    Ok(Parsed { tree, classes: parser.classes })
}

fn error(code: &str, part: &str) -> String {
    format!("{code}: `{part}`")
}

/// What `(?ims)` switch on.
#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    fold_case: bool,
    multi_line: bool,
    dot_takes_newline: bool,
}

/// An open group.
#[derive(Debug, Default)]
struct Group {
    /// What held before it.
    flags: Flags,
    branches: Vec<Tree>,
    /// Of the last branch.
    parts: Vec<Tree>,
}

impl Group {
    fn branch(&mut self) {
        let mut parts = std::mem::take(&mut self.parts);
        let tree = match parts.pop() {
            Some(only) if parts.is_empty() => only,
            last => {
                parts.extend(last);
                Tree::over(parts, TreeKind::Concat)
            }
        };
        self.branches.push(tree);
    }

    fn finish(mut self) -> Tree {
        self.branch();
        match self.branches.pop() {
            Some(only) if self.branches.is_empty() => only,
            last => {
                self.branches.extend(last);
                Tree::over(self.branches, TreeKind::Alternate)
            }
        }
    }
}

impl Tree {
    fn leaf(kind: TreeKind) -> Self {
        Self { kind, depth: 1, copies: 1 }
    }

    fn over(parts: Vec<Self>, kind: fn(Vec<Self>) -> TreeKind) -> Self {
        let depth = 1 + parts.iter().map(|part| part.depth).max().unwrap_or(0);
        let copies = parts.iter().map(|part| part.copies).max().unwrap_or(1);
        Self { kind: kind(parts), depth, copies }
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    flags: Flags,
    /// The groups around the current one.
    groups: Vec<Group>,
    group: Group,
    classes: Classes,
}

impl<'a> Parser<'a> {
    /// What was read since the rest was this.
    fn since(&self, before: &'a str) -> &'a str {
        &before[..before.len() - self.rest.len()]
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.rest.chars().next()?;
        self.rest = &self.rest[letter.len_utf8()..];
        Some(letter)
    }

    fn take(&mut self, prefix: &str) -> bool {
        let Some(behind) = self.rest.strip_prefix(prefix) else { return false };
        self.rest = behind;
        true
    }

    fn check(&self, tree: &Tree) -> Result<(), String> {
        if tree.depth > MAX_DEPTH || self.groups.len() > MAX_DEPTH as usize {
            return Err(error("expression nests too deeply", self.text));
        }
        if self.classes.work > MAX_WORK {
            return Err(error("expression too large", self.text));
        }
        Ok(())
    }

    fn push(&mut self, tree: Tree) -> Result<(), String> {
        self.check(&tree)?;
        self.group.parts.push(tree);
        Ok(())
    }

    fn class(&mut self, ranges: Vec<LetterRange>) -> Result<(), String> {
        let class = self.classes.of(ranges);
        self.push(Tree::leaf(TreeKind::Letter(class)))
    }

    fn literal(&mut self, letter: char) -> Result<(), String> {
        self.code_point(u32::from(letter))
    }

    fn code_point(&mut self, letter: u32) -> Result<(), String> {
        let ranges = self.fold(vec![(letter, letter)]);
        self.class(ranges)
    }

    fn fold(&mut self, ranges: Vec<LetterRange>) -> Vec<LetterRange> {
        if self.flags.fold_case { self.classes.folded(ranges) } else { ranges }
    }

    fn look(&mut self, look: Look) -> Result<(), String> {
        self.push(Tree::leaf(TreeKind::Look(look)))
    }

    fn all(&mut self) -> Result<(), String> {
        // From where the repetition was read that stands right before.
        let mut last_repeat: Option<&'a str> = None;
        loop {
            let before = self.rest;
            let mut repeat = None;
            let Some(letter) = self.next() else { return Ok(()) };
            match letter {
                '(' if self.rest.starts_with('?') => {
                    self.rest = before;
                    self.flags_or_group()?;
                }
                '(' => self.open(self.flags)?,
                '|' => self.group.branch(),
                ')' => self.close()?,
                '^' if self.flags.multi_line => self.look(Look::LineStart)?,
                '^' => self.look(Look::TextStart)?,
                '$' if self.flags.multi_line => self.look(Look::LineEnd)?,
                '$' => self.look(Look::TextEnd)?,
                '.' if self.flags.dot_takes_newline => self.class(negated(Vec::new()))?,
                '.' => self.class(negated(vec![(10, 10)]))?,
                '[' => self.bracket(before)?,
                '*' | '+' | '?' => {
                    let (min, max) = match letter {
                        '*' => (0, None),
                        '+' => (1, None),
                        _ => (0, Some(1)),
                    };
                    self.repeat(min, max, before, last_repeat)?;
                    repeat = Some(before);
                }
                '{' => match self.bounds(before)? {
                    Some((min, max)) => {
                        let numbers = self.since(before);
                        self.repeat(min, max, before, last_repeat)?;
                        self.check_copies(numbers, min, max)?;
                        repeat = Some(before);
                    }
                    None => self.literal('{')?,
                },
                '\\' => self.backslash(before)?,
                other => self.literal(other)?,
            }
            last_repeat = repeat;
        }
    }

    fn open(&mut self, inside: Flags) -> Result<(), String> {
        let group = Group { flags: self.flags, branches: Vec::new(), parts: Vec::new() };
        self.groups.push(std::mem::replace(&mut self.group, group));
        self.flags = inside;
        if self.groups.len() > MAX_DEPTH as usize {
            return Err(error("expression nests too deeply", self.text));
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        let Some(around) = self.groups.pop() else { return Err(error("unexpected )", self.text)) };
        let group = std::mem::replace(&mut self.group, around);
        self.flags = group.flags;
        let tree = group.finish();
        // A group is a level, even if it has but one part.
        self.push(Tree { depth: tree.depth + 1, ..tree })
    }

    /// What begins with `(?`: a named group, flags, or a group with flags.
    fn flags_or_group(&mut self) -> Result<(), String> {
        const PERL: &str = "invalid or unsupported Perl syntax";
        let before = self.rest;
        let is_named = |prefix: &str| before.len() > prefix.len() && before.starts_with(prefix);
        if let Some(prefix) = ["(?P<", "(?<"].into_iter().find(|prefix| is_named(prefix)) {
            let Some(end) = before.find('>') else { return Err(error("invalid named capture", before)) };
            let name = before.get(prefix.len()..end).unwrap_or_default();
            if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
                return Err(error("invalid named capture", &before[..=end]));
            }
            self.rest = &before[end + 1..];
            return self.open(self.flags);
        }
        self.rest = &before[2..];
        let mut flags = self.flags;
        let (mut on, mut has_flag) = (true, false);
        while let Some(letter) = self.next() {
            match letter {
                'i' => flags.fold_case = on,
                'm' => flags.multi_line = on,
                's' => flags.dot_takes_newline = on,
                // Which of several matches is found does not matter here.
                'U' => {}
                '-' if on => {
                    (on, has_flag) = (false, false);
                    continue;
                }
                ':' | ')' if on || has_flag => {
                    if letter == ':' {
                        return self.open(flags);
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => return Err(error(PERL, self.since(before))),
            }
            has_flag = true;
        }
        Err(error(PERL, before))
    }

    /// The numbers of `{2,3}`, behind the brace; `None` if it is a letter like any other.
    fn bounds(&mut self, before: &'a str) -> Result<Option<(u32, Option<u32>)>, String> {
        let inside = self.rest;
        // A number, or `None` if none stands there; too large ones are all the same.
        let number = |parser: &mut Self| -> Option<u32> {
            let digits = parser.rest.bytes().take_while(u8::is_ascii_digit).count();
            let (text, behind) = parser.rest.split_at(digits);
            if text.is_empty() || text.len() > 1 && text.starts_with('0') {
                return None;
            }
            parser.rest = behind;
            Some(text.parse().unwrap_or(u32::MAX))
        };
        let read = number(self).and_then(|min| {
            let max = match self.take(",") {
                false => Some(Some(min)),
                true if self.rest.starts_with('}') => Some(None),
                true => number(self).map(Some),
            };
            max.filter(|_| self.take("}")).map(|max| (min, max))
        });
        let Some((min, max)) = read else {
            self.rest = inside;
            return Ok(None);
        };
        let is_large = |n: u32| u64::from(n) > MAX_REPEAT;
        if is_large(min) || max.is_some_and(|max| is_large(max) || min > max) {
            return Err(error("invalid repeat count", self.since(before)));
        }
        Ok(Some((min, max)))
    }

    /// Repeats what stands before; `before` begins with the repetition.
    fn repeat(
        &mut self,
        min: u32,
        max: Option<u32>,
        before: &'a str,
        last: Option<&'a str>,
    ) -> Result<(), String> {
        self.take("?");
        if let Some(last) = last {
            return Err(error("invalid nested repetition operator", self.since(last)));
        }
        let Some(tree) = self.group.parts.pop() else {
            return Err(error("missing argument to repetition operator", self.since(before)));
        };
        // The stars of Perl are not counted, as in Go.
        let times = match (before.starts_with('{'), max) {
            (false, _) => 1,
            (true, Some(max)) => u64::from(max),
            (true, None) => u64::from(min.max(1)),
        };
        let copies = if times == 0 { 1 } else { tree.copies.saturating_mul(times) };
        let depth = tree.depth + 1;
        self.push(Tree { kind: TreeKind::Repeat { tree: Box::new(tree), min, max }, depth, copies })
    }

    /// Whether repetitions in one another are not too many together.
    fn check_copies(&self, numbers: &str, min: u32, max: Option<u32>) -> Result<(), String> {
        let copies = self.group.parts.last().map_or(1, |tree| tree.copies);
        if (min >= 2 || max.is_some_and(|max| max >= 2)) && copies > MAX_REPEAT {
            return Err(error("invalid repeat count", numbers));
        }
        Ok(())
    }

    /// What begins with a backslash, outside of a class.
    fn backslash(&mut self, before: &'a str) -> Result<(), String> {
        let look = match self.rest.chars().next() {
            Some('A') => Some(Look::TextStart),
            Some('z') => Some(Look::TextEnd),
            Some('b') => Some(Look::WordBoundary),
            Some('B') => Some(Look::NoWordBoundary),
            _ => None,
        };
        if let Some(look) = look {
            self.next();
            return self.look(look);
        }
        if self.take("Q") {
            let (quoted, behind) = self.rest.split_once(r"\E").unwrap_or((self.rest, ""));
            self.rest = behind;
            return quoted.chars().try_for_each(|letter| self.literal(letter));
        }
        self.rest = before;
        if let Some(ranges) = self.named_class()? {
            return self.class(ranges);
        }
        let letter = self.escape()?;
        self.code_point(letter)
    }

    /// `\p{Greek}`, `\pL`, `\d`; nothing is read if it is none of these.
    fn named_class(&mut self) -> Result<Option<Vec<LetterRange>>, String> {
        let before = self.rest;
        let Some(letter) = before.strip_prefix('\\').and_then(|rest| rest.chars().next()) else {
            return Ok(None);
        };
        if let Some(ranges) = perl(letter) {
            self.rest = &before[2..];
            return Ok(Some(self.group_of_letters(ranges, letter.is_ascii_uppercase())));
        }
        if !matches!(letter, 'p' | 'P') {
            return Ok(None);
        }
        self.rest = &before[2..];
        let name = if self.rest.starts_with('{') {
            let Some(end) = before.find('}') else {
                return Err(error("invalid character class range", before));
            };
            self.rest = &before[end + 1..];
            &before[3..end]
        } else {
            self.next();
            &self.since(before)[2..]
        };
        let (is_negated, name) = match name.strip_prefix('^') {
            Some(name) => (letter == 'p', name),
            None => (letter == 'P', name),
        };
        let Some(ranges) = unicode(name) else {
            return Err(error("invalid character class range", self.since(before)));
        };
        self.classes.work += ranges.len();
        let ranges = self.fold(ranges);
        Ok(Some(if is_negated { negated(ranges) } else { ranges }))
    }

    fn group_of_letters(&mut self, ranges: &[(char, char)], is_negated: bool) -> Vec<LetterRange> {
        let ranges = ranges.iter().map(|(first, last)| (u32::from(*first), u32::from(*last))).collect();
        let ranges = self.fold(ranges);
        if is_negated { negated(ranges) } else { ranges }
    }

    /// The letter that a backslash and what follows it stand for.
    fn escape(&mut self) -> Result<u32, String> {
        let before = self.rest;
        self.next();
        let Some(letter) = self.next() else {
            return Err(error("trailing backslash at end of expression", ""));
        };
        let is_octal = |c: char| ('0'..='7').contains(&c);
        match letter {
            // A digit alone would name a group, which Go does not have.
            '1'..='7' if !self.rest.starts_with(is_octal) => {}
            '0'..='7' => {
                let mut value = u32::from(letter) - u32::from('0');
                for _ in 1..3 {
                    let Some(digit) = self.rest.chars().next().filter(|c| is_octal(*c)) else { break };
                    self.next();
                    value = value * 8 + (u32::from(digit) - u32::from('0'));
                }
                return Ok(value);
            }
            'x' => {
                if let Some(value) = self.hexadecimal() {
                    return Ok(value);
                }
            }
            'a' => return Ok(7),
            'f' => return Ok(12),
            'n' => return Ok(10),
            'r' => return Ok(13),
            't' => return Ok(9),
            'v' => return Ok(11),
            other if other.is_ascii() && !other.is_ascii_alphanumeric() => return Ok(u32::from(other)),
            _ => {}
        }
        Err(error("invalid escape sequence", self.since(before)))
    }

    /// What follows `\x`: two digits, or any number of them in braces.
    fn hexadecimal(&mut self) -> Option<u32> {
        let first = self.next()?;
        if first != '{' {
            let second = self.next();
            return Some(first.to_digit(16)? * 16 + second?.to_digit(16)?);
        }
        let mut value = None;
        loop {
            let letter = self.next()?;
            if letter == '}' {
                return value;
            }
            let next = value.unwrap_or(0) * 16 + letter.to_digit(16)?;
            value = Some(next).filter(|value| *value <= 0x10_FFFF);
            value?;
        }
    }

    /// A class in brackets, behind the first; `whole` begins with it.
    fn bracket(&mut self, whole: &'a str) -> Result<(), String> {
        let is_negated = self.take("^");
        let mut ranges: Vec<LetterRange> = Vec::new();
        let mut is_first = true;
        while is_first || !self.rest.starts_with(']') {
            is_first = false;
            if let Some(named) = self.posix_class()? {
                ranges.extend(named);
            } else if let Some(named) = self.named_class()? {
                ranges.extend(named);
            } else {
                let range = self.letter_range(whole)?;
                ranges.extend(self.fold(vec![range]));
            }
            self.classes.work += 1;
            if self.classes.work > MAX_WORK || ranges.len() > MAX_WORK {
                return Err(error("expression too large", self.text));
            }
        }
        self.next();
        self.class(if is_negated { negated(ranges) } else { ranges })
    }

    /// `[:alpha:]`; nothing is read if it is none.
    fn posix_class(&mut self) -> Result<Option<Vec<LetterRange>>, String> {
        let before = self.rest;
        let Some((name, behind)) = before.strip_prefix("[:").and_then(|rest| rest.split_once(":]")) else {
            return Ok(None);
        };
        self.rest = behind;
        let (is_negated, name) = name.strip_prefix('^').map_or((false, name), |name| (true, name));
        match posix(name) {
            Some(ranges) => Ok(Some(self.group_of_letters(ranges, is_negated))),
            None => Err(error("invalid character class range", self.since(before))),
        }
    }

    fn letter_range(&mut self, whole: &'a str) -> Result<LetterRange, String> {
        let before = self.rest;
        let first = self.class_letter(whole)?;
        // A dash at the end is a letter.
        let is_range =
            self.rest.strip_prefix('-').is_some_and(|rest| !rest.is_empty() && !rest.starts_with(']'));
        if !is_range {
            return Ok((first, first));
        }
        self.next();
        let last = self.class_letter(whole)?;
        if last < first {
            return Err(error("invalid character class range", self.since(before)));
        }
        Ok((first, last))
    }

    fn class_letter(&mut self, whole: &'a str) -> Result<u32, String> {
        if self.rest.starts_with('\\') {
            return self.escape();
        }
        self.next().map(u32::from).ok_or_else(|| error("missing closing ]", whole))
    }
}
