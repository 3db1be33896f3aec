//! The rules of a host's roles, held against what the host asked of a real API server: its audit log says which rules were
//! needed. The suites of `pilothouse rbac` and of the installation use it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::audit::{Event, User};
use crate::{Audit, ControlPlane};

/// A rule of a Role or ClusterRole.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    #[serde(default)]
    api_groups: Vec<String>,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
    verbs: Vec<String>,
    /// Of the Role; empty for a ClusterRole.
    #[serde(skip)]
    pub namespace: String,
    /// Which of the rules of its role it is.
    #[serde(skip)]
    pub index: usize,
}

/// What is asked of the authorizer for a request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The verb.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural, with the subresource: `pods/status`.
    pub resource: String,
    /// Empty for cluster-scoped objects and for all namespaces.
    pub namespace: String,
    /// Empty for requests without a name.
    pub name: String,
}

impl Rule {
    fn allows(&self, asked: &Asked) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|entry| entry == "*" || entry == wanted);
        (self.namespace.is_empty() || self.namespace == asked.namespace)
            && has(&self.verbs, &asked.verb)
            && has(&self.api_groups, &asked.group)
            && has(&self.resources, &asked.resource)
            && (self.resource_names.is_empty() || self.resource_names.contains(&asked.name))
    }
}

/// What the authorizer was asked for a request: what it does, and each part of the impersonation.
fn asked(event: &Event) -> Vec<Asked> {
    let Some(User { username, groups }) = &event.impersonated_user else {
        let object = event.object_ref.iter();
        let asked = object.map(|object| Asked {
            verb: event.verb.clone(),
            group: object.api_group.clone(),
            resource: match &*object.subresource {
                "" => object.resource.clone(),
                subresource => format!("{}/{subresource}", object.resource),
            },
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        });
        return asked.collect();
    };
    let impersonated = |resource: &str, namespace: &str, name: &str| Asked {
        verb: "impersonate".to_owned(),
        group: String::new(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let account = username.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    let account = account.map(|(namespace, name)| impersonated("serviceaccounts", namespace, name));
    account.into_iter().chain(groups.iter().map(|group| impersonated("groups", "", group))).collect()
}

/// The rules of all roles of this name, as the server has them.
fn rules(plane: &ControlPlane, name: &str) -> Result<Vec<Rule>> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Role>,
    }
    #[derive(Deserialize)]
    struct Role {
        metadata: Metadata,
        /// None of an aggregated ClusterRole without parts.
        rules: Option<Vec<Rule>>,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
        #[serde(default)]
        namespace: String,
    }
    let mut found = Vec::new();
    for kind in ["clusterroles", "roles"] {
        let list: List = serde_json::from_str(&plane.kubectl(&["get", kind, "-A", "-o", "json"])?)?;
        for role in list.items.into_iter().filter(|role| role.metadata.name == name) {
            let namespace = role.metadata.namespace;
            let rules = role.rules.into_iter().flatten().enumerate();
            found.extend(rules.map(|(index, rule)| Rule { namespace: namespace.clone(), index, ..rule }));
        }
    }
    Ok(found)
}

/// The completed requests of an account.
///
/// # Errors
/// When the audit log cannot be read.
pub fn requests(audit: &Audit, namespace: &str, account: &str) -> Result<Vec<Event>> {
    let user = format!("system:serviceaccount:{namespace}:{account}");
    let mut events = audit.events()?;
    events.retain(|event| event.stage == "ResponseComplete" && event.user.username == user);
    Ok(events)
}

/// The requests that were forbidden.
pub fn refused(events: &[Event]) -> Vec<&Event> {
    let forbidden = |event: &&Event| event.response_status.is_some_and(|status| status.code == 403);
    events.iter().filter(forbidden).collect()
}

/// Checks that each rule of the roles of this name allowed a request that no other rule allows. Returns the rules, each
/// with one of these requests.
///
/// # Errors
/// When a rule was not needed, or a verb of it that the host itself uses.
pub fn needed_rules(plane: &ControlPlane, role: &str, events: &[Event]) -> Result<Vec<(Rule, Asked)>> {
    let (rules, asked) = (rules(plane, role)?, events.iter().flat_map(asked).collect::<Vec<_>>());
    ensure!(asked.len() > rules.len(), "{} rules, {} requests", rules.len(), asked.len());
    let mut checked = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        let others = || rules.iter().enumerate().filter(|(other, _)| *other != number);
        let needs = |asked: &&Asked| rule.allows(asked) && !others().any(|(_, other)| other.allows(asked));
        let needed: Vec<&Asked> = asked.iter().filter(needs).collect();
        let first = *needed.first().with_context(|| format!("nothing would be refused without {rule:#?}"))?;
        // Of what plugins write, a part is enough: a delete may come some day.
        let of_host =
            |verb: &str| ["list", "watch", "impersonate"].contains(&verb) || rule.resources == ["leases"];
        for verb in rule.verbs.iter().filter(|verb| of_host(verb)) {
            ensure!(needed.iter().any(|asked| asked.verb == *verb), "nobody needs {verb} of {rule:#?}");
        }
        checked.push((rule.clone(), first.clone()));
    }
    Ok(checked)
}

/// Writes a kubeconfig with a token of an account, whose namespace is that of the context, as it is in a Pod.
///
/// # Errors
/// When there is no such account, or the file cannot be written.
pub fn kubeconfig(plane: &ControlPlane, (namespace, account): (&str, &str), to: &Path) -> Result<()> {
    let token = plane.kubectl(&["create", "token", account, "-n", namespace])?;
    let mut config: Value =
        serde_json::from_str(&plane.kubectl(&["config", "view", "--raw", "--output", "json"])?)?;
    *config.pointer_mut("/users/0/user").context("no user")? = json!({"token": token.trim()});
    *config.pointer_mut("/contexts/0/context/namespace").context("no namespace of the context")? =
        json!(namespace);
    Ok(fs::write(to, config.to_string())?)
}
