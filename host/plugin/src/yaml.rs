//! Parses YAML into serde types, with errors that operators understand. For manifests, and in the manager for the files
//! of `configFrom`.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_saphyr::{MessageFormatter as _, Spanned};

use crate::manifest::{ManifestError, Position, refused};

/// The options of the YAML parser.
#[must_use]
pub fn options() -> serde_saphyr::Options {
    // YAML 1.2: `on` and `yes` are strings. Snippets in errors would print values, which may be secret.
    serde_saphyr::options! { strict_booleans: true, with_snippet: false }
}

/// Converts a position of the parser; `None` if it is unknown.
pub(crate) fn known(location: serde_saphyr::Location) -> Option<Position> {
    let position = Position { line: location.line(), column: location.column() };
    (position.line > 0).then_some(position)
}

/// The position of an error.
#[must_use]
pub fn position(error: &serde_saphyr::Error) -> Option<Position> {
    error.location().and_then(known)
}

const API_VERSION: &str = "pilothouse.dev/v1alpha1";

/// Parsed first, so that a document of another kind gets an error about its kind and not about its fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: Option<Spanned<String>>,
    kind: Option<Spanned<String>>,
}

/// Parses a file that holds a document of this kind; an error has a position. `otherwise` is the end of the remedy for a
/// document of another kind.
pub(crate) fn read<T: DeserializeOwned>(
    file: &[u8],
    kind: &str,
    otherwise: &str,
) -> Result<T, ManifestError> {
    let text = std::str::from_utf8(file).map_err(|e| ManifestError::Shape {
        at: None,
        field: None,
        reason: format!("it is not UTF-8 text (byte {})", e.valid_up_to()),
    })?;
    let head: Head = parse(text)?;
    expect("apiVersion", head.api_version.as_ref(), API_VERSION, otherwise)?;
    expect("kind", head.kind.as_ref(), kind, otherwise)?;
    parse(text)
}

/// Checks a field that says what the document is. `otherwise` is the end of the remedy.
fn expect(
    field: &str,
    found: Option<&Spanned<String>>,
    wanted: &str,
    otherwise: &str,
) -> Result<(), ManifestError> {
    match found {
        Some(found) if found.value == wanted => Ok(()),
        Some(found) => {
            let reason = format!("{:?} is not supported by this host", found.value);
            Err(refused(found, field, reason, &format!("write {wanted}, {otherwise}")))
        }
        None => Err(ManifestError::Field {
            at: None,
            field: field.into(),
            reason: "it is missing".into(),
            remedy: format!("write `{field}: {wanted}`, {otherwise}"),
        }),
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ManifestError> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let at = position(&error);
        let field = at.and_then(|at| field_before(text, at)).map(str::to_owned);
        // The library names types by its own Rust types.
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

/// The last field before a position on its line: the parser reports the position of a wrong value, not its field.
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
