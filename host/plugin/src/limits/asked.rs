//! [`AskedLimits`]: bounds with values as YAML has them: `spec.limits` of a manifest, `plugins` of the limits file.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_saphyr::Spanned;

use super::{BOUNDS, Bound, Unit};
use crate::manifest::{ManifestError, Position};
use crate::yaml::known;

/// Names of bounds with values. Unknown names and wrong types are refused; ranges are checked by [`AskedLimits::check`].
#[derive(Debug, Default)]
pub(crate) struct AskedLimits(Vec<Asked>);

/// One bound with a value.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) bound: &'static Bound,
    /// The value as it was written.
    text: String,
    at: Option<Position>,
}

impl AskedLimits {
    /// The values, each within the range of its bound. `section` is the path of the field in errors.
    ///
    /// # Errors
    /// When a value is malformed or out of range.
    pub(super) fn check(&self, section: &str) -> Result<Vec<(&Asked, f64)>, ManifestError> {
        self.0.iter().map(|asked| asked.value(section).map(|value| (asked, value))).collect()
    }
}

impl Asked {
    fn value(&self, section: &str) -> Result<f64, ManifestError> {
        let value = self.bound.unit.parse(&self.text).map_err(|error| {
            let (reason, remedy) =
                error.rsplit_once("; ").unwrap_or((&error, "docs/limits.md has the bounds"));
            self.refused(section, reason.to_owned(), remedy.to_owned())
        })?;
        let (low, high) = self.bound.range;
        // A value that is not a number is not within it either.
        if (low..=high).contains(&value) {
            return Ok(value);
        }
        let unit = self.bound.unit;
        let reason = format!("{} is out of bounds", self.shown());
        let (low, high) = (unit.write(low), unit.write(high));
        Err(self.refused(section, reason, format!("write a value from {low} to {high}")))
    }

    /// The value as errors show it.
    pub(super) fn shown(&self) -> String {
        match self.bound.unit {
            Unit::Duration | Unit::Bytes => format!("{:?}", self.text),
            Unit::Count | Unit::Rate => self.text.clone(),
        }
    }

    pub(super) fn refused(&self, section: &str, reason: String, remedy: String) -> ManifestError {
        let field = format!("{section}.{}", self.bound.name);
        ManifestError::Field { at: self.at, field, reason, remedy }
    }
}

impl<'de> Deserialize<'de> for AskedLimits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = AskedLimits;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object (key: value)")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AskedLimits, A::Error> {
        let mut asked: Vec<Asked> = Vec::new();
        while let Some(Name(bound)) = map.next_key()? {
            if asked.iter().any(|other| std::ptr::eq(other.bound, bound)) {
                return Err(A::Error::duplicate_field(bound.name));
            }
            let (text, location) = match bound.unit {
                Unit::Duration | Unit::Bytes => {
                    let value: Spanned<String> = map.next_value()?;
                    (value.value, value.referenced)
                }
                Unit::Count => {
                    let value: Spanned<u64> = map.next_value()?;
                    (value.value.to_string(), value.referenced)
                }
                Unit::Rate => {
                    let value: Spanned<f64> = map.next_value()?;
                    (value.value.to_string(), value.referenced)
                }
            };
            asked.push(Asked { bound, text, at: known(location) });
        }
        Ok(AskedLimits(asked))
    }
}

/// The name of a bound. The parser adds the position of the name to an error.
struct Name(&'static Bound);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfBound;
        impl Visitor<'_> for OfBound {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a limit")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Name, E> {
                BOUNDS.iter().find(|bound| bound.name == name).map(Name).ok_or_else(|| {
                    let names: Vec<&str> = BOUNDS.iter().map(|bound| bound.name).collect();
                    E::custom(format!("unknown field `{name}`, expected one of {}", names.join(", ")))
                })
            }
        }
        deserializer.deserialize_identifier(OfBound)
    }
}
