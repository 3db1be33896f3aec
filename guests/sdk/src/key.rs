//! Methods of [`Key`], the identity of an object within its kind.
//!
//! `Key` is the generated type of the WIT record, so keys pass to and from the host without a conversion.

use std::fmt;
use std::str::FromStr;

use crate::bindings::imports::types::ObjectKey as Key;

impl Key {
    /// Key of an object in a namespace.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    /// Key of a cluster-scoped object.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self { namespace: None, name: name.into() }
    }
}

/// Formats as `namespace/name`, or `name` for a cluster-scoped object.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// Parses the format of `Display`.
impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let key = match text.split_once('/') {
            Some((namespace, name)) => Self::namespaced(namespace, name),
            None => Self::cluster(text),
        };
        if key.name.is_empty() || key.name.contains('/') || key.namespace.as_deref() == Some("") {
            return Err(format!(
                "`{text}` is not a key: write `namespace/name`, or `name` when cluster-scoped"
            ));
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        assert_eq!("a/b".parse(), Ok(Key::namespaced("a", "b")));
        assert_eq!("node-1".parse(), Ok(Key::cluster("node-1")));
        for text in ["a/b", "node-1"] {
            assert_eq!(text.parse::<Key>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_what_is_no_key() {
        for text in ["", "/", "/b", "a/", "a/b/c"] {
            assert!(text.parse::<Key>().is_err(), "{text}");
        }
    }
}
