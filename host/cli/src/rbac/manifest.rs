//! [`yaml`]: a ServiceAccount, the roles with its rights, and their bindings, as YAML for `kubectl apply`.

use std::fmt::Write as _;

use super::needs::Host;
use super::rights::{Rights, RoleRule, RoleScope};
use crate::output::yaml_scalar;

/// The objects, in a fixed order: the account, then what holds in the cluster, then each namespace.
pub(crate) fn yaml(host: &Host, rights: &Rights) -> String {
    let (namespace, account) = (yaml_scalar(&host.namespace), yaml_scalar(&host.account));
    let mut text = format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  namespace: {namespace}\n  name: {account}\n"
    );
    for (scope, rules) in rights.rules() {
        let (role, name, within) = match &scope {
            // Names of cluster-scoped objects are shared by all hosts of a cluster.
            RoleScope::Cluster => {
                let name = yaml_scalar(&format!("{}:{}", host.namespace, host.account));
                ("ClusterRole", name, String::new())
            }
            RoleScope::Namespace(namespace) => {
                ("Role", account.clone(), format!("  namespace: {}\n", yaml_scalar(namespace)))
            }
        };
        let head = |kind: &str| {
            format!(
                "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n{within}  name: {name}\n"
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
    for reason in &rule.reasons {
        let _ = writeln!(text, "  # {reason}");
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
            admin_tokens: true,
        };
        let mut rights = Rights::default();
        of_host(&host, &mut rights).unwrap();
        assert_eq!(yaml(&host, &rights), include_str!("manifest/host.yaml"));
    }
}
