//! Two values as lines, with what they have in common cut down to a few lines.

use pilothouse_plugin::printable;
use serde_json::Value;

use crate::format::Import;

/// Lines around a difference.
const CONTEXT: usize = 3;

/// Most lines of each side.
const MAX_LINES: usize = 60;

/// Bytes of a line before and after the place where it differs.
const AROUND: usize = 80;

/// Bytes of an import in one line.
const ONE_LINE: usize = 160;

/// An import in one line.
pub(super) fn one_line(import: &Import) -> String {
    let text = match (&*import.op, import.args.get("message").and_then(Value::as_str)) {
        ("log", Some(message)) => format!("log: {message}"),
        (op, _) if import.args.is_null() => op.to_owned(),
        (op, _) => format!("{op} {}", import.args),
    };
    cut(&text, 0, ONE_LINE)
}

/// A part of a text, with marks where more was.
fn cut(text: &str, from: usize, to: usize) -> String {
    let (from, to) = (text.floor_char_boundary(from), text.floor_char_boundary(to));
    let before = if from > 0 { "…" } else { "" };
    let after = if to < text.len() { "…" } else { "" };
    format!("{before}{}{after}", &text[from..to])
}

/// Bodies become what their text says, so that they are shown member by member.
fn opened(value: &Value) -> Value {
    match value {
        Value::Array(values) => values.iter().map(opened).collect(),
        Value::Object(members) => match members.get("json").and_then(Value::as_str) {
            Some(text) => serde_json::from_str(text).unwrap_or_else(|_| value.clone()),
            None => members.iter().map(|(name, value)| (name.clone(), opened(value))).collect(),
        },
        other => other.clone(),
    }
}

fn lines(value: &Value) -> Vec<String> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.lines().map(printable).collect()
}

/// The lines in which two values differ: with `-` those of the first, with `+` those of the second.
pub(super) fn diff(then: &Value, now: &Value) -> Vec<String> {
    let (mut old, mut new) = (lines(&opened(then)), lines(&opened(now)));
    if old == new {
        // The texts of bodies differ where their values do not, as by the order of members.
        (old, new) = (lines(then), lines(now));
    }
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let (old_part, new_part) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    let mut out = Vec::new();
    let before = start.saturating_sub(CONTEXT);
    if before > 0 {
        out.push("  …".to_owned());
    }
    out.extend(old[before..start].iter().map(|line| format!("  {}", cut(line, 0, 2 * AROUND))));
    let mut side = |sign: char, part: &[String], other: &[String]| {
        for (at, line) in part.iter().take(MAX_LINES).enumerate() {
            let same = other
                .get(at)
                .map_or(0, |other| line.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count());
            let from = if line.len() > 2 * AROUND { same.saturating_sub(AROUND) } else { 0 };
            out.push(format!("{sign} {}", cut(line, from, (from + 2 * AROUND).min(line.len()))));
        }
        if part.len() > MAX_LINES {
            out.push(format!("{sign} … {} more lines", part.len() - MAX_LINES));
        }
    };
    side('-', old_part, new_part);
    side('+', new_part, old_part);
    let after = &old[old.len() - end..];
    out.extend(after.iter().take(CONTEXT).map(|line| format!("  {}", cut(line, 0, 2 * AROUND))));
    if after.len() > CONTEXT {
        out.push("  …".to_owned());
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_two_values_have_in_common_is_cut() {
        let then = json!({"body": {"json": "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9}"}});
        let mut now = then.clone();
        now["body"]["json"] = then["body"]["json"].as_str().unwrap().replace('5', "6").into();
        assert_eq!(
            diff(&then, &now),
            [
                "  …",
                "      \"b\": 2,",
                "      \"c\": 3,",
                "      \"d\": 4,",
                "-     \"e\": 5,",
                "+     \"e\": 6,",
                "      \"f\": 6,",
                "      \"g\": 7,",
                "      \"h\": 8,",
                "  …",
            ]
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_difference() {
        let text = "x".repeat(5000);
        let lines = diff(&json!(format!("{text}a{text}")), &json!(format!("{text}b{text}")));
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("- …") && lines[0].contains("xa") && lines[0].len() < 400, "{lines:?}");
        assert!(lines[1].starts_with("+ …") && lines[1].contains("xb"), "{lines:?}");
    }

    #[test]
    fn bodies_that_differ_as_text_alone_are_shown_as_text() {
        let lines = diff(&json!({"json": "{\"a\":1}"}), &json!({"json": "{ \"a\":1}"}));
        assert!(lines.iter().any(|line| line.starts_with("- ")), "{lines:?}");
    }
}
