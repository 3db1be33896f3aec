//! [`watched`]: which objects the informers of a plugin would show it, by its description and the permissions of its manifest.
//!
//! As a host works it out when it loads the plugin, but without a cluster: the plural of a kind that is not of Kubernetes is
//! a guess.

use std::collections::BTreeSet;

use pilothouse_object::Gvk;
use pilothouse_plugin::{Access, Description, Grants, NoScopes, Place, WatchScope};

use super::resources::Resource;

/// A kind that a plugin watches.
#[derive(Debug)]
pub(crate) struct Watched<'a> {
    pub(crate) kind: &'a Gvk,
    pub(crate) resource: Resource,
    pub(crate) scopes: Result<Vec<WatchScope>, Unwatchable>,
}

/// Why a kind cannot be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unwatchable {
    /// A host refuses the plugin, for this reason.
    Refused(String),
    /// A host refuses the plugin for this reason, if the plural is as guessed.
    PluralUnknown(String),
}

/// The kinds that a plugin watches, each once, and the scopes of their informers. At most `most` informers are allowed.
pub(crate) fn watched<'a>(description: &'a Description, grants: &Grants, most: usize) -> Vec<Watched<'a>> {
    let kinds: BTreeSet<&Gvk> = description.watches.iter().map(|watch| &watch.kind).collect();
    let mut informers = 0;
    let watched = kinds.into_iter().map(|kind| {
        let resource = Resource::of(kind);
        let mut scopes = scopes(description, grants, most, kind, &resource);
        informers += scopes.as_ref().map_or(0, Vec::len);
        if scopes.is_ok() && informers > most {
            scopes = Err(Unwatchable::Refused(too_many(informers, most)));
        }
        Watched { kind, resource, scopes }
    });
    watched.collect()
}

fn too_many(count: usize, most: usize) -> String {
    format!(
        "the permissions need {count} informers or more, one for each namespace or name, and {most} are allowed; grant all namespaces (\"*\"), or raise limits.informers"
    )
}

fn scopes(
    description: &Description,
    grants: &Grants,
    most: usize,
    kind: &Gvk,
    resource: &Resource,
) -> Result<Vec<WatchScope>, Unwatchable> {
    let of_scope = |namespaced| grants.watch_scopes(&kind.group, &resource.plural, namespaced, most);
    let granted = match resource.namespaced {
        Some(namespaced) => of_scope(namespaced),
        None => of_scope(true).or_else(|error| of_scope(false).map_err(|_| error)),
    };
    let wanted = description.watches.iter().filter(|watch| watch.kind == *kind);
    let unwatchable = |place: Place<'_>| {
        let reason =
            format!("cannot watch {kind}: {}", missing(grants, &kind.group, &resource.plural, place));
        match resource.namespaced {
            Some(_) => Unwatchable::Refused(reason),
            None => Unwatchable::PluralUnknown(reason),
        }
    };
    let granted = granted.map_err(|none| match none {
        NoScopes::TooMany(count) => Unwatchable::Refused(too_many(count, most)),
        NoScopes::Empty => {
            let named = wanted.clone().flat_map(|watch| watch.namespaces.iter().flatten()).next();
            let everywhere =
                if resource.namespaced == Some(false) { Place::Cluster } else { Place::AllNamespaces };
            unwatchable(named.map_or(everywhere, |namespace| Place::Namespace(namespace)))
        }
    })?;
    let mut scopes = BTreeSet::new();
    for watch in wanted {
        let Some(namespaces) = watch.namespaces.as_ref().filter(|_| resource.namespaced != Some(false))
        else {
            scopes.extend(granted.iter().cloned());
            continue;
        };
        for namespace in namespaces {
            let asked = WatchScope { namespace: Some(namespace.clone()), name: None };
            let before = scopes.len();
            let met: BTreeSet<_> = granted.iter().filter_map(|granted| granted.meet(&asked)).collect();
            if met.is_empty() {
                return Err(unwatchable(Place::Namespace(namespace)));
            }
            scopes.extend(met);
            if scopes.len() > most && scopes.len() > before {
                scopes = WatchScope::reduce(scopes).into_iter().collect();
                if scopes.len() > most {
                    return Err(Unwatchable::Refused(too_many(scopes.len(), most)));
                }
            }
        }
    }
    Ok(WatchScope::reduce(scopes))
}

/// What to grant, so that the objects can be listed and watched.
fn missing(grants: &Grants, group: &str, resource: &str, place: Place<'_>) -> String {
    let access = |verb| Access { verb, group, resource, subresource: None, place, name: None };
    let missing = ["list", "watch"].into_iter().find_map(|verb| grants.check(&access(verb)).err());
    missing.map_or_else(
        || "list and watch are granted for different objects; grant both verbs in one rule of spec.permissions".to_owned(),
        |missing| missing.to_string(),
    )
}

#[cfg(test)]
mod tests {
    use pilothouse_plugin::{DescriptorLimits, Rule, World};

    use super::*;

    fn description(watches: &str) -> Description {
        let text = format!(
            r#"{{"apiVersion":"pilothouse.dev/describe/v1alpha1","name":"p","watches":[{watches}]}}"#
        );
        Description::parse(text.as_bytes(), World::Reconciler, &DescriptorLimits::default()).unwrap()
    }

    fn grants(group: &str, resources: &str, namespaces: &[&str], names: &[&str]) -> Grants {
        let list = |entries: &[&str]| entries.iter().map(ToString::to_string).collect::<Vec<_>>();
        Grants::new(vec![Rule {
            groups: list(&[group]),
            resources: list(&[resources]),
            verbs: list(&["list", "watch"]),
            namespaces: list(namespaces),
            names: list(names),
        }])
    }

    /// `namespace/name` of each informer, or why there is none.
    fn informers(watches: &str, grants: &Grants) -> Result<Vec<String>, Unwatchable> {
        let all = |part: Option<String>| part.unwrap_or_else(|| "*".to_owned());
        let description = description(watches);
        let mut watched = watched(&description, grants, 3);
        let scopes = watched.remove(0).scopes?;
        Ok(scopes.into_iter().map(|scope| format!("{}/{}", all(scope.namespace), all(scope.name))).collect())
    }

    const PODS: &str = r#"{"version":"v1","kind":"Pod"}"#;
    const PODS_OF_A: &str = r#"{"version":"v1","kind":"Pod","namespaces":["a"]}"#;
    const FOOS: &str = r#"{"group":"example.org","version":"v1","kind":"Foo"}"#;

    #[test]
    fn informers_are_as_wide_as_both_the_watch_and_the_permissions() {
        assert_eq!(informers(PODS, &grants("", "pods", &["*"], &[])).unwrap(), ["*/*"]);
        assert_eq!(informers(PODS, &grants("", "pods", &["b", "a"], &[])).unwrap(), ["a/*", "b/*"]);
        assert_eq!(informers(PODS_OF_A, &grants("", "pods", &["*"], &["x"])).unwrap(), ["a/x"]);
        let nodes = r#"{"version":"v1","kind":"Node"}"#;
        assert_eq!(informers(nodes, &grants("", "nodes", &[], &[])).unwrap(), ["*/*"]);
        for namespaces in [&["a"][..], &[]] {
            informers(FOOS, &grants("example.org", "foos", namespaces, &[])).unwrap();
        }
    }

    #[test]
    fn what_is_not_granted_cannot_be_watched_and_the_grant_is_named() {
        let refused = |watches: &str, grants: &Grants| match informers(watches, grants).unwrap_err() {
            Unwatchable::Refused(reason) => reason,
            other => panic!("{other:?}"),
        };
        let reason = refused(PODS, &Grants::default());
        assert!(reason.contains("cannot watch v1/Pod") && reason.contains("namespaces: [\"*\"]"), "{reason}");
        // Without namespaces a permission is one for cluster-scoped objects.
        refused(PODS, &grants("", "pods", &[], &[]));
        let reason = refused(PODS_OF_A, &grants("", "pods", &["b"], &[]));
        assert!(reason.contains("namespaces: [\"a\"]"), "{reason}");
        let reason = refused(PODS, &grants("", "pods", &["a", "b", "c", "d"], &[]));
        assert!(reason.contains("need 4 informers") && reason.contains("limits.informers"), "{reason}");
    }

    #[test]
    fn the_plural_of_a_custom_kind_may_be_another_one() {
        let unknown = informers(FOOS, &grants("example.org", "fooes", &["*"], &[])).unwrap_err();
        assert!(matches!(unknown, Unwatchable::PluralUnknown(_)), "{unknown:?}");
    }
}
