//! From Go's syntax of regular expressions to that of `regex-syntax`.
//!
//! The two syntaxes differ in the meaning of `\d`, `\w`, `\s` and `\b` (ASCII in Go), in literal characters (`{` without a
//! number after it, `[` and `&&` in a class), quotes (`\Q…\E`), octal numbers, and repetitions of repetitions. All other
//! text is copied, and the parser of regex-syntax reports its errors.

use regex_syntax::is_meta_character;

/// How often Go repeats at most.
const MAX_REPEAT: u32 = 1000;
/// What stands between `[:` and `:]`; anything else would be a class of its letters.
const POSIX_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// An expression of Go in the other syntax.
///
/// # Errors
/// What is wrong with it, as far as the other parser would take it.
pub(super) fn translate(text: &str) -> Result<String, String> {
    let mut translator = Translator { rest: text, out: String::with_capacity(text.len() + 16) };
    translator.all()?;
    Ok(translator.out)
}

struct Translator<'a> {
    rest: &'a str,
    out: String,
}

impl<'a> Translator<'a> {
    fn next(&mut self) -> Option<char> {
        let mut letters = self.rest.chars();
        let letter = letters.next();
        self.rest = letters.as_str();
        letter
    }

    fn skip(&mut self, prefix: &str) -> bool {
        let behind = self.rest.strip_prefix(prefix);
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }

    /// What stands before a mark, behind which it goes on.
    fn until(&mut self, mark: &str) -> Option<&'a str> {
        let (before, behind) = self.rest.split_once(mark)?;
        self.rest = behind;
        Some(before)
    }

    fn all(&mut self) -> Result<(), String> {
        let mut is_repeated = false;
        while let Some(letter) = self.next() {
            let repetition = match letter {
                '*' | '+' | '?' => Some(letter.to_string()),
                '{' => self.count()?,
                _ => None,
            };
            if let Some(repetition) = repetition {
                if is_repeated {
                    return Err(format!("invalid nested repetition operator: `{repetition}`"));
                }
                self.out.push_str(&repetition);
                if self.skip("?") {
                    self.out.push('?');
                }
                is_repeated = true;
                continue;
            }
            is_repeated = false;
            match letter {
                '{' => self.out.push_str("\\{"),
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                other => self.out.push(other),
            }
        }
        Ok(())
    }

    /// The numbers behind a brace, if there are some.
    fn count(&mut self) -> Result<Option<String>, String> {
        let Some((inner, behind)) = self.rest.split_once('}') else { return Ok(None) };
        let (min, max) = inner.split_once(',').unwrap_or((inner, inner));
        let is_number = |text: &str| {
            let has_zero = text.len() > 1 && text.starts_with('0');
            !text.is_empty() && !has_zero && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !is_number(min) || !(max.is_empty() || is_number(max)) {
            return Ok(None);
        }
        let number = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
        let most = if max.is_empty() { number(min) } else { number(max) };
        if number(min) > most || most > MAX_REPEAT {
            return Err(format!("invalid repeat count: `{{{inner}}}`"));
        }
        self.rest = behind;
        Ok(Some(format!("{{{inner}}}")))
    }

    fn group(&mut self) -> Result<(), String> {
        self.out.push('(');
        if !self.skip("?") {
            return Ok(());
        }
        self.out.push('?');
        if self.rest.starts_with('<') || self.rest.starts_with("P<") {
            let name = self.until(">").ok_or("invalid named capture")?;
            self.out.push_str(name);
            self.out.push('>');
            return Ok(());
        }
        let flags = self.rest.find([':', ')']).unwrap_or(self.rest.len());
        let (flags, behind) = self.rest.split_at(flags);
        if flags.contains(|flag| !matches!(flag, 'i' | 'm' | 's' | 'U' | '-')) {
            return Err(format!("invalid or unsupported Perl syntax: `(?{flags}`"));
        }
        self.out.push_str(flags);
        self.rest = behind;
        Ok(())
    }

    /// Translates an escape sequence outside of a class.
    fn escape(&mut self) -> Result<(), String> {
        let before = self.rest;
        let letter = self.next().ok_or("trailing backslash at end of expression")?;
        match letter {
            'A' | 'z' => self.out.extend(['\\', letter]),
            'b' => self.out.push_str(r"(?-u:\b)"),
            'B' => self.out.push_str(r"(?-u:\B)"),
            'C' => self.out.push_str("(?s-u:.)"),
            'Q' => {
                let quoted = self.until("\\E").unwrap_or_else(|| std::mem::take(&mut self.rest));
                regex_syntax::escape_into(quoted, &mut self.out);
            }
            letter => {
                if let Some((is_negated, letters)) = perl_class(letter) {
                    self.out.push_str(if is_negated { "[^" } else { "[" });
                    self.out.push_str(letters);
                    self.out.push(']');
                } else if matches!(letter, 'p' | 'P') {
                    self.unicode(letter)?;
                } else {
                    self.rest = before;
                    let letter = self.escaped()?;
                    if is_meta_character(letter) {
                        self.out.push('\\');
                    }
                    self.out.push(letter);
                }
            }
        }
        Ok(())
    }

    /// The character that an escape sequence stands for.
    fn escaped(&mut self) -> Result<char, String> {
        let whole = self.rest;
        let fault = |rest: &str| {
            let part = &whole[..whole.len() - rest.len()];
            format!("invalid escape sequence: `\\{part}`")
        };
        let letter = self.next().ok_or("trailing backslash at end of expression")?;
        let code = match letter {
            'a' => 7,
            'f' => 0xc,
            'n' => 0xa,
            'r' => 0xd,
            't' => 9,
            'v' => 0xb,
            'x' => {
                let digits = match self.skip("{") {
                    true => self.until("}").ok_or_else(|| fault(self.rest))?,
                    false => {
                        let (digits, behind) =
                            self.rest.split_at_checked(2).ok_or_else(|| fault(self.rest))?;
                        self.rest = behind;
                        digits
                    }
                };
                let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                let code = is_number.then(|| u32::from_str_radix(digits, 16).ok()).flatten();
                code.ok_or_else(|| fault(self.rest))?
            }
            '0'..='7' => {
                let more = self.rest.bytes().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                if letter != '0' && more == 0 {
                    return Err(fault(self.rest));
                }
                self.rest = &self.rest[more..];
                u32::from_str_radix(&whole[..=more], 8).unwrap_or(u32::MAX)
            }
            sign if sign.is_ascii() && !sign.is_ascii_alphanumeric() => sign.into(),
            _ => return Err(fault(self.rest)),
        };
        char::from_u32(code).ok_or_else(|| fault(self.rest))
    }

    /// `\pL`, `\p{Greek}`, `\p{^Greek}`.
    fn unicode(&mut self, sign: char) -> Result<(), String> {
        let name = match self.skip("{") {
            true => self.until("}").ok_or("invalid character class range")?,
            false => {
                let before = self.rest;
                self.next();
                &before[..before.len() - self.rest.len()]
            }
        };
        let (turns, name) = name.strip_prefix('^').map_or((false, name), |name| (true, name));
        let sign = if turns == (sign == 'p') { 'P' } else { 'p' };
        self.out.push_str(&format!("\\{sign}{{{name}}}"));
        Ok(())
    }

    /// A class, behind its first bracket: each letter is written so that it can be nothing else.
    fn class(&mut self) -> Result<(), String> {
        let unclosed = || "missing closing ]".to_owned();
        self.out.push('[');
        if self.skip("^") {
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            if !is_first && self.skip("]") {
                self.out.push(']');
                return Ok(());
            }
            is_first = false;
            if let Some((name, behind)) = self.rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]"))
            {
                if !POSIX_CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
                    return Err(format!("invalid character class range: `[:{name}:]`"));
                }
                self.out.push_str(&format!("[:{name}:]"));
                self.rest = behind;
                continue;
            }
            if let Some(behind) = self.rest.strip_prefix('\\') {
                let letter = behind.chars().next().ok_or_else(unclosed)?;
                let class = perl_class(letter);
                if class.is_some() || matches!(letter, 'p' | 'P') {
                    self.rest = &behind[1..];
                    match class {
                        Some((true, letters)) => self.out.push_str(&format!("[^{letters}]")),
                        Some((false, letters)) => self.out.push_str(letters),
                        None => self.unicode(letter)?,
                    }
                    continue;
                }
            }
            let first = self.class_letter()?.ok_or_else(unclosed)?;
            self.out.push_str(&format!("\\x{{{:x}}}", u32::from(first)));
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest.len() > 1 {
                self.next();
                let last = self.class_letter()?.ok_or_else(unclosed)?;
                self.out.push_str(&format!("-\\x{{{:x}}}", u32::from(last)));
            }
        }
    }

    fn class_letter(&mut self) -> Result<Option<char>, String> {
        if self.skip("\\") { self.escaped().map(Some) } else { Ok(self.next()) }
    }
}

/// Whether a class such as `\d` is negated, and the letters that it is of.
fn perl_class(letter: char) -> Option<(bool, &'static str)> {
    let letters = match letter.to_ascii_lowercase() {
        'd' => "0-9",
        's' => r"\t\n\f\r ",
        'w' => "0-9A-Za-z_",
        _ => return None,
    };
    Some((letter.is_ascii_uppercase(), letters))
}
