//! [`Rights`]: what the ServiceAccount of a plugin may do to the objects of one kind, as the API server said last.
//!
//! Invariant: without an account everything is allowed here, and the grants of the manifest decide alone. With one, nothing is
//! allowed that a review does not allow now. Filters look at it for each event: one atomic load for each informer.

use std::sync::Arc;

use pilothouse_object::ObjectKey;
use pilothouse_plugin::WatchScope;

use super::Review;

/// The objects of a scope, and the reviews that must all allow them.
pub(crate) struct ScopeRight {
    pub(crate) scope: WatchScope,
    pub(crate) reviews: Vec<Arc<Review>>,
}

impl ScopeRight {
    fn is_allowed(&self) -> bool {
        self.reviews.iter().all(|review| review.is_allowed())
    }
}

/// What may be done to the objects of a kind; the default allows everything.
#[derive(Clone, Default)]
pub(crate) struct Rights {
    scopes: Option<Arc<[ScopeRight]>>,
    /// Number of denials that are already handled: after a later denial, missed changes are delivered again.
    denials: u64,
}

/// The rights of each verb that shows objects from a cache.
#[derive(Clone, Default)]
pub(crate) struct KindRights {
    pub(crate) get: Rights,
    pub(crate) list: Rights,
    /// To list and to watch.
    pub(crate) watch: Rights,
}

impl Rights {
    /// Only what these scopes allow.
    pub(crate) fn of(scopes: Vec<ScopeRight>) -> Self {
        let mut rights = Self { scopes: Some(scopes.into()), denials: 0 };
        rights.count_from_now();
        rights
    }

    /// Forgets the denials so far.
    pub(crate) fn count_from_now(&mut self) {
        self.denials = self.all_denials();
    }

    fn reviews(&self) -> impl Iterator<Item = &Arc<Review>> {
        self.scopes.iter().flat_map(|scopes| scopes.iter()).flat_map(|scope| &scope.reviews)
    }

    fn all_denials(&self) -> u64 {
        self.reviews().map(|review| review.denials()).sum()
    }

    /// Whether an object may be shown.
    pub(crate) fn allow(&self, key: &ObjectKey) -> bool {
        let Some(scopes) = &self.scopes else { return true };
        scopes.iter().any(|right| right.scope.covers(key) && right.is_allowed())
    }

    /// Whether all objects may always be shown.
    pub(crate) fn are_unlimited(&self) -> bool {
        self.scopes.is_none()
    }

    /// Why objects in a namespace, or anywhere if none is named, may not be shown; none if they may.
    pub(crate) fn refusal(&self, namespace: Option<&str>) -> Option<String> {
        let concerned = |right: &&ScopeRight| match (&right.scope.namespace, namespace) {
            (Some(scope), Some(namespace)) => scope == namespace,
            _ => true,
        };
        let denied = self.scopes.iter().flat_map(|scopes| scopes.iter()).filter(concerned);
        denied.flat_map(|right| &right.reviews).find_map(|review| review.refusal())
    }

    /// Whether something was denied since [`count_from_now`](Self::count_from_now), so that changes may have been missed.
    pub(crate) fn are_broken(&self) -> bool {
        self.all_denials() != self.denials
    }
}

/// Equal when the same reviews allow the same objects, and nothing was missed meanwhile.
impl PartialEq for Rights {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: &ScopeRight, b: &ScopeRight| {
            a.scope == b.scope
                && a.reviews.len() == b.reviews.len()
                && a.reviews.iter().zip(&b.reviews).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        match (&self.scopes, &other.scopes) {
            (None, None) => true,
            (Some(a), Some(b)) => {
                self.denials == other.denials
                    && a.len() == b.len()
                    && a.iter().zip(b.iter()).all(|(a, b)| same(a, b))
            }
            _ => false,
        }
    }
}

impl std::fmt::Debug for Rights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rights").field("refusal", &self.refusal(None)).finish_non_exhaustive()
    }
}
