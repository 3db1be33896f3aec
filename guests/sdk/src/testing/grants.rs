//! Permissions, with the meaning that the host gives them: one rule must allow the whole request.

use serde::Deserialize;

use crate::Key;

/// One permission of the manifest.
#[derive(Deserialize, Clone, Debug)]
pub(super) struct Rule {
    groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default)]
    names: Vec<String>,
}

/// Where an access is.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    Cluster,
    Namespace(&'a str),
    AllNamespaces,
}

/// One access that a plugin requests.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    pub(super) verb: &'a str,
    pub(super) group: &'a str,
    /// Plural, with the subresource after a slash.
    pub(super) resource: &'a str,
    pub(super) place: Place<'a>,
    /// Empty for lists.
    pub(super) name: &'a str,
}

/// What a plugin may do.
#[derive(Default)]
pub(super) struct Grants {
    pub(super) rules: Vec<Rule>,
    /// Group, resource and verb of what was taken away.
    pub(super) revoked: Vec<[String; 3]>,
}

impl Grants {
    fn is_revoked(&self, verb: &str, group: &str, resource: &str) -> bool {
        self.revoked.iter().any(|revoked| revoked == &[group, resource, verb])
    }
}

fn any(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == "*" || entry == wanted)
}

impl Rule {
    fn covers_resource(&self, wanted: &str) -> bool {
        let matches = |entry: &String| {
            if entry == "*" || entry == wanted {
                return true;
            }
            match (entry.split_once('/'), wanted.split_once('/')) {
                (Some((of, sub)), Some((resource, subresource))) => {
                    (of == "*" || of == resource) && (sub == "*" || sub == subresource)
                }
                _ => false,
            }
        };
        self.resources.iter().any(matches)
    }

    fn covers_kind(&self, verb: &str, group: &str, resource: &str) -> bool {
        any(&self.verbs, verb) && any(&self.groups, group) && self.covers_resource(resource)
    }

    fn is_everywhere(&self) -> bool {
        self.namespaces.iter().any(|namespace| namespace == "*")
    }

    fn covers(&self, access: &Access<'_>) -> bool {
        let place = match access.place {
            Place::Cluster => self.namespaces.is_empty() || self.is_everywhere(),
            Place::Namespace(namespace) => any(&self.namespaces, namespace),
            Place::AllNamespaces => self.is_everywhere(),
        };
        place
            && self.covers_kind(access.verb, access.group, access.resource)
            && (self.names.is_empty() || self.names.iter().any(|name| name == access.name))
    }
}

/// Checks an access; the error has the permission to add.
pub(super) fn check(grants: &Grants, access: &Access<'_>) -> Result<(), String> {
    let Access { verb, group, resource, .. } = access;
    if !grants.is_revoked(verb, group, resource) && grants.rules.iter().any(|rule| rule.covers(access)) {
        return Ok(());
    }
    let namespaces = match access.place {
        Place::Cluster => String::new(),
        Place::Namespace(namespace) => format!(", namespaces: [{namespace:?}]"),
        Place::AllNamespaces => ", namespaces: [\"*\"]".to_owned(),
    };
    Err(format!(
        "the plugin may not {verb} {resource}: its descriptor does not ask for the permission \
         {{ groups: [{group:?}], resources: [{resource:?}], verbs: [{verb:?}]{namespaces} }}"
    ))
}

/// Whether an object may be seen.
pub(super) fn sees(grants: &Grants, verb: &str, group: &str, resource: &str, key: &Key) -> bool {
    let place = if key.is_namespaced() { Place::Namespace(&key.namespace) } else { Place::Cluster };
    check(grants, &Access { verb, group, resource, place, name: &key.name }).is_ok()
}

/// Whether any object of a kind may be seen, in one namespace or in all.
pub(super) fn sees_any(grants: &Grants, verb: &str, group: &str, resource: &str, namespace: &str) -> bool {
    if grants.is_revoked(verb, group, resource) {
        return false;
    }
    grants.rules.iter().any(|rule| {
        rule.covers_kind(verb, group, resource) && (namespace.is_empty() || any(&rule.namespaces, namespace))
    })
}
