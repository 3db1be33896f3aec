//! Label selectors in the API's text form: `app=web,tier in (a,b),!legacy,env!=prod,size>3`.
//!
//! Matching follows the server: `!=` and `notin` also match objects without the label, all requirements must hold,
//! and the empty selector matches everything.

use std::fmt;
use std::str::FromStr;

use crate::object::Object;

/// A parsed label selector; the default matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LabelRequirement {
    label: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Operator {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

/// Why a text is not a label selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid label selector {text:?}: {reason}")]
pub struct LabelSelectorError {
    text: String,
    reason: String,
}

impl LabelSelector {
    /// Whether the selector has no requirement.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Labels that every object has which matches, each with its possible values; none if it may have any value.
    pub fn required(&self) -> impl Iterator<Item = (&str, Option<&[String]>)> {
        self.requirements.iter().filter_map(|r| match &r.operator {
            Operator::In(values) => Some((r.label.as_str(), Some(values.as_slice()))),
            Operator::Exists | Operator::Greater(_) | Operator::Less(_) => Some((r.label.as_str(), None)),
            Operator::Absent | Operator::NotIn(_) => None,
        })
    }

    /// Whether the object's labels meet every requirement.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        self.matches_with(|label| object.label(label))
    }

    /// Whether labels meet every requirement; `label` returns the value of a label by name.
    pub fn matches_with<S: AsRef<str>>(&self, label: impl Fn(&str) -> Option<S>) -> bool {
        self.requirements.iter().all(|r| {
            let value = label(&r.label);
            let value = value.as_ref().map(AsRef::as_ref);
            match &r.operator {
                Operator::Exists => value.is_some(),
                Operator::Absent => value.is_none(),
                Operator::In(values) => value.is_some_and(|v| values.iter().any(|x| x == v)),
                Operator::NotIn(values) => value.is_none_or(|v| values.iter().all(|x| x != v)),
                Operator::Greater(bound) => number(value).is_some_and(|v| v > *bound),
                Operator::Less(bound) => number(value).is_some_and(|v| v < *bound),
            }
        })
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

impl FromStr for LabelSelector {
    type Err = LabelSelectorError;

    fn from_str(text: &str) -> Result<Self, LabelSelectorError> {
        let mut parser = Parser { rest: text };
        parser.selector().map_err(|reason| LabelSelectorError { text: text.to_owned(), reason })
    }
}

struct Parser<'a> {
    rest: &'a str,
}

#[derive(Debug, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Sign(&'static str),
    End,
}

const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

impl<'a> Parser<'a> {
    fn next(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start_matches(is_space);
        if self.rest.is_empty() {
            return Token::End;
        }
        for sign in SIGNS {
            if let Some(rest) = self.rest.strip_prefix(sign) {
                self.rest = rest;
                return Token::Sign(sign);
            }
        }
        let end = self
            .rest
            .find(|c: char| is_space(c) || matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<'))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Token::Word(word)
    }

    fn peek(&self) -> Token<'a> {
        Parser { rest: self.rest }.next()
    }

    fn selector(&mut self) -> Result<LabelSelector, String> {
        let mut requirements = Vec::new();
        if self.peek() == Token::End {
            return Ok(LabelSelector::default());
        }
        loop {
            requirements.push(self.requirement()?);
            match self.next() {
                Token::End => return Ok(LabelSelector { requirements }),
                Token::Sign(",") => {}
                other => return Err(format!("found {other}, expected a comma or the end")),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        match self.next() {
            Token::Sign("!") => match self.next() {
                Token::Word(label) => requirement(label, Operator::Absent),
                other => Err(format!("found {other} after \"!\", expected a label name")),
            },
            Token::Word(label) => {
                let operator = match self.peek() {
                    Token::End | Token::Sign(",") => Operator::Exists,
                    Token::Sign("=" | "==") => self.skip(|p| Ok(Operator::In(vec![p.value()?])))?,
                    Token::Sign("!=") => self.skip(|p| Ok(Operator::NotIn(vec![p.value()?])))?,
                    Token::Sign(">") => self.skip(|p| Ok(Operator::Greater(p.integer()?)))?,
                    Token::Sign("<") => self.skip(|p| Ok(Operator::Less(p.integer()?)))?,
                    Token::Word("in") => self.skip(|p| Ok(Operator::In(p.values()?)))?,
                    Token::Word("notin") => self.skip(|p| Ok(Operator::NotIn(p.values()?)))?,
                    other => return Err(format!("found {other} after {label:?}, expected an operator")),
                };
                requirement(label, operator)
            }
            other => Err(format!("found {other}, expected a label name")),
        }
    }

    fn skip<T>(&mut self, then: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        self.next();
        then(self)
    }

    /// One value; empty when a comma, a closing parenthesis or the end comes first.
    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::Word(word) => {
                self.next();
                check_value(word)?;
                Ok(word.to_owned())
            }
            Token::End | Token::Sign("," | ")") => Ok(String::new()),
            other => Err(format!("found {other}, expected a value")),
        }
    }

    fn integer(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        value.parse().map_err(|_| format!("{value:?} is not an integer, which \">\" and \"<\" compare"))
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Sign("(") => {}
            other => return Err(format!("found {other}, expected \"(\"")),
        }
        let mut values = vec![self.value()?];
        loop {
            match self.next() {
                Token::Sign(",") => values.push(self.value()?),
                Token::Sign(")") => return Ok(values),
                other => return Err(format!("found {other}, expected a comma or \")\"")),
            }
        }
    }
}

fn requirement(label: &str, operator: Operator) -> Result<LabelRequirement, String> {
    if !is_qualified_name(label) {
        return Err(format!(
            "{label:?} is not a label name: [DNS-PREFIX/]NAME, NAME of 63 letters, digits, -, _ or ."
        ));
    }
    Ok(LabelRequirement { label: label.to_owned(), operator })
}

/// Whether a text is a valid name of a label or an annotation: `[DNS-PREFIX/]NAME`. The server also accepts capital
/// letters in the prefix of an annotation; this function does not.
#[must_use]
pub fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = text.rsplit_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_dns_subdomain) && !name.is_empty() && is_qualified(name)
}

/// The characters that the server treats as white space.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Whether a text is a DNS subdomain (RFC 1123) as the server checks names of most objects: at most 253 bytes,
/// dot-separated labels of lower-case letters, digits and `-`, with a letter or digit at both ends.
#[must_use]
pub fn is_dns_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

fn check_value(value: &str) -> Result<(), String> {
    if is_qualified(value) {
        return Ok(());
    }
    Err(format!(
        "{value:?} is not a label value: at most 63 letters, digits, -, _ or ., a letter or digit at both ends"
    ))
}

fn is_qualified(text: &str) -> bool {
    text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && text.bytes().next().is_none_or(|b| b.is_ascii_alphanumeric())
        && text.bytes().last().is_none_or(|b| b.is_ascii_alphanumeric())
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "{word:?}"),
            Self::Sign(sign) => write!(f, "{sign:?}"),
            Self::End => f.write_str("the end"),
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, LabelRequirement { label, operator }) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match operator {
                Operator::Exists => f.write_str(label)?,
                Operator::Absent => write!(f, "!{label}")?,
                Operator::In(values) => match values.as_slice() {
                    [value] => write!(f, "{label}={value}")?,
                    values => write!(f, "{label} in ({})", values.join(","))?,
                },
                Operator::NotIn(values) => match values.as_slice() {
                    [value] => write!(f, "{label}!={value}")?,
                    values => write!(f, "{label} notin ({})", values.join(","))?,
                },
                Operator::Greater(bound) => write!(f, "{label}>{bound}")?,
                Operator::Less(bound) => write!(f, "{label}<{bound}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str) -> bool {
        let labels = [("app", "web"), ("tier", "front"), ("size", "5"), ("example.com/x", ""), ("in", "y")];
        let selector: LabelSelector = selector.parse().unwrap();
        selector.matches_with(|name| labels.iter().find(|(n, _)| *n == name).map(|(_, v)| *v))
    }

    #[test]
    fn every_operator_matches_as_the_server_does() {
        for yes in [
            "",
            "app",
            "app=web",
            "app == web",
            "app!=x",
            "none!=x",
            "none notin (a, b)",
            "!none",
            "app in (web,db),tier notin (back)",
            "size>4,size<6",
            "example.com/x=",
            "example.com/x in (,a)",
            "example.com/x in ()",
            "in=y",
        ] {
            assert!(matches(yes), "{yes}");
        }
        for no in
            ["none", "app=db", "!app", "app notin (web)", "size>5", "app>1", "none<9", "app=web,tier=back"]
        {
            assert!(!matches(no), "{no}");
        }
    }

    #[test]
    fn labels_that_may_be_absent_are_not_required() {
        let selector: LabelSelector =
            "app=web,tier in (a,b),x,size>4,!old,env!=prod,y notin (z)".parse().unwrap();
        let required: Vec<_> =
            selector.required().map(|(name, values)| (name, values.map(<[_]>::len))).collect();
        assert_eq!(required, [("app", Some(1)), ("tier", Some(2)), ("x", None), ("size", None)]);
    }

    #[test]
    fn malformed_selectors_are_refused_by_reason() {
        for (text, reason) in [
            ("app=web,", "label name"),
            ("app in web", "\"(\""),
            ("app in (web", "\")\""),
            ("=web", "label name"),
            ("app web", "operator"),
            ("-app", "not a label name"),
            ("app=a b", "comma"),
            ("app=-x", "not a label value"),
            ("size>x", "not an integer"),
            ("-x/app", "not a label name"),
            ("x..y/app", "not a label name"),
        ] {
            let error = text.parse::<LabelSelector>().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn only_what_the_server_takes_for_space_is_space() {
        assert!("\tapp =\r\nweb ".parse::<LabelSelector>().is_ok());
        assert!("app\u{a0}".parse::<LabelSelector>().is_err());
    }

    #[test]
    fn prints_what_it_parsed() {
        let text = "app=web,tier in (a,b),!legacy,env!=prod,x notin (a,b),size>3,y<2,z";
        assert_eq!(text.parse::<LabelSelector>().unwrap().to_string(), text);
    }
}
