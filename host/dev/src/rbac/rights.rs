//! [`Rights`]: single rights in the sense of RBAC, and the fewest rules that give them.
//!
//! Invariants: the rules give what was added and no more; no right is given twice; equal rights make equal rules, in one
//! order.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

/// Where a right holds: that of a ClusterRole, or of a Role in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RoleScope {
    /// All namespaces, and cluster-scoped objects.
    Cluster,
    Namespace(String),
}

/// The verb on one resource, for one name or all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    pub(crate) scope: RoleScope,
    pub(crate) group: String,
    /// With a subresource: `pods/status`.
    pub(crate) resource: String,
    /// None for all names.
    pub(crate) name: Option<String>,
    pub(crate) verb: Verb,
}

/// A verb; the order is that in which verbs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    Impersonate,
}

impl Verb {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Impersonate => "impersonate",
        }
    }
}

/// A rule of a Role or ClusterRole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RoleRule {
    pub(crate) group: String,
    pub(crate) resources: Vec<String>,
    /// Empty for all names.
    pub(crate) names: Vec<String>,
    pub(crate) verbs: Vec<Verb>,
    /// Who needs it.
    pub(crate) reasons: BTreeSet<String>,
}

/// Rights, each with those who need it.
#[derive(Debug, Default)]
pub(crate) struct Rights {
    rights: BTreeMap<Right, BTreeSet<String>>,
    /// How often one was added: a manifest can name the same right over and over.
    added: usize,
}

/// Rights that are worked with: far more than a cluster can have use for, and some tens of megabytes.
const MOST: usize = 100_000;
/// How often rights are added: some seconds.
const MOST_ADDED: usize = 10 * MOST;

const EVERY: &str = "*";

impl Rights {
    /// Adds a right.
    ///
    /// # Errors
    /// When there are too many.
    pub(crate) fn add(&mut self, right: Right, reason: &str) -> Result<()> {
        self.added += 1;
        if self.rights.len() >= MOST || self.added > MOST_ADDED {
            bail!(
                "{reason} needs more than {MOST} single rights: grant all namespaces (\"*\") or all names in its manifest"
            );
        }
        self.rights.entry(right).or_default().insert(reason.to_owned());
        Ok(())
    }

    /// The rules of each role, in their order.
    pub(crate) fn rules(&self) -> BTreeMap<RoleScope, Vec<RoleRule>> {
        type ByVerbs = (RoleScope, String, String, Option<String>);
        type ByNames = (RoleScope, String, String, bool, BTreeSet<Verb>);
        type ByResources = (RoleScope, String, Vec<String>, BTreeSet<Verb>);
        let mut verbs: BTreeMap<ByVerbs, (BTreeSet<Verb>, BTreeSet<String>)> = BTreeMap::new();
        for (Right { scope, group, resource, name, verb }, reasons) in self.without_covered() {
            let (verbs, of) = verbs.entry((scope, group, resource, name)).or_default();
            verbs.insert(verb);
            of.extend(reasons);
        }
        let mut names: BTreeMap<ByNames, (BTreeSet<String>, BTreeSet<String>)> = BTreeMap::new();
        for ((scope, group, resource, name), (verbs, reasons)) in verbs {
            let (names, of) = names.entry((scope, group, resource, name.is_some(), verbs)).or_default();
            names.extend(name);
            of.extend(reasons);
        }
        let mut resources: BTreeMap<ByResources, (Vec<String>, BTreeSet<String>)> = BTreeMap::new();
        for ((scope, group, resource, _, verbs), (names, reasons)) in names {
            let names = names.into_iter().collect();
            let (resources, of) = resources.entry((scope, group, names, verbs)).or_default();
            resources.push(resource);
            of.extend(reasons);
        }
        let mut rules: BTreeMap<RoleScope, Vec<RoleRule>> = BTreeMap::new();
        for ((scope, group, names, verbs), (resources, reasons)) in resources {
            let rule = RoleRule { group, resources, names, verbs: verbs.into_iter().collect(), reasons };
            rules.entry(scope).or_default().push(rule);
        }
        rules.values_mut().for_each(|rules| rules.sort());
        rules
    }

    /// The rights without those that a wider one gives; its reasons are theirs, too.
    fn without_covered(&self) -> BTreeMap<Right, BTreeSet<String>> {
        let mut left: BTreeMap<Right, BTreeSet<String>> = BTreeMap::new();
        for (right, reasons) in &self.rights {
            let widest = wider(right).into_iter().find(|wider| self.rights.contains_key(wider));
            left.entry(widest.unwrap_or_else(|| right.clone())).or_default().extend(reasons.iter().cloned());
        }
        left
    }
}

/// The rights that would give this one, the widest first.
fn wider(right: &Right) -> Vec<Right> {
    let mut wider = Vec::new();
    let subresource = right.resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
    for scope in [RoleScope::Cluster, right.scope.clone()] {
        for group in [EVERY, &right.group] {
            for resource in [Some(EVERY), subresource.as_deref(), Some(&right.resource)].into_iter().flatten()
            {
                for name in [None, right.name.clone()] {
                    let (group, resource) = (group.to_owned(), resource.to_owned());
                    wider.push(Right { scope: scope.clone(), group, resource, name, verb: right.verb });
                }
            }
        }
    }
    wider.retain(|wider| wider != right);
    wider
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rights from `scope group resource name verb`, with `-` for none, in every order the same.
    fn rules(rights: &[&str]) -> Vec<String> {
        let made = |rights: Vec<&&str>| {
            let mut all = Rights::default();
            for text in rights {
                let [scope, group, resource, name, verb] = text.split(' ').collect::<Vec<_>>()[..] else {
                    panic!()
                };
                let given = |text: &str| (text != "-").then(|| text.to_owned());
                let scope = given(scope).map_or(RoleScope::Cluster, RoleScope::Namespace);
                let verb = [Verb::Get, Verb::List, Verb::Watch]
                    .into_iter()
                    .find(|own| own.as_str() == verb)
                    .unwrap();
                let (group, resource) = (given(group).unwrap_or_default(), resource.to_owned());
                all.add(Right { scope, group, resource, name: given(name), verb }, text).unwrap();
            }
            let rules = all.rules();
            let line = |scope: &RoleScope, rule: &RoleRule| {
                let verbs: Vec<_> = rule.verbs.iter().map(|verb| verb.as_str()).collect();
                let (resources, names) = (rule.resources.join(","), rule.names.join(","));
                format!(
                    "{scope:?} {} {resources} [{names}] {} {}",
                    rule.group,
                    verbs.join(","),
                    rule.reasons.len()
                )
            };
            rules.iter().flat_map(|(scope, rules)| rules.iter().map(move |rule| line(scope, rule))).collect()
        };
        let once: Vec<String> = made(rights.iter().collect());
        assert_eq!(made(rights.iter().rev().collect()), once);
        once
    }

    #[test]
    fn rights_are_joined_by_verbs_then_names_then_resources() {
        assert_eq!(
            rules(&[
                "- - pods - get",
                "- - pods - list",
                "- - nodes - list",
                "- - nodes - get",
                "- apps deployments - get",
                "a - secrets x list",
                "a - secrets y list",
                "a - secrets z get",
                "b - pods/log - get",
            ]),
            [
                "Cluster  nodes,pods [] get,list 4",
                "Cluster apps deployments [] get 1",
                r#"Namespace("a")  secrets [x,y] list 2"#,
                r#"Namespace("a")  secrets [z] get 1"#,
                r#"Namespace("b")  pods/log [] get 1"#,
            ]
        );
    }

    #[test]
    fn what_a_wider_right_gives_is_not_given_again() {
        assert_eq!(
            rules(&["- - pods - get", "a - pods - get", "a - pods x get"]),
            ["Cluster  pods [] get 3"]
        );
        assert_eq!(rules(&["a - pods - get", "a - pods x get", "b - pods x get"]).len(), 2);
        assert_eq!(rules(&["- * * - get", "a apps deployments/scale x get"]), ["Cluster * * [] get 2"]);
        assert_eq!(rules(&["a * */scale - get", "a apps deployments/scale - get"]).len(), 1);
        // Other verbs, names and resources are not given by it.
        assert_eq!(
            rules(&["- - pods x get", "a - pods y get", "a - pods x list", "a - pods/log x get"]).len(),
            4
        );
    }

    #[test]
    fn very_many_rights_are_refused() {
        let mut rights = Rights::default();
        let right = |n: usize| Right {
            scope: RoleScope::Namespace(n.to_string()),
            group: String::new(),
            resource: "pods".to_owned(),
            name: None,
            verb: Verb::Get,
        };
        (0..MOST).for_each(|n| rights.add(right(n), "p").unwrap());
        let error = rights.add(right(MOST), "p").unwrap_err().to_string();
        assert!(error.starts_with("p needs more than 100000"), "{error}");
        assert_eq!(rights.rules().len(), MOST);
        let mut rights = Rights::default();
        (0..MOST_ADDED).for_each(|_| rights.add(right(0), "p").unwrap());
        rights.add(right(0), "p").unwrap_err();
    }
}
