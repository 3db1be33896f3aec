//! [`WatchScope`]: one informer's worth of objects, and the scopes in which a plugin may watch a resource.
//!
//! A plugin may watch what it may both `list` and `watch`. The scopes are as narrow as the rules: one for each namespace, one
//! for each name. Invariants: no scope of a result is covered by another one; their number is bounded by the caller.

use std::collections::BTreeSet;

use pilothouse_object::ObjectKey;

use super::{Grants, Place, Rule};

/// The objects of a resource in one namespace or in all, of one name or of all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchScope {
    /// The namespace; `None` for all, and for cluster-scoped resources.
    pub namespace: Option<String>,
    /// The name; `None` for all.
    pub name: Option<String>,
}

/// Why there are no scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoScopes {
    /// Nothing is granted for both verbs.
    Empty,
    /// There are more than allowed.
    TooMany(usize),
}

impl WatchScope {
    /// All objects of a resource.
    pub const ALL: Self = Self { namespace: None, name: None };

    /// Whether an object is in the scope.
    #[must_use]
    pub fn covers(&self, key: &ObjectKey) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| key.namespace() == Some(namespace))
            && self.name.as_deref().is_none_or(|name| key.name() == name)
    }

    /// The objects that are in both scopes; `None` if no object can be.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Option<Self> {
        let part = |a: &Option<String>, b: &Option<String>| match (a, b) {
            (Some(a), Some(b)) if a != b => None,
            (a, b) => Some(a.clone().or_else(|| b.clone())),
        };
        Some(Self {
            namespace: part(&self.namespace, &other.namespace)?,
            name: part(&self.name, &other.name)?,
        })
    }

    /// Drops the scopes that another one covers.
    #[must_use]
    pub fn reduce(scopes: BTreeSet<Self>) -> Vec<Self> {
        if scopes.contains(&Self::ALL) {
            return vec![Self::ALL];
        }
        // Looked up, not compared with each other: there may be many.
        let is_covered = |scope: &Self| match (&scope.namespace, &scope.name) {
            (Some(_), Some(_)) => {
                scopes.contains(&Self { name: None, ..scope.clone() })
                    || scopes.contains(&Self { namespace: None, ..scope.clone() })
            }
            _ => false,
        };
        scopes.iter().filter(|scope| !is_covered(scope)).cloned().collect()
    }
}

impl Grants {
    /// The scopes in which a verb is granted on a resource, at most `most`.
    ///
    /// # Errors
    /// When there are more.
    pub fn verb_scopes(
        &self,
        verb: &str,
        group: &str,
        resource: &str,
        namespaced: bool,
        most: usize,
    ) -> Result<BTreeSet<WatchScope>, NoScopes> {
        let rules = || self.rules.iter().filter(|rule| rule.covers_kind(verb, group, resource, None));
        if rules().any(|rule| is_everywhere(rule, namespaced) && rule.names.is_empty()) {
            return Ok(BTreeSet::from([WatchScope::ALL]));
        }
        // Before any is made: a manifest may have very many.
        let count = rules().fold(0, |count: usize, rule| count.saturating_add(scopes_of(rule, namespaced)));
        if count > most {
            return Err(NoScopes::TooMany(count));
        }
        Ok(rules().flat_map(|rule| of_rule(rule, namespaced)).collect())
    }

    /// The scopes in which a plugin may both list and watch a resource, at most `most`.
    ///
    /// # Errors
    /// When there are none, or more.
    pub fn watch_scopes(
        &self,
        group: &str,
        resource: &str,
        namespaced: bool,
        most: usize,
    ) -> Result<Vec<WatchScope>, NoScopes> {
        let scopes = |verb| self.verb_scopes(verb, group, resource, namespaced, most);
        let (listed, watched) = (scopes("list")?, scopes("watch")?);
        let meets = listed.iter().flat_map(|a| watched.iter().filter_map(move |b| a.meet(b)));
        let scopes = WatchScope::reduce(meets.collect());
        match scopes.len() {
            0 => Err(NoScopes::Empty),
            count if count > most => Err(NoScopes::TooMany(count)),
            _ => Ok(scopes),
        }
    }
}

fn is_everywhere(rule: &Rule, namespaced: bool) -> bool {
    rule.everywhere() || (!namespaced && rule.covers_place(Place::Cluster))
}

/// Number of scopes of a rule.
fn scopes_of(rule: &Rule, namespaced: bool) -> usize {
    let namespaces = if is_everywhere(rule, namespaced) { 1 } else { rule.namespaces.len() };
    namespaces.saturating_mul(rule.names.len().max(1))
}

fn of_rule(rule: &Rule, namespaced: bool) -> Vec<WatchScope> {
    let namespaces: Vec<Option<String>> = match (is_everywhere(rule, namespaced), namespaced) {
        (true, _) => vec![None],
        (false, true) => rule.namespaces.iter().cloned().map(Some).collect(),
        (false, false) => Vec::new(),
    };
    let names: Vec<Option<String>> =
        if rule.names.is_empty() { vec![None] } else { rule.names.iter().cloned().map(Some).collect() };
    let scopes = namespaces.iter().flat_map(|namespace| {
        names.iter().map(|name| WatchScope { namespace: namespace.clone(), name: name.clone() })
    });
    scopes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(rules: &[(&[&str], &[&str], &[&str])]) -> Grants {
        let list = |entries: &[&str]| entries.iter().map(ToString::to_string).collect::<Vec<_>>();
        let rule = |(verbs, namespaces, names): &(&[&str], &[&str], &[&str])| Rule {
            groups: list(&[""]),
            resources: list(&["secrets"]),
            verbs: list(verbs),
            namespaces: list(namespaces),
            names: list(names),
        };
        Grants::new(rules.iter().map(rule).collect())
    }

    /// `namespace/name`, with `*` for all.
    fn scopes(grants: &Grants, namespaced: bool) -> Result<Vec<String>, NoScopes> {
        let all = |part: Option<String>| part.unwrap_or_else(|| "*".to_owned());
        let scopes = grants.watch_scopes("", "secrets", namespaced, 4)?;
        Ok(scopes.into_iter().map(|scope| format!("{}/{}", all(scope.namespace), all(scope.name))).collect())
    }

    const BOTH: &[&str] = &["list", "watch"];

    #[test]
    fn scopes_are_as_narrow_as_the_rules() {
        for (rules, wanted) in [
            (&[(BOTH, &["*"][..], &[][..])][..], &["*/*"][..]),
            (&[(BOTH, &["b", "a"], &[])], &["a/*", "b/*"]),
            (&[(BOTH, &["a"], &["x", "y"])], &["a/x", "a/y"]),
            (&[(BOTH, &["*"], &["x"])], &["*/x"]),
            // What another rule covers needs no scope of its own.
            (&[(BOTH, &["a"], &["x"]), (BOTH, &["a"], &[])], &["a/*"]),
            (&[(BOTH, &["a"], &["x"]), (BOTH, &["*"], &["x"])], &["*/x"]),
            (&[(BOTH, &["a", "b"], &["x"]), (BOTH, &["*"], &[])], &["*/*"]),
        ] {
            assert_eq!(scopes(&grants(rules), true).unwrap(), wanted, "{rules:?}");
        }
    }

    #[test]
    fn very_many_scopes_are_counted_and_not_made() {
        let many: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
        let rule = Rule {
            groups: vec![String::new()],
            resources: vec!["secrets".to_owned()],
            verbs: BOTH.iter().map(ToString::to_string).collect(),
            namespaces: many.clone(),
            names: many,
        };
        assert_eq!(scopes(&Grants::new(vec![rule]), true).unwrap_err(), NoScopes::TooMany(10_000_000_000));
    }

    #[test]
    fn what_may_be_watched_is_what_may_be_listed_as_well() {
        let meet = |list: (&[&str], &[&str]), watch: (&[&str], &[&str])| {
            scopes(&grants(&[(&["list"], list.0, list.1), (&["watch"], watch.0, watch.1)]), true)
        };
        assert_eq!(meet((&["a"], &[]), (&["b"], &[])), Err(NoScopes::Empty));
        assert_eq!(meet((&["a", "b"], &[]), (&["b", "c"], &[])).unwrap(), ["b/*"]);
        assert_eq!(meet((&["*"], &[]), (&["a"], &[])).unwrap(), ["a/*"]);
        assert_eq!(meet((&["a"], &[]), (&["*"], &["x"])).unwrap(), ["a/x"]);
        assert_eq!(meet((&["a"], &["x"]), (&["a"], &["y"])), Err(NoScopes::Empty));
        assert_eq!(scopes(&grants(&[(&["list"], &["*"], &[])]), true), Err(NoScopes::Empty));
    }

    #[test]
    fn a_cluster_scoped_resource_has_one_scope_or_one_for_each_name() {
        assert_eq!(scopes(&grants(&[(BOTH, &[], &[])]), false).unwrap(), ["*/*"]);
        assert_eq!(scopes(&grants(&[(BOTH, &[], &["x"])]), false).unwrap(), ["*/x"]);
        assert_eq!(scopes(&grants(&[(BOTH, &["a"], &[])]), false), Err(NoScopes::Empty));
        assert_eq!(scopes(&grants(&[(BOTH, &[], &[])]), true), Err(NoScopes::Empty));
    }

    #[test]
    fn there_are_as_many_as_are_allowed() {
        assert_eq!(scopes(&grants(&[(BOTH, &["a", "b", "c", "d"], &[])]), true).unwrap().len(), 4);
        assert_eq!(
            scopes(&grants(&[(BOTH, &["a", "b", "c", "d", "e"], &[])]), true),
            Err(NoScopes::TooMany(5))
        );
        let names: Vec<String> = (0..1000).map(|n| format!("n{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(scopes(&grants(&[(BOTH, &names, &[])]), true), Err(NoScopes::TooMany(1000)));
    }
}
