//! [`IndexSpec`]: a way to look up watched objects, read and checked. Built by the life cycle, read through the `cache` import.

use pilothouse_object::{Gvk, Pointer};

use super::text::IndexText;
use super::{DescribeError, WatchSpec, error, kind, pointer, required};

/// An index over a watched kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexSpec {
    /// Which kind.
    pub kind: Gvk,
    /// Its name, unique for the kind and private to the plugin.
    pub name: String,
    /// Where values come from.
    pub source: IndexSource,
    /// Only objects with a value there.
    pub only_where: Option<Pointer>,
    /// Each value is a list, cut at this separator.
    pub split: Option<String>,
}

/// Where an index gets its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexSource {
    /// Values at a pointer.
    Path(Pointer),
    /// The value of a label.
    Label(String),
    /// UIDs of the owners.
    Owner,
}

pub(super) fn index(at: &str, text: IndexText) -> Result<IndexSpec, DescribeError> {
    let kind = kind(at, &text.group, &text.version, &text.kind)?;
    required(at, "name", &text.name)?;
    let source = match (text.path, text.label, text.owner) {
        (Some(path), None, false) => IndexSource::Path(pointer(at, &path)?),
        (None, Some(label), false) => {
            required(at, "label", &label)?;
            IndexSource::Label(label)
        }
        (None, None, true) => IndexSource::Owner,
        (None, None, false) => {
            return Err(error(at, "it has no values", "set one of path, label and owner"));
        }
        _ => {
            return Err(error(
                at,
                "it has more than one of path, label and owner",
                "make one index for each",
            ));
        }
    };
    if text.split.as_deref() == Some("") {
        return Err(error(
            format!("{at}.split"),
            "it is empty",
            "name the separator, as \",\", or leave it out",
        ));
    }
    let only_where = text.only_where.map(|path| pointer(&format!("{at}.where"), &path)).transpose()?;
    Ok(IndexSpec { kind, name: text.name, source, only_where, split: text.split })
}

/// The cache holds watched kinds only, and an index is asked for by kind and name.
pub(super) fn check(indexes: &[IndexSpec], watches: &[WatchSpec]) -> Result<(), DescribeError> {
    for (position, index) in indexes.iter().enumerate() {
        let at = format!("indexes[{position}] ({})", index.kind);
        if indexes[..position].iter().any(|other| other.kind == index.kind && other.name == index.name) {
            let reason = format!("there is another index {:?} of this kind", index.name);
            return Err(error(at, reason, "give each index of a kind its own name"));
        }
        if !watches.iter().any(|watch| watch.kind == index.kind) {
            return Err(error(
                at,
                "the kind is not watched, so nothing would be in the index",
                "watch it as well",
            ));
        }
    }
    Ok(())
}
