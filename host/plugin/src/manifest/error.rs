//! [`ManifestError`]: the reason why a manifest is rejected. Its text has position, field, reason and remedy; the
//! caller prefixes the name of the file.

use std::fmt;

/// A position in a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
}

/// The reason why a manifest is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The text is not YAML, or does not have the structure of a manifest.
    #[error("{}{reason}; docs/manifest.md describes the fields", Prefix(*.at, .field.as_deref()))]
    Shape {
        /// The position, if it is known.
        at: Option<Position>,
        /// The field whose value has the wrong type, if it is known.
        field: Option<String>,
        /// What is wrong.
        reason: String,
    },
    /// The value of a field is invalid.
    #[error("{}{reason}; {remedy}", Prefix(*.at, Some(.field)))]
    Field {
        /// The position, if it is known.
        at: Option<Position>,
        /// Path of the field, such as `spec.limits.memory`.
        field: String,
        /// What is wrong.
        reason: String,
        /// The remedy.
        remedy: String,
    },
}

impl ManifestError {
    /// The same error of a text that nobody has seen.
    pub(super) fn without_position(mut self) -> Self {
        let (Self::Shape { at, .. } | Self::Field { at, .. }) = &mut self;
        *at = None;
        self
    }
}

/// `line 3, column 5: spec.limits.memory: `, with the parts that are known.
struct Prefix<'a>(Option<Position>, Option<&'a str>);

impl fmt::Display for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.0 {
            write!(f, "line {line}, column {column}: ")?;
        }
        self.1.map_or(Ok(()), |field| write!(f, "{field}: "))
    }
}
