//! [`watched`]: which objects the informers of a plugin would show it, by its description and the permissions of its manifest.
//!
//! By the function by which a host leases informers, but without a cluster: the plural of a kind that is not of Kubernetes is a
//! guess.

use std::collections::BTreeSet;

use pilothouse_object::Gvk;
use pilothouse_plugin::{Description, Grants, WatchScope};

use super::resources::Resource;

/// A kind that a plugin watches.
#[derive(Debug)]
pub struct Watched<'a> {
    /// The kind of its objects.
    pub kind: &'a Gvk,
    /// The resource of the kind.
    pub resource: Resource,
    /// The informers that serve it, or why none can.
    pub scopes: Result<Vec<WatchScope>, Unwatchable>,
}

/// Why a kind cannot be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unwatchable {
    /// A host refuses the plugin, for this reason.
    Refused(String),
    /// A host refuses the plugin for this reason, if the plural is as guessed.
    PluralUnknown(String),
}

/// The kinds that a plugin watches, each once, and the scopes of their informers. At most `most` informers are allowed.
pub fn watched<'a>(description: &'a Description, grants: &Grants, most: usize) -> Vec<Watched<'a>> {
    let kinds: BTreeSet<&Gvk> = description.watches.iter().map(|watch| &watch.kind).collect();
    let mut informers = 0;
    let watched = kinds.into_iter().map(|kind| {
        let resource = Resource::of(kind);
        let mut scopes = scopes(description, grants, most, kind, &resource);
        informers += scopes.as_ref().map_or(0, Vec::len);
        if scopes.is_ok() && informers > most {
            let too_many = pilothouse_plugin::Unwatchable::TooMany { count: informers, most };
            scopes = Err(Unwatchable::Refused(too_many.to_string()));
        }
        Watched { kind, resource, scopes }
    });
    watched.collect()
}

fn scopes(
    description: &Description,
    grants: &Grants,
    most: usize,
    kind: &Gvk,
    resource: &Resource,
) -> Result<Vec<WatchScope>, Unwatchable> {
    let of_scope = |namespaced| description.watch_scopes(kind, &resource.plural, namespaced, grants, most);
    let scopes = match resource.namespaced {
        Some(namespaced) => of_scope(namespaced),
        None => of_scope(true).or_else(|error| of_scope(false).map_err(|_| error)),
    };
    scopes.map_err(|unwatchable| match unwatchable {
        pilothouse_plugin::Unwatchable::TooMany { .. } => Unwatchable::Refused(unwatchable.to_string()),
        pilothouse_plugin::Unwatchable::NotGranted(reason) => {
            let reason = format!("cannot watch {kind}: {reason}");
            match resource.namespaced {
                Some(_) => Unwatchable::Refused(reason),
                None => Unwatchable::PluralUnknown(reason),
            }
        }
    })
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
