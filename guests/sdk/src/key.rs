//! [`Key`]: the identity of an object within its kind and cluster.

use std::fmt;
use std::str::FromStr;

use crate::bindings::imports::types::ObjectKey;

/// The identity of an object within its kind and cluster.
///
/// ```
/// use pilothouse_sdk::Key;
///
/// let key = Key::namespaced("default", "web");
/// assert_eq!(key.to_string(), "default/web");
/// assert_eq!("node-1".parse(), Ok(Key::cluster("node-1")));
/// assert_eq!(key.child("-config").name, "web-config");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// Key of an object in a namespace.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Key of a cluster-scoped object.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self { namespace: String::new(), name: name.into() }
    }

    /// Another name in the same namespace.
    #[must_use]
    pub fn sibling(&self, name: impl Into<String>) -> Self {
        Self { namespace: self.namespace.clone(), name: name.into() }
    }

    /// The key of an object that belongs to this one: the same namespace, and the name with a suffix. A name that
    /// would be longer than the 253 bytes of Kubernetes is shortened, with a hash of the whole, so that two long names
    /// do not share a child.
    #[must_use]
    pub fn child(&self, suffix: &str) -> Self {
        self.sibling(child_name(&self.name, suffix))
    }

    /// Whether the key has a namespace.
    pub fn is_namespaced(&self) -> bool {
        !self.namespace.is_empty()
    }
}

/// The longest name of most kinds.
const LONGEST_NAME: usize = 253;

fn child_name(name: &str, suffix: &str) -> String {
    if name.len() + suffix.len() <= LONGEST_NAME {
        return format!("{name}{suffix}");
    }
    let hash = format!("-{:016x}", fnv1a(name));
    let room = LONGEST_NAME.saturating_sub(hash.len() + suffix.len());
    let kept = &name[..name.floor_char_boundary(room)];
    // A dot or dash must not stand before the dash.
    format!("{}{hash}{suffix}", kept.trim_end_matches(['.', '-']))
}

/// The FNV-1a hash, which is the same with every compiler; the hashers of the standard library do not promise that.
pub(crate) fn fnv1a(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Formats as `namespace/name`, or `name` for a cluster-scoped object.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_namespaced() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// Parses the format of `Display`.
impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed =
            || format!("`{text}` is not a key: write `namespace/name`, or `name` when cluster-scoped");
        let key = match text.split_once('/') {
            Some(("", _)) => return Err(malformed()),
            Some((namespace, name)) => Self::namespaced(namespace, name),
            None => Self::cluster(text),
        };
        if key.name.is_empty() || key.name.contains('/') {
            return Err(malformed());
        }
        Ok(key)
    }
}

impl From<ObjectKey> for Key {
    fn from(raw: ObjectKey) -> Self {
        Self { namespace: raw.namespace, name: raw.name }
    }
}

impl From<&Key> for ObjectKey {
    fn from(key: &Key) -> Self {
        Self { namespace: key.namespace.clone(), name: key.name.clone() }
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

    #[test]
    fn long_names_of_children_fit_and_differ() {
        let child = |end: &str| Key::cluster(format!("{}{end}", "x".repeat(252))).child("-config");
        let (a, b) = (child("a"), child("b"));
        assert_ne!(a, b);
        assert!([a, b].iter().all(|key| key.name.len() == LONGEST_NAME && key.name.ends_with("-config")));
        // No label of a name ends in a dash or dot.
        let node = format!("{}...{}", "x".repeat(225), "y".repeat(25));
        assert!(!child_name(&node, "-config").contains(".-"));
        // The published value of the hash.
        assert_eq!(fnv1a("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
