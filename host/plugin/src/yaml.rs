//! From YAML to serde types, with errors in words for operators. Used for manifests, and by the manager for the files of
//! `configFrom`.

use serde::de::DeserializeOwned;
use serde_saphyr::MessageFormatter as _;

use crate::manifest::{ManifestError, Position};

/// How YAML is read.
#[must_use]
pub fn options() -> serde_saphyr::Options {
    // YAML 1.2: `on` and `yes` are words. Snippets would quote values.
    serde_saphyr::options! { strict_booleans: true, with_snippet: false }
}

/// A place of the parser, if it has one.
pub(crate) fn known(location: serde_saphyr::Location) -> Option<Position> {
    let position = Position { line: location.line(), column: location.column() };
    (position.line > 0).then_some(position)
}

/// Where an error is.
#[must_use]
pub fn position(error: &serde_saphyr::Error) -> Option<Position> {
    error.location().and_then(known)
}

/// Reads a document into a type; what does not fit is an error with a place.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, ManifestError> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let at = position(&error);
        let field = at.and_then(|at| field_before(text, at)).map(str::to_owned);
        // The library's words for types are those of its own code.
        let reason = match &*serde_saphyr::UserMessageFormatter.format_message(&error) {
            "expected mapping start" => "expected an object (key: value)",
            "expected sequence start" => "expected a list",
            "expected string scalar" => "expected text",
            "invalid u32" | "invalid u64" => "expected a whole number",
            other => other,
        }
        .to_owned();
        ManifestError::Shape { at, field, reason }
    })
}

/// The last field named on the line before a place: the parser says where a value is wrong, not which one it is.
fn field_before(text: &str, at: Position) -> Option<&str> {
    let line = text.lines().nth(usize::try_from(at.line).ok()?.checked_sub(1)?)?;
    let end = line
        .char_indices()
        .nth(usize::try_from(at.column).ok()?.checked_sub(1)?)
        .map_or(line.len(), |(i, _)| i);
    let before = line[..end].trim_end_matches([' ', '{', '[']).strip_suffix(':')?;
    let start = before.rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |i| i + 1);
    Some(&before[start..]).filter(|field| !field.is_empty())
}
