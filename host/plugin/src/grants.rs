//! [`Grants`]: the permissions of a plugin. Only this module decides about live calls and cached reads.
//!
//! Deny by default: an access is allowed when one [`Rule`] of the manifest covers all of it. Rules have the
//! meaning of RBAC rules, and `namespaces` sets their scope: absent, the rule covers cluster-scoped objects only; with
//! names, objects in those namespaces only; with `"*"`, all objects, like a ClusterRole that is bound cluster-wide.
//!
//! A live call is checked with [`Grants::check`]. A subscription computes a [`Visibility`] once and checks each object
//! with it. Callers: the manager (for the scope of watches) and the host's imports.

mod rule;
mod visibility;
mod watch_scope;

use std::fmt;
use std::sync::Arc;

use pilothouse_object::ObjectKey;

use self::rule::EVERY;
pub use self::rule::Rule;
pub use self::visibility::Visibility;
pub use self::watch_scope::{NoScopes, WatchScope};

/// The scope of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// Cluster-scoped objects.
    Cluster,
    /// One namespace.
    Namespace(&'a str),
    /// All namespaces at once: a list of a namespaced resource without a namespace.
    AllNamespaces,
}

impl<'a> Place<'a> {
    /// The scope of an object: its namespace, or the cluster when it has none.
    #[must_use]
    pub fn of_object(namespace: Option<&'a str>) -> Self {
        namespace.map_or(Self::Cluster, Self::Namespace)
    }
}

/// One access that a plugin requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access<'a> {
    /// The verb of the API.
    pub verb: &'a str,
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Plural resource name, such as `pods`.
    pub resource: &'a str,
    /// Subresource, such as `status`.
    pub subresource: Option<&'a str>,
    /// The scope of the access.
    pub place: Place<'a>,
    /// Name of the object; `None` for lists and for objects whose name the server generates.
    pub name: Option<&'a str>,
}

/// An access that no rule covers. The text contains the grant to add.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Missing {
    verb: String,
    group: String,
    resource: String,
    place: Option<Box<str>>,
    name: Option<Box<str>>,
    /// The remote cluster of the access; none for that of the run.
    cluster: Option<Box<str>>,
}

/// The namespaces in which an access is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Nowhere.
    None,
    /// In the whole cluster.
    All,
    /// In these namespaces, sorted.
    Some(Vec<String>),
}

/// The permissions of one plugin. A clone copies a reference count.
#[derive(Debug, Clone, Default)]
pub struct Grants {
    rules: Arc<[Rule]>,
}

impl Grants {
    /// The permissions under the rules of a manifest. Without rules nothing is granted.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        Self::shared(rules.into())
    }

    /// As [`new`](Self::new), of rules that others have as well.
    #[must_use]
    pub fn shared(rules: Arc<[Rule]>) -> Self {
        Self { rules }
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Checks that one rule covers the access.
    ///
    /// A rule with names does not cover an access without a name: a list, for example, needs a rule without names.
    ///
    /// # Errors
    /// When no rule covers the access: the missing grant.
    pub fn check(&self, access: &Access<'_>) -> Result<(), Missing> {
        let Access { verb, group, resource, subresource, place, name } = *access;
        let covered = self.rules.iter().any(|rule| {
            rule.covers_kind(verb, group, resource, subresource)
                && rule.covers_place(place)
                && rule.covers_name(name)
        });
        if covered { Ok(()) } else { Err(Missing::of(access)) }
    }

    /// Whether any rule grants a verb on any resource of a group. Otherwise a call is refused without asking the server
    /// for the group's resources.
    #[must_use]
    pub fn mentions_group(&self, verb: &str, group: &str) -> bool {
        self.rules.iter().any(|rule| rule.covers_group(verb, group))
    }

    /// The namespaces in which a verb is granted on a resource, including rules for some names only: the maximum scope
    /// of a watch. `namespaced` is whether the resource is namespaced; for a cluster-scoped one the result is `All` or
    /// `None`.
    #[must_use]
    pub fn scope(&self, verb: &str, group: &str, resource: &str, namespaced: bool) -> Scope {
        let mut namespaces: Vec<String> = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.covers_kind(verb, group, resource, None)) {
            if rule.everywhere() || (!namespaced && rule.covers_place(Place::Cluster)) {
                return Scope::All;
            }
            if namespaced {
                namespaces.extend(rule.namespaces.iter().cloned());
            }
        }
        namespaces.sort_unstable();
        namespaces.dedup();
        if namespaces.is_empty() { Scope::None } else { Scope::Some(namespaces) }
    }

    /// Computes the objects of a resource on which a verb is granted.
    #[must_use]
    pub fn visibility(&self, verb: &str, group: &str, resource: &str) -> Visibility {
        Visibility::of(self.rules.iter().filter(|rule| rule.covers_kind(verb, group, resource, None)))
    }

    /// Whether one object is visible. For several objects use a [`Visibility`].
    #[must_use]
    pub fn may_see(&self, verb: &str, group: &str, resource: &str, key: &ObjectKey) -> bool {
        let place = Place::of_object(key.namespace());
        let access = Access { verb, group, resource, subresource: None, place, name: Some(key.name()) };
        self.check(&access).is_ok()
    }

    /// Sums up the parts of a descriptor's `permissions` that are not granted. A requested rule without namespaces is
    /// satisfied by a grant in any scope, and one without names by a grant for any name, because the operator may narrow
    /// grants.
    ///
    /// `own` is the namespace of a Plugin of the cluster: what is asked for in all namespaces is compared there, since such a
    /// Plugin is limited to it.
    ///
    /// At most 10,000 accesses are compared, so that what a guest asks for costs a bounded time.
    #[must_use]
    pub fn not_granted(&self, asked: &[Rule], own: Option<&str>) -> NotGranted {
        const MOST_COMPARED: usize = 10_000;
        let mut missing = NotGranted::default();
        let accesses = asked.iter().flat_map(combinations).flat_map(|(rule, group, resource, verb)| {
            let all_in_one = rule.namespaces.is_empty().then_some(None);
            let places = rule.namespaces.iter().map(move |namespace| match (namespace.as_str(), own) {
                (EVERY, None) => Some(Place::AllNamespaces),
                (EVERY, Some(namespace)) | (namespace, _) => Some(Place::Namespace(namespace)),
            });
            all_in_one.into_iter().chain(places).map(move |place| (group, resource, verb, place))
        });
        for (compared, (group, resource, verb, place)) in accesses.enumerate() {
            if compared == MOST_COMPARED {
                missing.is_complete = false;
                break;
            }
            let (resource, subresource) = match resource.split_once('/') {
                Some((resource, subresource)) => (resource, Some(subresource)),
                None => (resource, None),
            };
            let granted = self.rules.iter().any(|have| {
                have.covers_kind(verb, group, resource, subresource)
                    && place.is_none_or(|place| have.covers_place(place))
            });
            if !granted {
                let place = place.unwrap_or(Place::Cluster);
                missing.add(&Access { verb, group, resource, subresource, place, name: None });
            }
        }
        missing
    }
}

/// The permissions that a plugin asks for and that its manifest does not grant. The text is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotGranted {
    /// The first of them.
    first: Vec<Missing>,
    count: usize,
    /// Whether all that is asked for was compared.
    is_complete: bool,
}

impl Default for NotGranted {
    fn default() -> Self {
        Self { first: Vec::new(), count: 0, is_complete: true }
    }
}

impl NotGranted {
    /// Number of permissions that the text names.
    const NAMED: usize = 3;

    fn add(&mut self, access: &Access<'_>) {
        self.count += 1;
        if self.first.len() < Self::NAMED {
            self.first.push(Missing::of(access));
        }
    }

    /// Whether all that was compared is granted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl fmt::Display for NotGranted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_least = if self.is_complete { "" } else { "at least " };
        let plural = if self.count == 1 { "permission" } else { "permissions" };
        write!(
            f,
            "{at_least}{} {plural} not granted; to grant, add to spec.permissions of the manifest: ",
            self.count
        )?;
        for (position, missing) in self.first.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{}", missing.grant())?;
        }
        match self.count - self.first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

fn combinations(rule: &Rule) -> impl Iterator<Item = (&Rule, &str, &str, &str)> {
    rule.groups.iter().flat_map(move |group| {
        rule.resources.iter().flat_map(move |resource| {
            rule.verbs.iter().map(move |verb| (rule, group.as_str(), resource.as_str(), verb.as_str()))
        })
    })
}

impl Missing {
    fn of(access: &Access<'_>) -> Self {
        Self {
            verb: access.verb.to_owned(),
            group: access.group.to_owned(),
            resource: match access.subresource {
                None => access.resource.to_owned(),
                Some(subresource) => format!("{}/{subresource}", access.resource),
            },
            place: match access.place {
                Place::Cluster => None,
                Place::Namespace(namespace) => Some(namespace.into()),
                Place::AllNamespaces => Some(EVERY.into()),
            },
            name: access.name.map(Into::into),
            cluster: None,
        }
    }

    /// The same access in a remote cluster.
    #[must_use]
    pub fn in_remote_cluster(self, name: &str) -> Self {
        Self { cluster: Some(name.into()), ..self }
    }

    /// The line to add to the `permissions` of the manifest, or of the remote cluster there.
    #[must_use]
    pub fn grant(&self) -> String {
        let namespaces =
            self.place.as_ref().map(|place| format!(", namespaces: [{place:?}]")).unwrap_or_default();
        // All values are quoted, because `*` and some names have another meaning in YAML.
        format!(
            "- {{ groups: [{:?}], resources: [{:?}], verbs: [{:?}]{namespaces} }}",
            self.group, self.resource, self.verb
        )
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no permission to {} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        match self.place.as_deref() {
            None => {}
            Some(EVERY) => f.write_str(" in all namespaces")?,
            Some(namespace) => write!(f, " in namespace {namespace:?}")?,
        }
        match &self.cluster {
            None => f.write_str("; to grant it, add to spec.permissions of the plugin's manifest: ")?,
            Some(cluster) => write!(
                f,
                " of cluster {cluster:?}; to grant it, add to the permissions of cluster {cluster:?} in spec.remoteClusters of \
                 the plugin's manifest: "
            )?,
        }
        f.write_str(&self.grant())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> Vec<String> {
        entries.iter().map(ToString::to_string).collect()
    }

    fn rule(group: &str, resource: &str, verbs: &[&str], namespaces: &[&str], names: &[&str]) -> Rule {
        let (namespaces, names) = (list(namespaces), list(names));
        Rule { groups: list(&[group]), resources: list(&[resource]), verbs: list(verbs), namespaces, names }
    }

    fn allows(rule: Rule, access: Access<'_>) -> bool {
        Grants::new(vec![rule]).check(&access).is_ok()
    }

    const GET_POD: Access<'static> = Access {
        verb: "get",
        group: "",
        resource: "pods",
        subresource: None,
        place: Place::Namespace("a"),
        name: Some("p"),
    };

    #[test]
    fn nothing_is_granted_without_a_rule() {
        assert!(Grants::default().check(&GET_POD).is_err());
        assert_eq!(Grants::default().scope("get", "", "pods", true), Scope::None);
        assert!(Grants::default().visibility("get", "", "pods").sees_nothing());
    }

    #[test]
    fn every_part_of_an_access_must_be_covered() {
        assert!(allows(rule("", "pods", &["get"], &["a"], &[]), GET_POD));
        assert!(allows(rule("*", "*", &["*"], &["*"], &[]), GET_POD));
        for narrow in [
            rule("apps", "pods", &["get"], &["a"], &[]),
            rule("", "nodes", &["get"], &["a"], &[]),
            rule("", "pods", &["list", "watch"], &["a"], &[]),
            rule("", "pods", &["get"], &["b"], &[]),
            rule("", "pods", &["get"], &["a"], &["q"]),
            rule("", "pods/status", &["get"], &["a"], &[]),
        ] {
            assert!(!allows(narrow.clone(), GET_POD), "{narrow:?}");
        }
    }

    #[test]
    fn two_rules_do_not_add_up_to_one() {
        let grants = Grants::new(vec![
            rule("", "pods", &["get"], &["b"], &[]),
            rule("", "pods", &["list"], &["a"], &[]),
        ]);
        assert!(grants.check(&GET_POD).is_err());
    }

    #[test]
    fn subresources_are_named_on_their_own() {
        let status = Access { subresource: Some("status"), ..GET_POD };
        for covering in ["pods/status", "*/status", "pods/*", "*/*", "*"] {
            assert!(allows(rule("", covering, &["get"], &["*"], &[]), status), "{covering}");
        }
        for other in ["pods", "pods/log", "nodes/*", "*/scale"] {
            assert!(!allows(rule("", other, &["get"], &["*"], &[]), status), "{other}");
        }
        assert!(!allows(rule("", "pods/*", &["get"], &["*"], &[]), GET_POD));
        assert!(!allows(rule("", "*/*", &["get"], &["*"], &[]), GET_POD));
    }

    #[test]
    fn namespaces_say_where_a_rule_stands() {
        let cluster = Access { place: Place::Cluster, ..GET_POD };
        let all = Access { place: Place::AllNamespaces, name: None, ..GET_POD };
        let allowed = |namespaces: &[&str]| {
            let grants = Grants::new(vec![rule("", "pods", &["get"], namespaces, &[])]);
            [GET_POD, cluster, all].map(|access| grants.check(&access).is_ok())
        };
        assert_eq!(allowed(&[]), [false, true, false]);
        assert_eq!(allowed(&["a"]), [true, false, false]);
        assert_eq!(allowed(&["*"]), [true, true, true]);
    }

    #[test]
    fn a_rule_with_names_covers_no_access_without_one() {
        let named = rule("", "pods", &["list", "create"], &["a"], &["p"]);
        assert!(allows(named.clone(), Access { verb: "create", ..GET_POD }));
        assert!(!allows(named.clone(), Access { verb: "list", name: None, ..GET_POD }));
        assert!(!allows(named, Access { verb: "create", name: None, ..GET_POD }));
    }

    #[test]
    fn scope_is_the_union_of_the_rules() {
        let grants = Grants::new(vec![
            rule("", "pods", &["list"], &["b", "a"], &[]),
            rule("", "pods", &["list"], &["c", "a"], &["p"]),
            rule("", "pods", &["list"], &[], &[]),
            rule("", "pods", &["get"], &["*"], &[]),
        ]);
        assert_eq!(grants.scope("list", "", "pods", true), Scope::Some(list(&["a", "b", "c"])));
        assert_eq!(grants.scope("get", "", "pods", true), Scope::All);
        assert_eq!(grants.scope("watch", "", "pods", true), Scope::None);
        let grants = Grants::new(vec![
            rule("", "nodes", &["list"], &[], &[]),
            rule("", "csidrivers", &["list"], &["a"], &[]),
        ]);
        assert_eq!(grants.scope("list", "", "nodes", false), Scope::All);
        assert_eq!(grants.scope("list", "", "nodes", true), Scope::None);
        assert_eq!(grants.scope("list", "", "csidrivers", false), Scope::None);
    }

    #[test]
    fn the_missing_grant_reads_as_the_line_to_add() {
        let access = Access {
            group: "apps",
            resource: "deployments",
            subresource: Some("scale"),
            verb: "patch",
            ..GET_POD
        };
        let error = Grants::default().check(&access).unwrap_err();
        let line = r#"- { groups: ["apps"], resources: ["deployments/scale"], verbs: ["patch"], namespaces: ["a"] }"#;
        assert_eq!(error.grant(), line);
        assert_eq!(
            error.to_string(),
            format!(
                "no permission to patch deployments/scale.apps \"p\" in namespace \"a\"; \
                 to grant it, add to spec.permissions of the plugin's manifest: {line}"
            )
        );
    }

    #[test]
    fn what_is_missing_in_a_remote_cluster_names_the_cluster_and_its_list() {
        let missing = Grants::default().check(&GET_POD).unwrap_err().in_remote_cluster("east").to_string();
        let words = "no permission to get pods \"p\" in namespace \"a\" of cluster \"east\"; to grant it, add to the \
                     permissions of cluster \"east\" in spec.remoteClusters of the plugin's manifest: - { groups";
        assert!(missing.starts_with(words), "{missing}");
    }

    /// Adding the reported missing grant satisfies the check.
    #[test]
    fn adding_the_line_grants_the_access() {
        for place in [Place::Cluster, Place::Namespace("a"), Place::AllNamespaces] {
            for subresource in [None, Some("status")] {
                let access = Access { place, subresource, name: None, ..GET_POD };
                let line = Grants::default().check(&access).unwrap_err().grant();
                let rules: Vec<Rule> = serde_saphyr::from_str(&line).unwrap();
                assert!(rules[0].check().is_ok(), "{line}");
                assert!(Grants::new(rules).check(&access).is_ok(), "{line}");
            }
        }
    }

    #[test]
    fn what_is_asked_for_is_compared_with_what_is_granted() {
        let asked = |namespaces: &[&str]| [rule("", "pods", &["get", "patch"], namespaces, &[])];
        let missing = |granted: &[&str], wanted: &[&str]| {
            Grants::new(vec![rule("", "pods", &["get"], granted, &[])])
                .not_granted(&asked(wanted), None)
                .count
        };
        assert_eq!(missing(&["a"], &[]), 1);
        assert_eq!(missing(&["a"], &["a"]), 1);
        assert_eq!(missing(&["a"], &["a", "b"]), 3);
        assert_eq!(missing(&["a"], &["*"]), 2);
        assert_eq!(missing(&["*"], &["*"]), 1);
        // A Plugin of the cluster in namespace a cannot have more than that.
        let grants = Grants::new(vec![rule("", "pods", &["get"], &["a"], &[])]);
        let missing = grants.not_granted(&asked(&["*"]), Some("a"));
        let line = r#"verbs: ["patch"], namespaces: ["a"] }"#;
        assert!(missing.count == 1 && missing.to_string().ends_with(line), "{missing}");
    }

    /// A guest asks for a million accesses in some kilobytes; the host compares a bounded number and writes one line.
    #[test]
    fn what_is_not_granted_is_one_line_whatever_is_asked_for() {
        let many: Vec<String> = (0..1000).map(|n| format!("r{n}")).collect();
        let asked = Rule { groups: many.clone(), resources: many, ..rule("", "", &["get"], &[], &[]) };
        let missing = Grants::default().not_granted(&[asked], None);
        assert_eq!((missing.count, missing.first.len(), missing.is_complete), (10_000, 3, false));
        let text = missing.to_string();
        assert!(text.starts_with("at least 10000 permissions not granted; "), "{text}");
        assert!(text.ends_with(" and 9997 more") && !text.contains('\n') && text.len() < 400, "{text}");
        let one = Grants::default().not_granted(&[rule("", "pods", &["get"], &["a"], &[])], None).to_string();
        let line = r#"- { groups: [""], resources: ["pods"], verbs: ["get"], namespaces: ["a"] }"#;
        let wanted =
            format!("1 permission not granted; to grant, add to spec.permissions of the manifest: {line}");
        assert_eq!(one, wanted);
        assert!(Grants::default().not_granted(&[], None).is_empty());
    }

    #[test]
    fn rules_that_could_never_take_effect_are_refused() {
        let good = rule("", "pods", &["get"], &[], &[]);
        assert!(good.check().is_ok());
        for (field, bad) in [
            ("groups", Rule { groups: vec![], ..good.clone() }),
            ("groups", Rule { groups: list(&["apps/v1"]), ..good.clone() }),
            ("resources", Rule { resources: vec![], ..good.clone() }),
            ("resources", Rule { resources: list(&["Pod"]), ..good.clone() }),
            ("resources", Rule { resources: list(&["pods/"]), ..good.clone() }),
            ("verbs", Rule { verbs: vec![], ..good.clone() }),
            ("verbs", Rule { verbs: list(&["read"]), ..good.clone() }),
            ("names", Rule { names: list(&["*"]), ..good.clone() }),
            ("namespaces", Rule { namespaces: list(&[""]), ..good.clone() }),
        ] {
            assert_eq!(bad.check().unwrap_err().field, field, "{bad:?}");
        }
    }

    /// A `Visibility` decides as the rules do, for each object.
    #[test]
    fn visibility_agrees_with_the_rules() {
        use proptest::prelude::*;
        let some_of = |all: &'static [&'static str]| proptest::sample::subsequence(all, 0..=2);
        let rule = (
            some_of(&["", "apps", "*"]),
            some_of(&["pods", "pods/status", "*", "nodes"]),
            some_of(&["get", "list", "*"]),
            some_of(&["a", "b", "*"]),
            some_of(&["x", "y"]),
        )
            .prop_map(|(groups, resources, verbs, namespaces, names)| Rule {
                groups: list(&groups),
                resources: list(&resources),
                verbs: list(&verbs),
                namespaces: list(&namespaces),
                names: list(&names),
            });
        proptest!(|(rules in proptest::collection::vec(rule, 0..4))| {
            let grants = Grants::new(rules);
            let visible = grants.visibility("get", "", "pods");
            for namespace in [None, Some("a"), Some("b"), Some("c")] {
                for name in ["x", "y", "z"] {
                    let key = ObjectKey::new(namespace, name).unwrap();
                    prop_assert_eq!(visible.sees(&key), grants.may_see("get", "", "pods", &key), "{}", key);
                    prop_assert!(!visible.sees_all() || visible.sees(&key));
                    prop_assert!(!visible.sees_nothing() || !visible.sees(&key));
                    let covers = |(of, named): (Option<&str>, Option<&str>)| {
                        of.is_none_or(|of| of == namespace.unwrap_or_default())
                            && named.is_none_or(|named| named == name)
                    };
                    let covered = visible.scopes().is_none_or(|mut scopes| scopes.any(covers));
                    prop_assert_eq!(covered, visible.sees(&key), "{}", key);
                    let scope = grants.scope("get", "", "pods", namespace.is_some());
                    let in_scope = match scope {
                        Scope::None => false,
                        Scope::All => true,
                        Scope::Some(namespaces) => namespace.is_some_and(|n| namespaces.iter().any(|have| have == n)),
                    };
                    prop_assert!(in_scope || !visible.sees(&key), "{} is seen outside of the scope", key);
                }
            }
        });
    }
}
