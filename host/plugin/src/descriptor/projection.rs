//! [`ProjectionSpec`]: the fields of a kind that a plugin reads. The cache need not keep the others.
//!
//! The fields that the descriptor's predicates, mappings, field selectors and indexes use are kept in addition:
//! [`Description::kept_fields`] is the whole set for the informer.

use pilothouse_object::{Gvk, Pointer};

use super::text::ProjectionText;
use super::{DescribeError, Description, IndexSource, KeyMap, WatchSpec, error, kind, pointer};

/// The fields that a plugin reads of the objects of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectionSpec {
    /// The kind of the objects.
    pub kind: Gvk,
    /// Pointers to the fields; an empty list keeps metadata only. `apiVersion`, `kind` and `metadata` are always kept.
    pub fields: Vec<Pointer>,
}

/// Maximum number of fields of one projection. Each field costs CPU time on every change.
const MOST_FIELDS: usize = 256;

pub(super) fn projection(at: &str, text: ProjectionText) -> Result<ProjectionSpec, DescribeError> {
    let at = &format!("{at}.fields");
    if text.fields.len() > MOST_FIELDS {
        let reason = format!("there are {}, and {MOST_FIELDS} at most", text.fields.len());
        return Err(error(
            at,
            reason,
            "name a field that holds several of them, or leave the projection out",
        ));
    }
    let fields = text.fields.iter().map(|field| {
        if field.is_empty() {
            return Err(error(at, "one selects the whole object", "leave the projection out to keep it all"));
        }
        pointer(at, field)
    });
    Ok(ProjectionSpec {
        kind: kind(at, &text.group, &text.version, &text.kind)?,
        fields: fields.collect::<Result<_, _>>()?,
    })
}

/// Checks that each projection is on a watched kind, and that no kind has two.
pub(super) fn check(projections: &[ProjectionSpec], watches: &[WatchSpec]) -> Result<(), DescribeError> {
    for (position, projection) in projections.iter().enumerate() {
        let at = format!("projections[{position}] ({})", projection.kind);
        if projections[..position].iter().any(|other| other.kind == projection.kind) {
            return Err(error(at, "there is another projection of this kind", "name all its fields in one"));
        }
        if !watches.iter().any(|watch| watch.kind == projection.kind) {
            return Err(error(at, "the kind is not watched, so nothing of it is kept", "watch it as well"));
        }
    }
    Ok(())
}

impl Description {
    /// The fields that the cache must keep of a kind for this plugin, in addition to `apiVersion`, `kind` and
    /// `metadata`: the fields of its projection, and those that the descriptor's watches and indexes use. `None` for
    /// whole objects.
    #[must_use]
    pub fn kept_fields(&self, kind: &Gvk) -> Option<Vec<Pointer>> {
        let projection = self.projections.iter().find(|projection| projection.kind == *kind)?;
        let mut fields = projection.fields.clone();
        for watch in self.watches.iter().filter(|watch| watch.kind == *kind) {
            fields.extend(looked_at(watch));
        }
        for index in self.indexes.iter().filter(|index| index.kind == *kind) {
            if let IndexSource::Path(path) = &index.source {
                fields.push(path.clone());
            }
            fields.extend(index.only_where.clone());
        }
        Some(fields)
    }
}

fn looked_at(watch: &WatchSpec) -> impl Iterator<Item = Pointer> {
    let mut predicates = Vec::new();
    for predicate in &watch.predicates {
        predicate.pointers(&mut |path| predicates.push(path.clone()));
    }
    let mapped = watch.maps.iter().filter_map(|map| match map {
        KeyMap::Field { path, .. } => Some(path.clone()),
        _ => None,
    });
    let selected = watch.field_selector.paths(&watch.kind.group, &watch.kind.kind).filter_map(|path| {
        let escaped = path.replace('~', "~0").replace('/', "~1");
        format!("/{}", escaped.replace('.', "/")).parse().ok()
    });
    predicates.into_iter().chain(mapped).chain(selected)
}
