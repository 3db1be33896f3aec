//! [`ObjectKey`]: the identity of an object within its kind, in the form of client-go's `MetaNamespaceKeyFunc`.
//!
//! Invariant: the text is `namespace/name`, or `name` alone for a cluster-scoped object; no part is empty or contains a
//! `/`. Stores, queues and the guest boundary use it.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

/// Namespace and name of an object. A clone copies a reference count.
#[derive(Clone)]
pub struct ObjectKey {
    text: Arc<str>,
    name_start: u32,
}

/// The reason why a text is not an object key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text contains more than one `/`, or a namespace or name contains one.
    #[error("unexpected key format {0:?}: use \"name\" or \"namespace/name\"")]
    Slash(String),
    /// The namespace or the name is empty.
    #[error("key {0:?} has an empty namespace or name: use \"name\" or \"namespace/name\"")]
    Empty(String),
}

impl ObjectKey {
    /// Builds a key; `namespace` is `None` (or empty) for a cluster-scoped object.
    ///
    /// # Errors
    /// When a part contains a `/` or the name is empty.
    pub fn new(namespace: Option<&str>, name: &str) -> Result<Self, KeyError> {
        let namespace = namespace.unwrap_or_default();
        if name.contains('/') || namespace.contains('/') {
            return Err(KeyError::Slash(format!("{namespace}/{name}")));
        }
        if name.is_empty() {
            return Err(KeyError::Empty(format!("{namespace}/{name}")));
        }
        if namespace.is_empty() {
            return Ok(Self { text: Arc::from(name), name_start: 0 });
        }
        let text = [namespace, "/", name].concat();
        let name_start = u32::try_from(namespace.len() + 1).map_err(|_| KeyError::Slash(String::new()))?;
        Ok(Self { text: Arc::from(text), name_start })
    }

    /// `namespace/name`, or `name` for a cluster-scoped object.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.text[self.name_start as usize..]
    }

    /// The namespace; `None` for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        (self.name_start > 0).then(|| &self.text[..self.name_start as usize - 1])
    }
}

impl FromStr for ObjectKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        match text.split_once('/') {
            None => Self::new(None, text),
            Some((_, rest)) if rest.contains('/') => Err(KeyError::Slash(text.to_owned())),
            Some(("", _)) => Err(KeyError::Empty(text.to_owned())),
            Some((namespace, name)) => Self::new(Some(namespace), name),
        }
    }
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
impl Eq for ObjectKey {}

// `Borrow<str>` requires the hash of the text.
impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}
impl Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        &self.text
    }
}
impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_into_namespace_and_name() {
        let key: ObjectKey = "kube-system/coredns".parse().unwrap();
        assert_eq!((key.namespace(), key.name()), (Some("kube-system"), "coredns"));
        let key: ObjectKey = "node-1".parse().unwrap();
        assert_eq!((key.namespace(), key.name()), (None, "node-1"));
    }

    #[test]
    fn more_than_one_slash_is_an_error() {
        assert_eq!("a/b/c".parse::<ObjectKey>(), Err(KeyError::Slash("a/b/c".into())));
        assert!(matches!(ObjectKey::new(Some("a"), "b/c"), Err(KeyError::Slash(_))));
    }

    #[test]
    fn empty_parts_are_an_error() {
        for text in ["", "/name", "ns/"] {
            assert!(matches!(text.parse::<ObjectKey>(), Err(KeyError::Empty(_))), "{text:?}");
        }
    }

    #[test]
    fn hashes_as_its_text() {
        let mut map = std::collections::HashMap::new();
        map.insert(ObjectKey::new(Some("a"), "b").unwrap(), 1);
        assert_eq!(map.get("a/b"), Some(&1));
    }
}
