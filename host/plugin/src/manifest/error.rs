//! [`ManifestError`]: why a manifest is refused. Its text has place, field, reason and remedy; the caller puts the file's
//! name before it.

use std::fmt;

/// A place in a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
}

/// Why a manifest is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The text is not YAML, or not of the manifest's shape.
    #[error("{}{reason}; docs/manifest.md describes the fields", Prefix(*.at, .field.as_deref()))]
    Shape {
        /// Where, as far as it is known.
        at: Option<Position>,
        /// The field whose value has the wrong shape, as far as it is known.
        field: Option<String>,
        /// What is wrong.
        reason: String,
    },
    /// A field's value is refused.
    #[error("{}{reason}; {remedy}", Prefix(*.at, Some(.field)))]
    Field {
        /// Where, as far as it is known.
        at: Option<Position>,
        /// Path of the field, as `spec.limits.memory`.
        field: String,
        /// What is wrong.
        reason: String,
        /// What to write instead.
        remedy: String,
    },
}

/// `line 3, column 5: spec.limits.memory: `, as far as it is known.
struct Prefix<'a>(Option<Position>, Option<&'a str>);

impl fmt::Display for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.0 {
            write!(f, "line {line}, column {column}: ")?;
        }
        self.1.map_or(Ok(()), |field| write!(f, "{field}: "))
    }
}
