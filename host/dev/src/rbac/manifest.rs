//! [`yaml`]: a ServiceAccount, the roles with its rights, and their bindings, as YAML for `kubectl apply`.
//!
//! Labels say for which host an object is, and of which output. Applying removes nothing, so a comment at the beginning has
//! the command that removes what an earlier output gave and this one does not. `kubectl apply --prune` would not: it looks
//! only into namespaces of which it applies something.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::needs::Host;
use super::rights::{Rights, RoleRule, RoleScope};
use pilothouse_hosting::output::yaml_scalar;

/// The longest value of a label.
const LONGEST_LABEL: usize = 63;

/// The longest name of a role.
const LONGEST_NAME: usize = 253;

/// The objects, in a fixed order: the account, then what holds in the cluster, then each namespace.
pub(crate) fn yaml(host: &Host, rights: &Rights) -> String {
    let revision = short_digest(&objects(host, rights, ""));
    let mut instance = format!("{}.{}", host.namespace, host.account);
    if instance.len() > LONGEST_LABEL {
        instance = short_digest(&instance);
    }
    let of_host =
        [("app.kubernetes.io/managed-by", "pilothouse-rbac"), ("app.kubernetes.io/instance", &instance)];
    let mut labels = "  labels:\n".to_owned();
    let mut selector = String::new();
    for (name, value) in of_host {
        let _ = writeln!(labels, "    {name}: {}", yaml_scalar(value));
        let _ = write!(selector, "{name}={value},");
    }
    let _ = writeln!(labels, "    pilothouse.dev/rbac: \"{revision}\"");
    format!(
        "# Once it is applied, this removes what an earlier output gave the same host and this one does not:\n\
         # kubectl delete clusterroles,clusterrolebindings,roles,rolebindings -A -l '{selector}pilothouse.dev/rbac!={revision}'\n{}",
        objects(host, rights, &labels)
    )
}

/// The first 16 hexadecimal digits.
fn short_digest(text: &str) -> String {
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The name of the roles of a host and of their bindings. Hosts share the cluster-scoped names and the namespaces of their
/// plugins, so the name has the namespace of the account. Shortened names end with a digest of the whole.
fn role_name(host: &Host) -> String {
    let name = format!("{}:{}", host.namespace, host.account);
    match name.get(..LONGEST_NAME - 17) {
        Some(start) if name.len() > LONGEST_NAME => format!("{start}-{}", short_digest(&name)),
        _ => name,
    }
}

fn objects(host: &Host, rights: &Rights, labels: &str) -> String {
    let (namespace, account) = (yaml_scalar(&host.namespace), yaml_scalar(&host.account));
    let mut text = format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  namespace: {namespace}\n  name: {account}\n{labels}"
    );
    let name = yaml_scalar(&role_name(host));
    for (scope, rules) in rights.rules() {
        let (role, within) = match &scope {
            RoleScope::Cluster => ("ClusterRole", String::new()),
            RoleScope::Namespace(namespace) => ("Role", format!("  namespace: {}\n", yaml_scalar(namespace))),
        };
        let head = |kind: &str| {
            format!(
                "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n{within}  name: {name}\n{labels}"
            )
        };
        text += &head(role);
        text += "rules:\n";
        rules.iter().for_each(|rule| write_rule(&mut text, rule));
        text += &head(&format!("{role}Binding"));
        let _ = write!(
            text,
            "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {role}\n  name: {name}\nsubjects:\n  - kind: ServiceAccount\n    namespace: {namespace}\n    name: {account}\n"
        );
    }
    text
}

fn write_rule(text: &mut String, rule: &RoleRule) {
    // A plugin may need a rule for several reasons: `NAME`, `NAME, for this`, `NAME, for that`.
    let mut purposes = BTreeMap::<&str, Vec<&str>>::new();
    for reason in &rule.reasons {
        let (name, purpose) = reason.split_once(", ").unwrap_or((reason, ""));
        purposes.entry(name).or_default().push(purpose);
    }
    for (name, mut purposes) in purposes {
        purposes.retain(|purpose| !purpose.is_empty());
        purposes.insert(0, name);
        let _ = writeln!(text, "  # {}", purposes.join(", "));
    }
    let list = |entries: Vec<&str>| entries.into_iter().map(yaml_scalar).collect::<Vec<_>>().join(", ");
    let texts = |entries: &[String]| list(entries.iter().map(String::as_str).collect());
    let _ = writeln!(text, "  - apiGroups: [{}]", yaml_scalar(&rule.group));
    let _ = writeln!(text, "    resources: [{}]", texts(&rule.resources));
    if !rule.names.is_empty() {
        let _ = writeln!(text, "    resourceNames: [{}]", texts(&rule.names));
    }
    let _ = writeln!(text, "    verbs: [{}]", list(rule.verbs.iter().map(|verb| verb.as_str()).collect()));
}

#[cfg(test)]
mod tests {
    use super::super::needs::of_host;
    use super::*;

    #[test]
    fn the_text_has_the_account_the_roles_and_their_bindings() {
        let host = Host {
            namespace: "ns".to_owned(),
            account: "host".to_owned(),
            lease: Some(("ns".to_owned(), "lease".to_owned())),
            shares_plugins: false,
            admin_tokens: true,
            in_pod: true,
        };
        let mut rights = Rights::default();
        of_host(&host, &mut rights).unwrap();
        assert_eq!(yaml(&host, &rights), include_str!("manifest/host.yaml"));
    }

    #[test]
    fn a_host_that_shares_plugins_lists_and_deletes_leases_of_its_namespace_alone() {
        let host = Host {
            namespace: "ns".to_owned(),
            account: "host".to_owned(),
            lease: Some(("leases".to_owned(), "hosts".to_owned())),
            shares_plugins: true,
            admin_tokens: false,
            in_pod: true,
        };
        let mut rights = Rights::default();
        of_host(&host, &mut rights).unwrap();
        let text = yaml(&host, &rights);
        let documents: Vec<&str> = text.split("\n---\n").collect();
        let with_leases: Vec<&&str> = documents.iter().filter(|text| text.contains("[leases]")).collect();
        assert_eq!(with_leases.len(), 1, "{text}");
        assert!(with_leases[0].contains("kind: Role\n") && with_leases[0].contains("  namespace: leases\n"));
        assert!(with_leases[0].contains("verbs: [get, list, watch, create, update, delete]"), "{text}");
    }

    #[test]
    fn events_of_a_host_outside_a_pod_are_about_its_namespace_and_in_another() {
        let host = Host {
            namespace: "ns".to_owned(),
            account: "host".to_owned(),
            lease: None,
            shares_plugins: false,
            admin_tokens: false,
            in_pod: false,
        };
        let mut rights = Rights::default();
        of_host(&host, &mut rights).unwrap();
        let text = yaml(&host, &rights);
        let documents: Vec<&str> = text.split("\n---\n").collect();
        let role = |kind: &str| {
            let of_kind: Vec<&&str> =
                documents.iter().filter(|text| text.contains(&format!("kind: {kind}\nmeta"))).collect();
            assert_eq!(of_kind.len(), 1, "{text}");
            of_kind[0].to_string()
        };
        let (in_cluster, in_namespace) = (role("ClusterRole"), role("Role"));
        assert!(
            in_cluster.contains("resources: [namespaces]\n    resourceNames: [ns]\n    verbs: [get]"),
            "{text}"
        );
        assert!(in_namespace.contains("  namespace: default\n"), "{text}");
        assert!(in_namespace.contains("resources: [events]\n    verbs: [create, patch]"), "{text}");
    }

    #[test]
    fn hosts_with_accounts_of_one_name_have_roles_of_their_own() {
        let host = |namespace: &str, account: &str| Host {
            namespace: namespace.to_owned(),
            account: account.to_owned(),
            lease: None,
            shares_plugins: false,
            admin_tokens: true,
            in_pod: true,
        };
        let (long, other) = ("a".repeat(253), "a".repeat(252) + "b");
        let names = [
            host("a", "host"),
            host("b", "host"),
            host(&"n".repeat(63), &long),
            host(&"n".repeat(63), &other),
            host(&"n".repeat(62), &long),
        ]
        .map(|host| role_name(&host));
        assert_eq!(names[..2], ["a:host", "b:host"]);
        let unique: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(unique.len(), names.len(), "{names:?}");
        assert!(names.iter().all(|name| name.len() <= LONGEST_NAME), "{names:?}");
        let longest = "a".repeat(251);
        assert_eq!(role_name(&host("n", &longest)), format!("n:{longest}"), "not shortened without need");
    }

    #[test]
    fn a_comment_names_each_plugin_once() {
        let rule = RoleRule {
            group: String::new(),
            resources: vec!["events".to_owned()],
            names: Vec::new(),
            verbs: vec![super::super::rights::Verb::Create],
            reasons: ["b", "a, Events", "a", "a, spec.configFrom", "b-c"].map(str::to_owned).into(),
        };
        let mut text = String::new();
        write_rule(&mut text, &rule);
        let comments: Vec<&str> = text.lines().take_while(|line| line.starts_with("  #")).collect();
        assert_eq!(comments, ["  # a, Events, spec.configFrom", "  # b", "  # b-c"]);
    }

    #[test]
    fn labels_are_of_the_host_and_of_the_output_and_never_too_long() {
        let label = |text: &str, name: &str| {
            let labels: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix(name)).collect();
            assert!(labels.len() > 1 && labels.iter().all(|value| *value == labels[0]), "{labels:?}");
            labels[0].trim_start_matches(": ").trim_matches('"').to_owned()
        };
        let host = |account: &str| Host {
            namespace: "n".repeat(63),
            account: account.to_owned(),
            lease: None,
            shares_plugins: false,
            admin_tokens: true,
            in_pod: true,
        };
        let labels = |host: &Host| {
            let mut rights = Rights::default();
            of_host(host, &mut rights).unwrap();
            let text = yaml(host, &rights);
            [label(&text, "app.kubernetes.io/instance"), label(&text, "pilothouse.dev/rbac")]
        };
        let [one, other] = ["a".repeat(253), "b".repeat(253)].map(|account| labels(&host(&account)));
        assert!(one.iter().chain(&other).all(|value| value.len() <= LONGEST_LABEL), "{one:?} {other:?}");
        assert!(one[0] != other[0] && one[1] != other[1]);
        // Other rights of one host are another output.
        let fewer = labels(&Host { admin_tokens: false, lease: Some(("a".into(), "b".into())), ..host("a") });
        let more = labels(&Host { lease: Some(("a".into(), "b".into())), ..host("a") });
        assert!(fewer[0] == more[0] && fewer[1] != more[1]);
    }
}
