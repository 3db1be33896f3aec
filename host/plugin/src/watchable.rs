//! [`Description::watch_scopes`]: which objects the informers of a kind show a plugin, by what it watches and what is granted.
//!
//! A host leases informers by it; `pilothouse check` and `pilothouse rbac` say beforehand what a host will do. Invariants: no
//! scope of a result is covered by another one, and there are no more than allowed.

use std::collections::BTreeSet;

use pilothouse_object::Gvk;

use crate::descriptor::Description;
use crate::grants::{Access, Grants, NoScopes, Place, Scope, WatchScope};

/// Why a kind cannot be watched, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unwatchable {
    /// The permissions do not let the plugin list and watch what it watches.
    #[error("{0}")]
    NotGranted(String),
    /// The permissions need more informers than allowed.
    #[error(
        "the permissions need {count} informers or more, one for each namespace or name, and {most} are allowed; grant all namespaces (\"*\"), or raise limits.informers"
    )]
    TooMany {
        /// Number of informers, as far as they were counted.
        count: usize,
        /// Number of informers that are allowed.
        most: usize,
    },
}

impl Description {
    /// The scopes of the informers of a kind, at most `most`: what its watches ask for, where both `list` and `watch` of its
    /// resource are granted.
    ///
    /// # Errors
    /// When a watch has none, or there are more.
    pub fn watch_scopes(
        &self,
        kind: &Gvk,
        resource: &str,
        namespaced: bool,
        grants: &Grants,
        most: usize,
    ) -> Result<Vec<WatchScope>, Unwatchable> {
        let watches = || self.watches.iter().filter(|watch| watch.kind == *kind);
        let ungranted = |place| Unwatchable::NotGranted(ungranted(grants, &kind.group, resource, place));
        let granted = grants.watch_scopes(&kind.group, resource, namespaced, most);
        let granted = granted.map_err(|none| match none {
            NoScopes::TooMany(count) => Unwatchable::TooMany { count, most },
            NoScopes::Empty => {
                let is_granted = |verb| grants.scope(verb, &kind.group, resource, namespaced) != Scope::None;
                if is_granted("list") && is_granted("watch") {
                    return Unwatchable::NotGranted(granted_apart(resource));
                }
                let everywhere = if namespaced { Place::AllNamespaces } else { Place::Cluster };
                let named = watches().flat_map(|watch| watch.namespaces.iter().flatten()).next();
                ungranted(named.map_or(everywhere, |namespace| Place::Namespace(namespace)))
            }
        })?;
        let mut scopes = BTreeSet::new();
        for watch in watches() {
            let Some(namespaces) = watch.namespaces.as_ref().filter(|_| namespaced) else {
                scopes.extend(granted.iter().cloned());
                continue;
            };
            for namespace in namespaces {
                let asked = WatchScope { namespace: Some(namespace.clone()), name: None };
                let mut met = granted.iter().filter_map(|granted| granted.meet(&asked)).peekable();
                if met.peek().is_none() {
                    return Err(ungranted(Place::Namespace(namespace)));
                }
                scopes.extend(met);
                if scopes.len() > most {
                    scopes = WatchScope::reduce(scopes).into_iter().collect();
                }
                if scopes.len() > most {
                    return Err(Unwatchable::TooMany { count: scopes.len(), most });
                }
            }
        }
        Ok(WatchScope::reduce(scopes))
    }
}

/// What to grant, so that the objects can be listed and watched.
fn ungranted(grants: &Grants, group: &str, resource: &str, place: Place<'_>) -> String {
    let access = |verb| Access { verb, group, resource, subresource: None, place, name: None };
    let missing = ["list", "watch"].into_iter().find_map(|verb| grants.check(&access(verb)).err());
    missing.map_or_else(|| granted_apart(resource), |missing| missing.to_string())
}

fn granted_apart(resource: &str) -> String {
    format!(
        "list and watch of {resource} are granted for different objects, so none can be watched; grant both verbs in one rule of spec.permissions"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DescriptorLimits, Rule, World};

    /// `namespace/name` of each informer of Pods, or why there is none; a grant is verbs, namespaces and names.
    fn scopes(
        watched: &[&str],
        namespaced: bool,
        granted: &[(&[&str], &[&str], &[&str])],
    ) -> Result<Vec<String>, Unwatchable> {
        let watches = watched.iter().enumerate().map(|(n, namespaces)| {
            format!(r#"{{"version":"v1","kind":"Pod","labelSelector":"a!={n}","namespaces":{namespaces}}}"#)
        });
        let watches = watches.collect::<Vec<_>>().join(",");
        let text = format!(
            r#"{{"apiVersion":"pilothouse.dev/describe/v1alpha1","name":"p","watches":[{watches}]}}"#
        );
        let limits = DescriptorLimits::default();
        let description = Description::parse(text.as_bytes(), World::Reconciler, &limits).unwrap();
        let list = |entries: &[&str]| entries.iter().map(ToString::to_string).collect::<Vec<_>>();
        let rule = |(verbs, namespaces, names): &(&[&str], &[&str], &[&str])| Rule {
            groups: list(&[""]),
            resources: list(&["pods"]),
            verbs: list(verbs),
            namespaces: list(namespaces),
            names: list(names),
        };
        let grants = Grants::new(granted.iter().map(rule).collect());
        let scopes = description.watch_scopes(&Gvk::new("", "v1", "Pod"), "pods", namespaced, &grants, 3)?;
        let all = |part: Option<String>| part.unwrap_or_else(|| "*".to_owned());
        Ok(scopes.into_iter().map(|scope| format!("{}/{}", all(scope.namespace), all(scope.name))).collect())
    }

    const BOTH: &[&str] = &["list", "watch"];

    #[test]
    fn informers_are_as_wide_as_both_the_watches_and_the_grants() {
        let all = [(BOTH, &["*"][..], &[][..])];
        assert_eq!(scopes(&["[]"], true, &all).unwrap(), ["*/*"]);
        assert_eq!(scopes(&[r#"["b"]"#, r#"["a"]"#], true, &all).unwrap(), ["a/*", "b/*"]);
        assert_eq!(scopes(&[r#"["a"]"#, "[]"], true, &all).unwrap(), ["*/*"]);
        assert_eq!(scopes(&[r#"["a"]"#], true, &[(BOTH, &["*"], &["x"])]).unwrap(), ["a/x"]);
        // Namespaces say nothing of cluster-scoped objects.
        assert_eq!(scopes(&[r#"["a"]"#], false, &[(BOTH, &[], &[])]).unwrap(), ["*/*"]);
    }

    #[test]
    fn what_is_not_granted_is_named_and_never_nothing() {
        for (watched, granted, wanted) in [
            ("[]", &[][..], r#"namespaces: ["*"]"#),
            (r#"["a"]"#, &[(BOTH, &["b"][..], &[][..])], r#"list pods in namespace "a""#),
            ("[]", &[(&["list"][..], &["a"][..], &[][..])], "no permission to list pods in all namespaces"),
            ("[]", &[(&["list"], &["*"], &[])], "no permission to watch pods in all namespaces"),
            ("[]", &[(&["list"], &["a"], &[]), (&["watch"], &["b"], &[])], "granted for different objects"),
            (r#"["a"]"#, &[(&["list"], &["a"], &["x"]), (&["watch"], &["a"], &["y"])], "different objects"),
        ] {
            let error = scopes(&[watched], true, granted).unwrap_err();
            assert!(matches!(&error, Unwatchable::NotGranted(text) if text.contains(wanted)), "{error}");
        }
    }

    #[test]
    fn more_than_allowed_are_refused_by_the_name_of_the_limit() {
        let four = [(BOTH, &["a", "b", "c", "d"][..], &[][..])];
        let by_grants = scopes(&["[]"], true, &four).unwrap_err();
        let by_watches = scopes(&[r#"["a","b","c","d"]"#], true, &[(BOTH, &["*"], &[])]).unwrap_err();
        assert_eq!(by_grants, Unwatchable::TooMany { count: 4, most: 3 });
        assert_eq!(by_watches, by_grants);
        assert!(
            by_grants.to_string().contains("need 4 informers")
                && by_grants.to_string().contains("limits.informers")
        );
    }
}
