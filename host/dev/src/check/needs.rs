//! [`manifest`]: the manifest that a component needs, worked out from its description.
//!
//! Permissions that the component asks for, and those without which its watches are refused. Invariant: a host that has this
//! manifest refuses no watch, and misses no permission.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use pilothouse_plugin::{DataLimits, Description, Grants, Rule};

use pilothouse_hosting::inspect::resources::is_namespaced;
use pilothouse_hosting::inspect::watches::watched;
use pilothouse_hosting::output::yaml_scalar;

/// The order in which verbs are written. `*` is kept: a host compares rules by their words.
const VERBS: [&str; 9] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*"];

/// Everything of a rule but its resources and verbs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Where {
    group: String,
    namespaces: Vec<String>,
    names: Vec<String>,
}

/// The permissions that the component needs, in an order of their own.
pub(crate) fn permissions(description: &Description) -> Vec<Rule> {
    let mut needed: BTreeMap<(Where, String), BTreeSet<usize>> = BTreeMap::new();
    let mut need =
        |group: &str, resource: &str, verbs: &[String], namespaces: &[String], names: &[String]| {
            let place = namespaces_of(group, resource, namespaces);
            let key = Where { group: group.to_owned(), namespaces: place, names: sorted(names) };
            let verbs = VERBS.iter().enumerate().filter(|(_, verb)| verbs.iter().any(|own| own == **verb));
            needed.entry((key, resource.to_owned())).or_default().extend(verbs.map(|(position, _)| position));
        };
    for rule in &description.permissions {
        for group in &rule.groups {
            for resource in &rule.resources {
                need(group, resource, &rule.verbs, &rule.namespaces, &rule.names);
            }
        }
    }
    // Granted as it is asked for, so that only what is missing is added.
    let asked = Grants::new(description.permissions.clone());
    let reads = ["get", "list", "watch"].map(str::to_owned);
    for watched in watched(description, &asked, DataLimits::default().informers) {
        if watched.scopes.is_ok() {
            continue;
        }
        for watch in description.watches.iter().filter(|watch| watch.kind == *watched.kind) {
            let everywhere = || match watched.resource.namespaced {
                Some(false) => Vec::new(),
                _ => vec!["*".to_owned()],
            };
            let namespaces = watch.namespaces.clone().unwrap_or_else(everywhere);
            need(&watched.kind.group, &watched.resource.plural, &reads, &namespaces, &[]);
        }
    }
    // Resources with the same verbs in the same place are one rule.
    let mut rules: BTreeMap<(Where, BTreeSet<usize>), Vec<String>> = BTreeMap::new();
    for ((place, resource), verbs) in needed {
        rules.entry((place, verbs)).or_default().push(resource);
    }
    let rule = |((place, verbs), resources): ((Where, BTreeSet<usize>), Vec<String>)| Rule {
        groups: vec![place.group],
        resources,
        verbs: verbs.into_iter().map(|position| VERBS[position].to_owned()).collect(),
        namespaces: place.namespaces,
        names: place.names,
    };
    rules.into_iter().map(rule).collect()
}

/// Where a permission for a resource has to be granted. Without namespaces it is one for cluster-scoped objects alone.
fn namespaces_of(group: &str, resource: &str, asked: &[String]) -> Vec<String> {
    let plural = resource.split('/').next().unwrap_or(resource);
    match is_namespaced(group, plural) {
        Some(true) if asked.is_empty() => vec!["*".to_owned()],
        _ if asked.iter().any(|namespace| namespace == "*") => vec!["*".to_owned()],
        _ => sorted(asked),
    }
}

fn sorted(list: &[String]) -> Vec<String> {
    list.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

/// The text of a manifest for a component of this file name: its permissions and hosts.
pub(crate) fn manifest(name: &str, component: &str, description: &Description) -> String {
    let mut text = format!(
        "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata:\n  name: {}\nspec:\n  source:\n    file: {}\n",
        yaml_scalar(name),
        yaml_scalar(component)
    );
    let rules = permissions(description);
    if rules.is_empty() {
        text += "  permissions: []\n";
    } else {
        text += "  permissions:\n";
    }
    for rule in rules {
        let list = |entries: &[String]| {
            format!("[{}]", entries.iter().map(|entry| yaml_scalar(entry)).collect::<Vec<_>>().join(", "))
        };
        let _ = write!(
            text,
            "    - {{ groups: {}, resources: {}, verbs: {}",
            list(&rule.groups),
            list(&rule.resources),
            list(&rule.verbs)
        );
        for (field, entries) in [("namespaces", &rule.namespaces), ("names", &rule.names)] {
            if !entries.is_empty() {
                let _ = write!(text, ", {field}: {}", list(entries));
            }
        }
        text += " }\n";
    }
    if !description.outgoing_hosts.is_empty() {
        text += "  outgoingHosts:\n";
        for host in &description.outgoing_hosts {
            let _ = writeln!(text, "    - {:?}", host.to_string());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use pilothouse_plugin::{DescriptorLimits, Manifest, World};

    use super::*;

    fn description(fields: &str) -> Description {
        let text = format!(r#"{{"apiVersion":"pilothouse.dev/describe/v1alpha1","name":"p",{fields}}}"#);
        Description::parse(text.as_bytes(), World::Reconciler, &DescriptorLimits::default()).unwrap()
    }

    fn permission_lines(fields: &str) -> Vec<String> {
        let text = manifest("p", "p.wasm", &description(fields));
        text.lines().filter_map(|line| line.strip_prefix("    - ")).map(str::to_owned).collect()
    }

    const ASKS: &str = r#""watches":[{"version":"v1","kind":"Node"},{"version":"v1","kind":"Namespace"},{"version":"v1","kind":"Pod","namespaces":["b","a"]},
        {"group":"example.org","version":"v1","kind":"Foo"}],
        "permissions":[{"groups":[""],"resources":["nodes","pods"],"verbs":["watch","get","list"],"namespaces":["*"]},
        {"groups":[""],"resources":["configmaps"],"verbs":["*"],"namespaces":["reports"],"names":["on"]},
        {"groups":["apps"],"resources":["deployments/*"],"verbs":["get"]}],
        "outgoingHosts":["Search.example.org:9200","*.example.net"]"#;

    #[test]
    fn what_is_asked_for_and_what_the_watches_need_is_written_as_rules() {
        assert_eq!(
            permission_lines(ASKS),
            [
                r#"{ groups: [""], resources: [namespaces], verbs: [get, list, watch] }"#,
                r#"{ groups: [""], resources: [nodes, pods], verbs: [get, list, watch], namespaces: ["*"] }"#,
                r#"{ groups: [""], resources: [configmaps], verbs: ["*"], namespaces: [reports], names: ["on"] }"#,
                r#"{ groups: [apps], resources: ["deployments/*"], verbs: [get], namespaces: ["*"] }"#,
                r#"{ groups: [example.org], resources: [foos], verbs: [get, list, watch], namespaces: ["*"] }"#,
                r#""search.example.org:9200""#,
                r#""*.example.net""#,
            ]
        );
    }

    #[test]
    fn the_manifest_grants_all_that_the_description_asks_for() {
        for fields in
            [ASKS, r#""watches":[{"version":"v1","kind":"Secret","namespaces":["a"]}]"#, r#""watches":[]"#]
        {
            let description = description(fields);
            // A name that YAML takes for something else.
            let manifest = Manifest::parse(manifest("null", "My p.wasm", &description).as_bytes()).unwrap();
            assert_eq!(manifest.name, "null");
            assert_eq!(manifest.source.file.as_deref(), Some("My p.wasm"));
            let grants = Grants::new(manifest.permissions);
            assert!(grants.not_granted(&description.permissions, None).is_empty());
            assert!(manifest.outgoing_hosts.not_granted(&description.outgoing_hosts).is_empty());
            for watched in watched(&description, &grants, 256) {
                assert!(watched.scopes.is_ok(), "{watched:?}");
            }
        }
    }
}
