//! [`of_plugin`] and [`of_host`]: the rights that a host needs for a plugin, and those that it needs for itself; [`of_run`]: those
//! for a plugin in another cluster than home; [`of_remote_cluster`]: those for its live calls to a cluster from elsewhere.
//!
//! What the host does with its own identity: it lists and watches for all plugins, and makes the live calls of plugins without
//! a ServiceAccount. Those of a plugin with one are made by impersonation, so the account needs the rights.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, bail};
use pilothouse_object::Gvk;
use pilothouse_plugin::{ConfigFrom, Description, Grants, Manifest, NamespacedName, Rule, WatchScope};

use super::rights::{Right, Rights, RoleScope, Verb};
use pilothouse_hosting::inspect::interfaces::Interfaces;
use pilothouse_hosting::inspect::resources::{is_builtin, is_namespaced};
use pilothouse_hosting::inspect::watches::{Unwatchable, watched};

/// What is known of a plugin.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) manifest: Arc<Manifest>,
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
    /// Whether it shares plugins with others, by Leases in the namespace of that one.
    pub(crate) shares_plugins: bool,
    /// Whether its admin endpoints take tokens of the cluster.
    pub(crate) admin_tokens: bool,
    /// Whether the host records Events about its Pod, whose UID is in its environment. Otherwise they are about the Namespace.
    pub(crate) in_pod: bool,
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

/// The namespace of Events about cluster-scoped objects.
const OF_CLUSTER_SCOPED: &str = "default";

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == EVERY || entry == wanted)
}

/// Adds the rights that a host needs in the home cluster for a plugin that runs there.
///
/// # Errors
/// When a host refuses the plugin, or a permission has no form in RBAC.
pub(crate) fn of_plugin(plugin: &Plugin, rights: &mut Rights) -> Result<()> {
    of_run(plugin, rights)?;
    of_config_sources(&plugin.manifest, rights)
}

/// Adds the rights that a host needs in a cluster that a plugin runs in, apart from those of
/// [`of_config_sources`].
///
/// # Errors
/// As [`of_plugin`].
pub(crate) fn of_run(plugin: &Plugin, rights: &mut Rights) -> Result<()> {
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
    match &manifest.service_account {
        Some(account) => {
            // What it watches and reads of caches is read by the host, which asks whether the account may.
            if interfaces.imports_of_contract("client") || interfaces.imports_of_contract("events") {
                add_impersonation(name, account, rights)?;
            }
            rights.add(access_reviews(), &format!("{name}, spec.serviceAccount"))?;
        }
        None => {
            if interfaces.imports_of_contract("client") {
                add_live_calls(name, "spec.permissions", &manifest.permissions, rights)?;
            }
            if interfaces.imports_of_contract("events") {
                add_events(manifest, rights)?;
            }
        }
    }
    Ok(())
}

/// Adds the rights that a host needs in a cluster that runs of a plugin elsewhere access with live calls.
///
/// # Errors
/// As [`of_plugin`].
pub(crate) fn of_remote_cluster(plugin: &Plugin, cluster: &str, rights: &mut Rights) -> Result<()> {
    let Plugin { manifest, interfaces, .. } = plugin;
    let Some(rules) = manifest.remote_permissions(cluster) else { return Ok(()) };
    if !interfaces.imports_of_contract("client") {
        return Ok(());
    }
    match &manifest.service_account {
        Some(account) => add_impersonation(&manifest.name, account, rights),
        None => {
            let list = format!("spec.remoteClusters, permissions in {cluster}");
            add_live_calls(&manifest.name, &list, rules, rights)
        }
    }
}

/// Adds the rights for the objects of `spec.configFrom`, which are in the home cluster wherever the plugin runs.
pub(crate) fn of_config_sources(manifest: &Manifest, rights: &mut Rights) -> Result<()> {
    let name = manifest.name.as_str();
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
        if manifest.service_account.is_some() {
            rights.add(access_reviews(), &format!("{name}, spec.serviceAccount"))?;
        }
    }
    Ok(())
}

/// Adds the rights of the host itself.
pub(crate) fn of_host(host: &Host, rights: &mut Rights) -> Result<()> {
    let reason = "Events of the host";
    let place = if host.in_pod { host.namespace.as_str() } else { OF_CLUSTER_SCOPED };
    for verb in [Verb::Create, Verb::Patch] {
        rights.add(within(place, "", "events", None, verb), reason)?;
    }
    if !host.in_pod {
        // Its UID is a part of the Events.
        rights.add(cluster("", "namespaces", Some(&host.namespace), Verb::Get), reason)?;
    }
    if let Some((namespace, name)) = &host.lease {
        let lease = |name, verb| within(namespace, "coordination.k8s.io", "leases", name, verb);
        for verb in [Verb::Get, Verb::Update, Verb::Watch] {
            rights.add(lease(Some(name), verb), "leader election")?;
        }
        // A name is not known to RBAC before the object exists.
        rights.add(lease(None, Verb::Create), "leader election")?;
        if host.shares_plugins {
            // The Lease of a host has a name of its own, and lists have none.
            for verb in [Verb::Get, Verb::List, Verb::Watch, Verb::Update, Verb::Delete] {
                rights.add(lease(None, verb), "Leases of hosts and shards")?;
            }
        }
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

/// Adds the rights to follow the Plugins of these namespaces, and to act as the accounts that they name. What these plugins
/// watch is known to a host alone.
pub(crate) fn of_plugin_objects(namespaces: &BTreeSet<String>, rights: &mut Rights) -> Result<()> {
    let reason = "Plugins of the cluster";
    for namespace in namespaces {
        let group = "pilothouse.dev";
        for verb in [Verb::List, Verb::Watch] {
            rights.add(within(namespace, group, "plugins", None, verb), reason)?;
        }
        rights.add(within(namespace, group, "plugins/status", None, Verb::Patch), reason)?;
    }
    of_tenants(namespaces, rights)
}

/// Adds the rights to act as the accounts of the namespaces of Plugins, in a cluster that these run in.
pub(crate) fn of_tenants(namespaces: &BTreeSet<String>, rights: &mut Rights) -> Result<()> {
    let reason = "Plugins of the cluster";
    for namespace in namespaces {
        rights.add(within(namespace, "", "serviceaccounts", None, Verb::Impersonate), reason)?;
        // Any account of the namespace has these groups.
        let account = NamespacedName { namespace: namespace.clone(), name: String::new() };
        for group in account.service_account_groups() {
            rights.add(cluster("", "groups", Some(&group), Verb::Impersonate), reason)?;
        }
    }
    rights.add(access_reviews(), reason)
}

/// The right to ask what an account may do.
fn access_reviews() -> Right {
    cluster("authorization.k8s.io", "subjectaccessreviews", None, Verb::Create)
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
    for (number, rule) in manifest.permissions.iter().enumerate() {
        let of_kind = |group: &&str| kind.is_none_or(|kind| *group == kind.group || *group == EVERY);
        for group in distinct(&rule.groups).into_iter().filter(of_kind) {
            let group = kind.map_or(group, |kind| &kind.group);
            for resource in distinct(&rule.resources).into_iter().filter(|resource| !resource.contains('/')) {
                for verb in
                    [Verb::List, Verb::Watch].into_iter().filter(|verb| has(&rule.verbs, verb.as_str()))
                {
                    let granted = Granted { list: "spec.permissions", number, rule };
                    add_everywhere(&granted, group, resource, verb, &manifest.name, rights)?;
                }
            }
        }
    }
    Ok(())
}

/// The rights to act as the account of a plugin.
fn add_impersonation(name: &str, account: &NamespacedName, rights: &mut Rights) -> Result<()> {
    let reason = format!("{name}, spec.serviceAccount");
    let right = within(&account.namespace, "", "serviceaccounts", Some(&account.name), Verb::Impersonate);
    rights.add(right, &reason)?;
    for group in account.service_account_groups() {
        rights.add(cluster("", "groups", Some(&group), Verb::Impersonate), &reason)?;
    }
    Ok(())
}

/// The live calls of a plugin that makes them as the host, under the rules of a list of its manifest.
fn add_live_calls(name: &str, list: &str, rules: &[Rule], rights: &mut Rights) -> Result<()> {
    for (number, rule) in rules.iter().enumerate() {
        let resources = distinct(&rule.resources);
        for (group, resource) in
            distinct(&rule.groups).into_iter().flat_map(|group| resources.iter().map(move |r| (group, *r)))
        {
            if resource.ends_with("/*") {
                bail!(
                    "{list}[{number}]: {resource:?} has no form in RBAC, which knows no wildcard for the subresources of one resource; name each subresource, as pods/status"
                );
            }
            for (_, verb) in LIVE.iter().filter(|(verb, _)| has(&rule.verbs, verb)) {
                // A permission for some names allows no list, as RBAC does not.
                if rule.names.is_empty() || !matches!(verb, Verb::List | Verb::DeleteCollection) {
                    add_everywhere(&Granted { list, number, rule }, group, resource, *verb, name, rights)?;
                }
            }
        }
    }
    Ok(())
}

/// The Kubernetes Events of a plugin that records them as the host. They are written in core/v1, whichever group is granted.
fn add_events(manifest: &Manifest, rights: &mut Rights) -> Result<()> {
    for (number, rule) in manifest.permissions.iter().enumerate() {
        let group = ["", "events.k8s.io"].into_iter().any(|group| has(&rule.groups, group));
        if group && has(&rule.resources, "events") && has(&rule.verbs, "create") && rule.names.is_empty() {
            for verb in [Verb::Create, Verb::Patch] {
                let reason = format!("{}, Events", manifest.name);
                let granted = Granted { list: "spec.permissions", number, rule };
                add_everywhere(&granted, "", "events", verb, &reason, rights)?;
            }
        }
    }
    Ok(())
}

/// The entries of a list of a manifest, each once.
fn distinct(list: &[String]) -> BTreeSet<&str> {
    list.iter().map(String::as_str).collect()
}

/// A rule of a manifest, and its place: the list that it is in, and its number there.
struct Granted<'a> {
    list: &'a str,
    number: usize,
    rule: &'a Rule,
}

/// A verb wherever a rule of a manifest grants it.
fn add_everywhere(
    granted: &Granted<'_>,
    group: &str,
    resource: &str,
    verb: Verb,
    reason: &str,
    rights: &mut Rights,
) -> Result<()> {
    let Granted { list, number, rule } = granted;
    let namespaced = is_namespaced(group, resource.split('/').next().unwrap_or(resource))
        .filter(|_| !resource.starts_with(EVERY));
    let everywhere = rule.namespaces.iter().any(|namespace| namespace == EVERY);
    let scopes: Vec<RoleScope> = match (everywhere, &*rule.namespaces) {
        (true, _) => vec![RoleScope::Cluster],
        // Without namespaces a permission is one for cluster-scoped objects, and with some it is none for them.
        (false, []) if namespaced == Some(true) => Vec::new(),
        (false, []) if group == EVERY || resource.starts_with(EVERY) => {
            let (field, wildcard) = if group == EVERY { ("groups", group) } else { ("resources", resource) };
            bail!(
                "{list}[{number}]: {wildcard:?} in {field} without namespaces has no form in RBAC, which cannot give cluster-scoped objects alone; name each group and resource, or all namespaces (\"*\")"
            );
        }
        (false, []) => vec![RoleScope::Cluster],
        (false, _) if namespaced == Some(false) => Vec::new(),
        (false, _) => {
            let namespaces = distinct(&rule.namespaces).into_iter();
            namespaces.map(|namespace| RoleScope::Namespace(namespace.to_owned())).collect()
        }
    };
    // RBAC does not know the name of an object before it exists. That of one with a subresource is in the path.
    let is_new = verb == Verb::Create && !resource.contains('/');
    let names: Vec<Option<&str>> = match &*rule.names {
        [] => vec![None],
        // It would be for tokens of every ServiceAccount, too.
        _ if is_new && resource == EVERY => bail!(
            "{list}[{number}]: create of \"*\" for some names has no form in RBAC, where it would be for all names of all subresources; name each resource"
        ),
        _ if is_new => vec![None],
        names => distinct(names).into_iter().map(Some).collect(),
    };
    for scope in scopes {
        for name in &names {
            rights.add(right(scope.clone(), group, resource, *name, verb), reason)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
