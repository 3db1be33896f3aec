//! [`of_plugin`] and [`of_host`]: the rights that a host needs for a plugin, and those that it needs for itself.
//!
//! What the host does with its own identity: it lists and watches for all plugins, and makes the live calls of plugins without
//! a ServiceAccount. Those of a plugin with one are made by impersonation, so the account needs the rights.

use anyhow::{Result, bail};
use pilothouse_object::Gvk;
use pilothouse_plugin::{ConfigFrom, Description, Grants, Manifest, Rule, WatchScope};

use super::rights::{Right, Rights, RoleScope, Verb};
use crate::inspect::interfaces::Interfaces;
use crate::inspect::resources::{is_builtin, is_namespaced};
use crate::inspect::watches::{Unwatchable, watched};

/// What is known of a plugin.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) manifest: Manifest,
    pub(crate) interfaces: Interfaces,
    /// None when only a host can find out what the plugin watches, since the configuration is on the cluster.
    pub(crate) description: Option<Description>,
}

/// What is known of the host.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    /// The namespace of its ServiceAccount, and of its Pod.
    pub(crate) namespace: String,
    pub(crate) account: String,
    /// Namespace and name of the Lease of its leader election.
    pub(crate) lease: Option<(String, String)>,
    /// Whether its admin endpoints take tokens of the cluster.
    pub(crate) admin_tokens: bool,
}

/// The verbs of live calls.
const LIVE: [(&str, Verb); 7] = [
    ("get", Verb::Get),
    ("list", Verb::List),
    ("create", Verb::Create),
    ("update", Verb::Update),
    ("patch", Verb::Patch),
    ("delete", Verb::Delete),
    ("deletecollection", Verb::DeleteCollection),
];

const EVERY: &str = "*";

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == EVERY || entry == wanted)
}

/// Adds the rights that a host needs for a plugin.
///
/// # Errors
/// When a host refuses the plugin, or a permission has no form in RBAC.
pub(crate) fn of_plugin(plugin: &Plugin, rights: &mut Rights) -> Result<()> {
    let Plugin { manifest, interfaces, description } = plugin;
    let name = manifest.name.as_str();
    match description {
        Some(description) => add_watches(manifest, description, rights)?,
        None => add_all_reads(manifest, None, rights)?,
    }
    let has_custom_kinds = match description {
        Some(description) => description.watches.iter().any(|watch| !is_builtin(&watch.kind.group)),
        None => manifest.permissions.iter().flat_map(|rule| &rule.groups).any(|group| !is_builtin(group)),
    };
    if has_custom_kinds {
        for verb in [Verb::List, Verb::Watch] {
            let right = cluster("apiextensions.k8s.io", "customresourcedefinitions", None, verb);
            rights.add(right, &format!("{name}, notice of kinds that come later"))?;
        }
    }
    for source in &manifest.config_from {
        let (resource, object) = match source {
            ConfigFrom::File(_) => continue,
            ConfigFrom::Secret(object) => ("secrets", object),
            ConfigFrom::ConfigMap(object) => ("configmaps", object),
        };
        for verb in [Verb::List, Verb::Watch] {
            let right = within(&object.namespace, "", resource, Some(&object.name), verb);
            rights.add(right, &format!("{name}, spec.configFrom"))?;
        }
    }
    match &manifest.service_account {
        Some(account) => {
            let reason = format!("{name}, spec.serviceAccount");
            let right =
                within(&account.namespace, "", "serviceaccounts", Some(&account.name), Verb::Impersonate);
            rights.add(right, &reason)?;
            for group in account.service_account_groups() {
                rights.add(cluster("", "groups", Some(&group), Verb::Impersonate), &reason)?;
            }
            let right = cluster("authorization.k8s.io", "subjectaccessreviews", None, Verb::Create);
            rights.add(right, &reason)?;
        }
        None => {
            if interfaces.imports_of_contract("client") {
                add_live_calls(manifest, rights)?;
            }
            if interfaces.imports_of_contract("events") {
                add_events(manifest, rights)?;
            }
        }
    }
    Ok(())
}

/// Adds the rights of the host itself.
pub(crate) fn of_host(host: &Host, rights: &mut Rights) -> Result<()> {
    for verb in [Verb::Create, Verb::Patch] {
        rights.add(within(&host.namespace, "", "events", None, verb), "Events of the host")?;
    }
    if let Some((namespace, name)) = &host.lease {
        let lease = |name, verb| within(namespace, "coordination.k8s.io", "leases", name, verb);
        for verb in [Verb::Get, Verb::Update, Verb::Watch] {
            rights.add(lease(Some(name), verb), "leader election")?;
        }
        // A name is not known to RBAC before the object exists.
        rights.add(lease(None, Verb::Create), "leader election")?;
    }
    if host.admin_tokens {
        for (group, resource) in
            [("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")]
        {
            rights.add(cluster(group, resource, None, Verb::Create), "tokens of the admin endpoints")?;
        }
    }
    Ok(())
}

fn cluster(group: &str, resource: &str, name: Option<&str>, verb: Verb) -> Right {
    right(RoleScope::Cluster, group, resource, name, verb)
}

fn within(namespace: &str, group: &str, resource: &str, name: Option<&str>, verb: Verb) -> Right {
    right(RoleScope::Namespace(namespace.to_owned()), group, resource, name, verb)
}

fn right(scope: RoleScope, group: &str, resource: &str, name: Option<&str>, verb: Verb) -> Right {
    Right {
        scope,
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.map(str::to_owned),
        verb,
    }
}

/// The informers of a plugin.
fn add_watches(manifest: &Manifest, description: &Description, rights: &mut Rights) -> Result<()> {
    let grants = Grants::new(manifest.permissions.clone());
    for watched in watched(description, &grants, manifest.limits.data.informers) {
        let (group, plural) = (&watched.kind.group, &watched.resource.plural);
        // A plural that a permission names is the right one; one that `*` covers may be another.
        let is_named = manifest
            .permissions
            .iter()
            .any(|rule| rule.resources.contains(plural) && has(&rule.groups, group));
        match watched.scopes {
            Ok(scopes) if is_named || watched.resource.namespaced.is_some() => {
                for WatchScope { namespace, name } in &scopes {
                    let scope = namespace.clone().map_or(RoleScope::Cluster, RoleScope::Namespace);
                    for verb in [Verb::List, Verb::Watch] {
                        rights.add(
                            right(scope.clone(), group, plural, name.as_deref(), verb),
                            &manifest.name,
                        )?;
                    }
                }
            }
            Ok(_) | Err(Unwatchable::PluralUnknown(_)) => {
                add_all_reads(manifest, Some(watched.kind), rights)?;
            }
            Err(Unwatchable::Refused(reason)) => bail!("a host refuses it: {reason}"),
        }
    }
    Ok(())
}

/// All that a plugin may be able to watch: of the group of a kind whose plural is not known, or of all groups.
fn add_all_reads(manifest: &Manifest, kind: Option<&Gvk>, rights: &mut Rights) -> Result<()> {
    for rule in &manifest.permissions {
        for group in rule
            .groups
            .iter()
            .filter(|group| kind.is_none_or(|kind| **group == kind.group || *group == EVERY))
        {
            let group = kind.map_or(group, |kind| &kind.group);
            for resource in rule.resources.iter().filter(|resource| !resource.contains('/')) {
                for verb in
                    [Verb::List, Verb::Watch].into_iter().filter(|verb| has(&rule.verbs, verb.as_str()))
                {
                    add_everywhere(rule, group, resource, verb, &manifest.name, rights)?;
                }
            }
        }
    }
    Ok(())
}

/// The live calls of a plugin that makes them as the host.
fn add_live_calls(manifest: &Manifest, rights: &mut Rights) -> Result<()> {
    for (number, rule) in manifest.permissions.iter().enumerate() {
        for (group, resource) in
            rule.groups.iter().flat_map(|group| rule.resources.iter().map(move |r| (group, r)))
        {
            if resource.ends_with("/*") {
                bail!(
                    "spec.permissions[{number}]: {resource:?} has no form in RBAC, which knows no wildcard for the subresources of one resource; name each subresource, as pods/status"
                );
            }
            for (_, verb) in LIVE.iter().filter(|(verb, _)| has(&rule.verbs, verb)) {
                // A permission for some names allows no list, as RBAC does not.
                if rule.names.is_empty() || !matches!(verb, Verb::List | Verb::DeleteCollection) {
                    add_everywhere(rule, group, resource, *verb, &manifest.name, rights)?;
                }
            }
        }
    }
    Ok(())
}

/// The Kubernetes Events of a plugin that records them as the host. They are written in core/v1, whichever group is granted.
fn add_events(manifest: &Manifest, rights: &mut Rights) -> Result<()> {
    for rule in &manifest.permissions {
        let group = ["", "events.k8s.io"].into_iter().any(|group| has(&rule.groups, group));
        if group && has(&rule.resources, "events") && has(&rule.verbs, "create") && rule.names.is_empty() {
            for verb in [Verb::Create, Verb::Patch] {
                add_everywhere(rule, "", "events", verb, &format!("{}, Events", manifest.name), rights)?;
            }
        }
    }
    Ok(())
}

/// A verb wherever a rule of a manifest grants it.
fn add_everywhere(
    rule: &Rule,
    group: &str,
    resource: &str,
    verb: Verb,
    reason: &str,
    rights: &mut Rights,
) -> Result<()> {
    let namespaced = is_namespaced(group, resource.split('/').next().unwrap_or(resource))
        .filter(|_| !resource.starts_with(EVERY));
    let everywhere = rule.namespaces.iter().any(|namespace| namespace == EVERY);
    let scopes: Vec<RoleScope> = match (everywhere, &*rule.namespaces) {
        (true, _) => vec![RoleScope::Cluster],
        // Without namespaces a permission is one for cluster-scoped objects, and with some it is none for them.
        (false, []) if namespaced == Some(true) => Vec::new(),
        (false, []) => vec![RoleScope::Cluster],
        (false, _) if namespaced == Some(false) => Vec::new(),
        (false, some) => some.iter().cloned().map(RoleScope::Namespace).collect(),
    };
    // RBAC does not know the name of an object before it exists.
    let names: Vec<Option<&str>> = match &*rule.names {
        [] => vec![None],
        _ if verb == Verb::Create => vec![None],
        names => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    for scope in scopes {
        for name in &names {
            rights.add(right(scope.clone(), group, resource, *name, verb), reason)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pilothouse_plugin::{DescriptorLimits, World};

    use super::*;
    use crate::inspect::interfaces::Import;

    fn plugin(spec: &str, watches: &str, imports: &[&str]) -> Plugin {
        let head = "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: {name: p}\nspec:";
        let text = format!(
            r#"{{"apiVersion":"pilothouse.dev/describe/v1alpha1","name":"p","watches":[{watches}]}}"#
        );
        let description =
            Description::parse(text.as_bytes(), World::Reconciler, &DescriptorLimits::default());
        let import =
            |name: &&str| Import { name: format!("pilothouse:controller/{name}@0.1.0"), meaning: "" };
        Plugin {
            manifest: Manifest::parse(format!("{head} {spec}\n").as_bytes()).unwrap(),
            interfaces: Interfaces { imports: imports.iter().map(import).collect(), ..Interfaces::default() },
            description: Some(description.unwrap()),
        }
    }

    /// A line for each rule: `scope group resources [names] verbs`.
    fn rules(plugin: &Plugin) -> Result<Vec<String>> {
        let mut rights = Rights::default();
        of_plugin(plugin, &mut rights)?;
        let mut lines = Vec::new();
        for (scope, rules) in rights.rules() {
            let scope = match scope {
                RoleScope::Cluster => "*".to_owned(),
                RoleScope::Namespace(namespace) => namespace,
            };
            for rule in rules {
                let verbs: Vec<_> = rule.verbs.iter().map(|verb| verb.as_str()).collect();
                let (resources, names) = (rule.resources.join(","), rule.names.join(","));
                lines.push(format!("{scope} {} {resources} [{names}] {}", rule.group, verbs.join(",")));
            }
        }
        Ok(lines)
    }

    const PODS: &str = r#"{"version":"v1","kind":"Pod"}"#;
    const FOOS: &str = r#"{"group":"example.org","version":"v1","kind":"Foo"}"#;

    #[test]
    fn a_host_needs_what_it_does_itself_and_no_verb_more() {
        let spec = r#"{permissions: [
            {groups: [""], resources: [pods], verbs: [get, list, watch], namespaces: [b, a]},
            {groups: [""], resources: [nodes], verbs: [get], namespaces: ["*"]},
            {groups: [""], resources: [configmaps, configmaps/x], verbs: ["*"], namespaces: [a], names: [one]},
            {groups: [""], resources: [secrets, namespaces], verbs: [get]}]}"#;
        let watches = ["a  pods [] list,watch", "b  pods [] list,watch"];
        // Without the import there are no live calls.
        assert_eq!(rules(&plugin(spec, PODS, &["cache"])).unwrap(), watches);
        assert_eq!(
            rules(&plugin(spec, PODS, &["client"])).unwrap(),
            [
                "*  namespaces,nodes [] get",
                "a  configmaps,configmaps/x [] create",
                "a  configmaps,configmaps/x [one] get,update,patch,delete",
                "a  pods [] get,list,watch",
                "b  pods [] get,list,watch",
            ]
        );
    }

    #[test]
    fn with_an_account_the_host_watches_and_impersonates_exactly_it() {
        let spec = r#"{serviceAccount: {namespace: a, name: robot}, permissions: [
            {groups: [""], resources: [pods, events], verbs: ["*"], namespaces: ["*"]}]}"#;
        assert_eq!(
            rules(&plugin(spec, PODS, &["client", "events"])).unwrap(),
            [
                "*  groups [system:authenticated,system:serviceaccounts,system:serviceaccounts:a] impersonate",
                "*  pods [] list,watch",
                "* authorization.k8s.io subjectaccessreviews [] create",
                "a  serviceaccounts [robot] impersonate",
            ]
        );
    }

    #[test]
    fn events_and_configuration_need_rights_of_their_own() {
        let spec = r#"{configFrom: [{secretRef: {namespace: c, name: s}}, {file: /f}], permissions: [
            {groups: [events.k8s.io], resources: [events], verbs: [create], namespaces: [a]},
            {groups: [""], resources: [pods], verbs: [list, watch], namespaces: ["*"], names: [one]}]}"#;
        let pods = r#"{"version":"v1","kind":"Pod","namespaces":["a"]}"#;
        assert_eq!(
            rules(&plugin(spec, pods, &["events"])).unwrap(),
            ["a  events [] create,patch", "a  pods [one] list,watch", "c  secrets [s] list,watch"]
        );
        // With a configuration that only a host knows it may watch all that is granted.
        let unknown = Plugin { description: None, ..plugin(spec, pods, &[]) };
        assert_eq!(rules(&unknown).unwrap(), ["*  pods [one] list,watch", "c  secrets [s] list,watch"]);
    }

    #[test]
    fn a_custom_kind_is_watched_under_the_plural_that_the_permissions_name() {
        let granted = |resources: &str| {
            format!(
                "{{permissions: [{{groups: [example.org], resources: [{resources}], verbs: [list, watch], namespaces: [a]}}]}}"
            )
        };
        let definitions = "* apiextensions.k8s.io customresourcedefinitions [] list,watch";
        for (resources, wanted) in [
            ("foos, bars", "a example.org foos [] list,watch"),
            // Guesses that a cluster may not confirm: all that may be meant.
            ("fooes, bars", "a example.org bars,fooes [] list,watch"),
            ("\"*\"", "a example.org * [] list,watch"),
        ] {
            assert_eq!(rules(&plugin(&granted(resources), FOOS, &[])).unwrap(), [definitions, wanted]);
        }
    }

    #[test]
    fn what_cannot_be_given_is_an_error_that_names_it() {
        let error = |spec: &str| rules(&plugin(spec, PODS, &["client"])).unwrap_err().to_string();
        assert!(error("{}").contains("a host refuses it: cannot watch v1/Pod"));
        let spec =
            r#"{permissions: [{groups: [""], resources: [pods, pods/*], verbs: ["*"], namespaces: ["*"]}]}"#;
        let error = error(spec);
        assert!(error.contains("spec.permissions[0]: \"pods/*\"") && error.contains("name each"), "{error}");
    }
}
