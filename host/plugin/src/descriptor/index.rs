//! [`IndexSpec`]: an index of a descriptor, parsed and validated. The manager builds the index; guests read it through
//! the `cache` import.

use std::collections::HashSet;

use pilothouse_object::{Gvk, Pointer};

use super::text::IndexText;
use super::{DescribeError, WatchSpec, error, kind, pointer, required};

/// An index over a watched kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexSpec {
    /// The indexed kind.
    pub kind: Gvk,
    /// The name of the index, unique for the kind and private to the plugin.
    pub name: String,
    /// The source of the values.
    pub source: IndexSource,
    /// Index only objects with a value at this pointer.
    pub only_where: Option<Pointer>,
    /// Split each value at this separator.
    pub split: Option<String>,
}

/// The source of an index's values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum IndexSource {
    /// The values at a pointer.
    Path(Pointer),
    /// The value of a label.
    Label(String),
    /// The value of an annotation.
    Annotation(String),
    /// The UIDs of the owners.
    Owner,
}

pub(super) fn index(at: &str, text: IndexText) -> Result<IndexSpec, DescribeError> {
    let kind = kind(at, &text.group, &text.version, &text.kind)?;
    required(at, "name", &text.name)?;
    let owner = text.owner.then_some(IndexSource::Owner);
    let path = text.path.map(|path| pointer(at, &path)).transpose()?.map(IndexSource::Path);
    let named = |field: &str, name: Option<String>, source: fn(String) -> IndexSource| {
        name.map(|name| required(at, field, &name).map(|()| source(name))).transpose()
    };
    let label = named("label", text.label, IndexSource::Label)?;
    let annotation = named("annotation", text.annotation, IndexSource::Annotation)?;
    let mut sources = [path, label, annotation, owner].into_iter().flatten();
    let source = match (sources.next(), sources.next()) {
        (Some(source), None) => source,
        (None, _) => {
            return Err(error(at, "it has no values", "set one of path, label, annotation and owner"));
        }
        (Some(_), Some(_)) => {
            return Err(error(
                at,
                "it has more than one of path, label, annotation and owner",
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

/// Checks that each index is on a watched kind, because the cache has no other kinds, and that kind and name are
/// unique.
pub(super) fn check(indexes: &[IndexSpec], watches: &[WatchSpec]) -> Result<(), DescribeError> {
    let watched: HashSet<&Gvk> = watches.iter().map(|watch| &watch.kind).collect();
    let mut names = HashSet::new();
    for (position, index) in indexes.iter().enumerate() {
        let at = format!("indexes[{position}] ({})", index.kind);
        if !names.insert((&index.kind, index.name.as_str())) {
            let reason = format!("there is another index {:?} of this kind", index.name);
            return Err(error(at, reason, "give each index of a kind its own name"));
        }
        if !watched.contains(&index.kind) {
            return Err(error(
                at,
                "the kind is not watched, so nothing would be in the index",
                "watch it as well",
            ));
        }
    }
    Ok(())
}
