//! [`Rule`]: one grant, and the accesses that it covers. The wildcards are those of RBAC. [`super::Grants`] evaluates
//! rules; manifests and descriptors contain and validate them.

use super::Place;

/// One grant in a manifest, or one permission that a descriptor asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// API groups; `""` is the core group, `"*"` all groups.
    pub groups: Vec<String>,
    /// Plural resource names: `pods`, `pods/status`, `pods/*` (every subresource of pods), `*/scale`, `*` (all
    /// resources).
    pub resources: Vec<String>,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or `"*"`.
    pub verbs: Vec<String>,
    /// Namespaces. An empty list covers cluster-scoped objects only; `"*"` covers all namespaces and cluster-scoped
    /// objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Names of objects; an empty list covers all names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// The wildcard for all groups, resources, verbs or namespaces.
pub(super) const EVERY: &str = "*";

const VERBS: [&str; 9] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", EVERY];

fn any(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == EVERY || entry == wanted)
}

impl Rule {
    /// Detects parts that could never take effect, such as a misspelt verb, because a grant without effect would be
    /// noticed late. The error has field, reason and remedy.
    pub(crate) fn check(&self) -> Result<(), RuleError> {
        for (field, list, remedy) in [
            ("groups", &self.groups, "name an API group, \"\" for the core group, or \"*\""),
            ("resources", &self.resources, "name a resource in the plural, such as pods, or \"*\""),
            ("verbs", &self.verbs, "name a verb, such as get, or \"*\""),
        ] {
            if list.is_empty() {
                return Err(RuleError {
                    field,
                    reason: "it is empty: the rule grants nothing".into(),
                    remedy,
                });
            }
        }
        if let Some(verb) = self.verbs.iter().find(|verb| !VERBS.contains(&verb.as_str())) {
            let remedy =
                "the verbs are get, list, watch, create, update, patch, delete, deletecollection and \"*\"";
            return Err(RuleError { field: "verbs", reason: format!("{verb:?} is not a verb"), remedy });
        }
        if let Some(resource) = self.resources.iter().find(|resource| !is_resource(resource)) {
            let remedy = "use the plural in lower case, as pods, pods/status, pods/*, */scale or *";
            return Err(RuleError {
                field: "resources",
                reason: format!("{resource:?} is not a resource"),
                remedy,
            });
        }
        if let Some(group) =
            self.groups.iter().find(|group| group.contains('/') || **group != group.to_lowercase())
        {
            let remedy = "name the group without its version, as apps, or \"\" for the core group";
            return Err(RuleError {
                field: "groups",
                reason: format!("{group:?} is not an API group"),
                remedy,
            });
        }
        for (field, list) in [("namespaces", &self.namespaces), ("names", &self.names)] {
            if list.iter().any(String::is_empty) {
                let remedy = "leave the entry out, or write \"*\" in namespaces for all";
                return Err(RuleError { field, reason: "an entry is empty".into(), remedy });
            }
        }
        if self.names.iter().any(|name| name == EVERY) {
            let remedy = "leave names out to cover every object";
            return Err(RuleError {
                field: "names",
                reason: "\"*\" is not the name of an object".into(),
                remedy,
            });
        }
        Ok(())
    }

    /// The number of single accesses that the rule lists.
    pub(crate) fn combinations(&self) -> usize {
        let lists = [&self.groups, &self.resources, &self.verbs, &self.namespaces, &self.names];
        lists.iter().fold(1, |product: usize, list| product.saturating_mul(list.len().max(1)))
    }

    pub(super) fn covers_group(&self, verb: &str, group: &str) -> bool {
        any(&self.verbs, verb) && any(&self.groups, group)
    }

    pub(super) fn covers_kind(
        &self,
        verb: &str,
        group: &str,
        resource: &str,
        subresource: Option<&str>,
    ) -> bool {
        self.covers_group(verb, group)
            && self.resources.iter().any(|entry| covers_resource(entry, resource, subresource))
    }

    pub(super) fn covers_place(&self, place: Place<'_>) -> bool {
        match place {
            Place::Cluster => self.namespaces.is_empty() || self.everywhere(),
            Place::Namespace(namespace) => any(&self.namespaces, namespace),
            Place::AllNamespaces => self.everywhere(),
        }
    }

    pub(super) fn covers_name(&self, name: Option<&str>) -> bool {
        self.names.is_empty() || name.is_some_and(|name| self.names.iter().any(|entry| entry == name))
    }

    pub(super) fn everywhere(&self) -> bool {
        self.namespaces.iter().any(|namespace| namespace == EVERY)
    }
}

/// An error in a rule; the caller adds which rule it is.
#[derive(Debug)]
pub(crate) struct RuleError {
    pub(crate) field: &'static str,
    pub(crate) reason: String,
    pub(crate) remedy: &'static str,
}

fn is_resource(entry: &str) -> bool {
    let word = |part: &str| {
        part == EVERY
            || (!part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.'))
    };
    entry.split('/').count() <= 2 && entry.split('/').all(word)
}

/// Whether a resource matches, as in RBAC. In addition `pods/*` covers the subresources of pods, not pods themselves.
fn covers_resource(entry: &str, resource: &str, subresource: Option<&str>) -> bool {
    if entry == EVERY {
        return true;
    }
    match (entry.split_once('/'), subresource) {
        (None, None) => entry == resource,
        (Some((of, sub)), Some(wanted)) => (of == EVERY || of == resource) && (sub == EVERY || sub == wanted),
        _ => false,
    }
}
