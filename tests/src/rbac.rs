//! The rules of a host's roles, held against what the host asked of a real API server: its audit log says which of them were
//! needed. [`grant`] gives an account what `pilothouse rbac` prints; [`check`] fails on a request that was refused and on a right
//! that nobody used. The suites of `pilothouse rbac` and of the installation use it, for each way that a host runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::audit::{Event, User};
use crate::{Audit, ControlPlane, cli};

/// What the manifest of `pods-per-node` grants and a test with one node does not use, as [`check`] takes it.
pub const SPARE_OF_PODS_PER_NODE: [&str; 5] =
    ["get nodes", "get pods", "get configmaps", "update configmaps", "delete configmaps"];

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

    /// The single rights that the rule gives: one verb on one resource, for one name where the rule has names.
    fn rights(&self) -> Vec<Rule> {
        let names: Vec<Vec<String>> = match &*self.resource_names {
            [] => vec![Vec::new()],
            names => names.iter().map(|name| vec![name.clone()]).collect(),
        };
        let mut rights = Vec::new();
        for (group, resource) in
            self.api_groups.iter().flat_map(|group| self.resources.iter().map(move |r| (group, r)))
        {
            for (names, verb) in names.iter().flat_map(|names| self.verbs.iter().map(move |v| (names, v))) {
                rights.push(Rule {
                    api_groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    resource_names: names.clone(),
                    verbs: vec![verb.clone()],
                    ..self.clone()
                });
            }
        }
        rights
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

/// Gives an account what `pilothouse rbac ARGS` prints in a folder, and nothing else. Returns a kubeconfig with a token of it, which is
/// in the folder as well. The namespaces must exist.
///
/// # Errors
/// When the command fails or prints something else the second time, or the API server refuses what it prints.
pub fn grant(
    plane: &ControlPlane,
    dir: &Path,
    (namespace, account): (&str, &str),
    args: &[&str],
) -> Result<PathBuf> {
    let of_account = ["--namespace", namespace, "--service-account", account, "--cache-dir", "cache"];
    let args = [&["rbac"][..], args, &of_account].concat();
    let printed = cli::run(dir, &args)?;
    ensure!(printed.status.success() && printed.stderr.is_empty(), "{printed:?}");
    ensure!(cli::run(dir, &args)?.stdout == printed.stdout, "another order");
    plane.kubectl_with(&["apply", "-f", "-"], &printed.stdout)?;
    let path = dir.join(format!("{account}.kubeconfig"));
    kubeconfig(plane, (namespace, account), &path)?;
    Ok(path)
}

/// Checks that nothing was refused to an account, and that it used all that the roles called after it allow: each verb on each
/// resource of each rule, for each name that the rule has. Those of `spare`, as `VERB RESOURCE`, need not be used: they are of plugins
/// and are for objects that the test does not have. Returns the rules, each with a request that no other rule allows.
///
/// # Errors
/// When a request was refused, or a right is one too many.
pub fn check(
    audit: &Audit,
    (namespace, account): (&str, &str),
    spare: &[&str],
) -> Result<Vec<(Rule, Asked)>> {
    let requests = requests(audit, namespace, account)?;
    let refused: Vec<&Event> = requests.iter().filter(|event| is_refused(event)).collect();
    ensure!(refused.is_empty(), "{refused:#?}");
    let asked: Vec<Asked> = requests.iter().flat_map(asked).collect();
    needed(&rules(audit.plane(), &format!("{namespace}:{account}"))?, &asked, spare)
}

/// The answered requests of an account. A watch that goes on was answered when it began.
fn requests(audit: &Audit, namespace: &str, account: &str) -> Result<Vec<Event>> {
    let user = format!("system:serviceaccount:{namespace}:{account}");
    let mut events = audit.events()?;
    let is_answered = |event: &Event| ["ResponseStarted", "ResponseComplete"].contains(&&*event.stage);
    events.retain(|event| is_answered(event) && event.user.username == user);
    Ok(events)
}

fn is_refused(event: &Event) -> bool {
    event.response_status.is_some_and(|status| status.code == 403)
}

/// As [`check`], of rules and of what the authorizer was asked for.
fn needed(rules: &[Rule], asked: &[Asked], spare: &[&str]) -> Result<Vec<(Rule, Asked)>> {
    ensure!(!rules.is_empty(), "there are no rules");
    let mut checked = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        let others = || rules.iter().enumerate().filter(|(other, _)| *other != number);
        let needs = |asked: &&Asked| rule.allows(asked) && !others().any(|(_, other)| other.allows(asked));
        let needed: Vec<&Asked> = asked.iter().filter(needs).collect();
        let first = *needed.first().with_context(|| format!("nothing would be refused without {rule:#?}"))?;
        for right in rule.rights() {
            let is_spare = spare.contains(&&*format!("{} {}", right.verbs[0], right.resources[0]));
            let is_used = needed.iter().any(|asked| right.allows(asked));
            ensure!(is_used || is_spare, "nobody needs {right:?} of {rule:#?}");
        }
        checked.push((rule.clone(), first.clone()));
    }
    Ok(checked)
}

/// Lets an account do something in a namespace, by a role of this name, whose rule the arguments of kubectl say.
///
/// # Errors
/// When the API server refuses it.
pub fn allow(
    plane: &ControlPlane,
    namespace: &str,
    role: &str,
    (of, account): (&str, &str),
    rule: &[&str],
) -> Result<()> {
    plane.kubectl(&[&["create", "role", role, "-n", namespace][..], rule].concat())?;
    let (role_flag, subject) = (format!("--role={role}"), format!("--serviceaccount={of}:{account}"));
    plane.kubectl(&["create", "rolebinding", role, &role_flag, &subject, "-n", namespace]).map(drop)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(resources: &[&str], names: &[&str], verbs: &[&str]) -> Rule {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        Rule {
            api_groups: texts(&[""]),
            resources: texts(resources),
            resource_names: texts(names),
            verbs: texts(verbs),
            namespace: "ns".to_owned(),
            index: 0,
        }
    }

    /// From `verb resource name`; a request without a name ends with the resource.
    fn asked(text: &str) -> Asked {
        let mut words = text.split(' ').map(str::to_owned);
        let mut next = || words.next().unwrap_or_default();
        let (verb, resource, name) = (next(), next(), next());
        Asked { verb, group: String::new(), resource, namespace: "ns".to_owned(), name }
    }

    #[test]
    fn a_right_that_nobody_used_is_one_too_many() {
        let rules =
            [rule(&["pods", "nodes"], &[], &["list"]), rule(&["secrets"], &["a", "b"], &["get", "watch"])];
        let used = [
            "list pods",
            "list nodes",
            "get secrets a",
            "get secrets b",
            "watch secrets a",
            "watch secrets b",
        ];
        let all: Vec<Asked> = used.iter().map(|text| asked(text)).collect();
        assert_eq!(needed(&rules, &all, &[]).unwrap().len(), 2);
        for (number, unused) in used.iter().enumerate() {
            let mut others = all.clone();
            others.remove(number);
            let error = needed(&rules, &others, &[]).unwrap_err().to_string();
            assert!(error.contains("nobody needs"), "{unused}: {error}");
            let right = unused.split(' ').take(2).collect::<Vec<_>>().join(" ");
            assert!(needed(&rules, &others, &[right.as_str()]).is_ok(), "{unused} may be spare");
        }
    }

    #[test]
    fn a_rule_beside_a_wider_one_is_one_too_many() {
        let rules = [rule(&["pods"], &[], &["get", "list"]), rule(&["pods"], &["a"], &["get"])];
        let asked = ["get pods a", "get pods b", "list pods"].map(asked);
        let error = needed(&rules, &asked, &[]).unwrap_err().to_string();
        assert!(error.starts_with("nothing would be refused without"), "{error}");
        assert!(needed(&rules[..1], &asked, &[]).is_ok());
        assert!(needed(&[], &asked, &[]).is_err(), "no rules are no proof");
    }
}
