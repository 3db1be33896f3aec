//! [`Resource`]: what a kind's resource is called, as far as that is known without a cluster.

use pilothouse_object::Gvk;
use pilothouse_plugin::guess_plural;

/// The resource of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Plural name, as `pods`.
    pub plural: String,
    /// Whether its objects are in namespaces; none when only a cluster knows. The plural is a guess then.
    pub namespaced: Option<bool>,
}

impl Resource {
    /// The resource of a kind.
    pub fn of(kind: &Gvk) -> Self {
        let plural = guess_plural(&kind.kind);
        let namespaced = is_namespaced(&kind.group, &plural);
        Self { plural, namespaced }
    }
}

/// Whether the objects of a resource are in namespaces; none for resources that are not those of Kubernetes.
pub fn is_namespaced(group: &str, plural: &str) -> Option<bool> {
    is_builtin(group).then(|| !CLUSTER_SCOPED.contains(&(group, plural)))
}

/// Whether a group is one of Kubernetes itself.
pub fn is_builtin(group: &str) -> bool {
    GROUPS.contains(&group)
}

/// The groups of Kubernetes.
const GROUPS: [&str; 23] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Groups and plurals of the cluster-scoped resources of Kubernetes.
const CLUSTER_SCOPED: [(&str, &str); 39] = [
    ("", "componentstatuses"),
    ("", "namespaces"),
    ("", "nodes"),
    ("", "persistentvolumes"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("certificates.k8s.io", "clustertrustbundles"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("internal.apiserver.k8s.io", "storageversions"),
    ("networking.k8s.io", "ipaddresses"),
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "servicecidrs"),
    ("node.k8s.io", "runtimeclasses"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "devicetaintrules"),
    ("resource.k8s.io", "resourcepoolstatusrequests"),
    ("resource.k8s.io", "resourceslices"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "volumeattributesclasses"),
    ("storagemigration.k8s.io", "storageversionmigrations"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Table {
        groups: Vec<Group>,
    }

    #[derive(Deserialize)]
    struct Group {
        name: String,
        versions: Vec<Version>,
    }

    #[derive(Deserialize)]
    struct Version {
        version: String,
        resources: Vec<Entry>,
    }

    #[derive(Deserialize)]
    struct Entry {
        name: String,
        kind: String,
        #[serde(default)]
        namespaced: bool,
    }

    /// What a real API server says of itself.
    fn served() -> Table {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../devserver/src/tables/resources.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    #[test]
    fn every_resource_of_kubernetes_is_known_by_its_kind() {
        let (mut checked, mut cluster_scoped) = (0, BTreeSet::new());
        let served = served();
        for group in &served.groups {
            assert!(is_builtin(&group.name), "{}", group.name);
            for version in &group.versions {
                for entry in version.resources.iter().filter(|entry| !entry.name.contains('/')) {
                    let found = Resource::of(&Gvk::new(&group.name, &version.version, &entry.kind));
                    let wanted = Resource { plural: entry.name.clone(), namespaced: Some(entry.namespaced) };
                    assert_eq!(found, wanted, "{}/{}", group.name, entry.kind);
                    if !entry.namespaced {
                        cluster_scoped.insert((group.name.as_str(), entry.name.as_str()));
                    }
                    checked += 1;
                }
            }
        }
        assert!(checked > 60, "{checked}");
        // Alpha and beta versions, which the development server has not, have some kinds more.
        let unknown: Vec<_> = cluster_scoped.difference(&BTreeSet::from(CLUSTER_SCOPED)).copied().collect();
        assert_eq!(unknown, []);
    }

    #[test]
    fn other_plurals_are_guessed_and_their_scope_is_unknown() {
        for (kind, plural) in
            [("Foo", "foos"), ("Policy", "policies"), ("Batch", "batches"), ("Box", "boxes")]
        {
            let found = Resource::of(&Gvk::new("example.org", "v1", kind));
            assert_eq!(found, Resource { plural: plural.to_owned(), namespaced: None });
        }
    }
}
