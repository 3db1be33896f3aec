//! [`KindViews`]: the views of a generation by kind. Most plugins watch one or two kinds and there may be thousands of plugins,
//! so it is a sorted slice: a hash table has room for three entries at least.

use std::collections::HashMap;
use std::slice;

use pilothouse_object::Gvk;

use crate::imports::plugin_imports::KindView;

/// The views of the kinds that a generation watches, sorted by kind.
pub(crate) struct KindViews(Box<[(Gvk, KindView)]>);

impl KindViews {
    /// The view of a kind.
    pub(crate) fn get(&self, kind: &Gvk) -> Option<&KindView> {
        self.0.binary_search_by(|(own, _)| own.cmp(kind)).ok().map(|at| &self.0[at].1)
    }

    /// All views.
    pub(crate) fn values(&self) -> impl Iterator<Item = &KindView> {
        self.0.iter().map(|(_, view)| view)
    }
}

impl From<HashMap<Gvk, KindView>> for KindViews {
    fn from(views: HashMap<Gvk, KindView>) -> Self {
        let mut views: Box<[(Gvk, KindView)]> = views.into_iter().collect();
        views.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Self(views)
    }
}

impl<'a> IntoIterator for &'a KindViews {
    type Item = &'a (Gvk, KindView);
    type IntoIter = slice::Iter<'a, (Gvk, KindView)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
