//! [`RemoteClusters`]: one entry of `spec.remoteClusters`, and its validation.
//!
//! A *remote cluster* of a run is one that the plugin accesses from there with live calls, besides the cluster of the run.
//! Invariants: a name is there once, so one list of rules says all that holds in a cluster; and no rule of an entry is about the
//! cluster of the run, whose rules are `spec.permissions`.

use std::sync::Arc;

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{Manifest, ManifestError, refused, rules};
use crate::clusters::{HOME_CLUSTER, check_names};
use crate::grants::Rule;

/// Clusters that a plugin accesses with live calls besides that of its run, with what it may do in each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteClusters {
    /// Their names; at least one.
    pub clusters: Vec<String>,
    /// The permissions in each of them. Everything else is denied there.
    pub permissions: Arc<[Rule]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoteClustersText {
    clusters: Vec<Spanned<String>>,
    permissions: Vec<Spanned<Rule>>,
}

/// Validates all entries.
pub(super) fn check(entries: Vec<Spanned<RemoteClustersText>>) -> Result<Vec<RemoteClusters>, ManifestError> {
    let names = entries.iter().enumerate().flat_map(|(index, entry)| {
        let named = entry.value.clusters.iter().enumerate();
        named.map(move |(at, name)| (format!("spec.remoteClusters[{index}].clusters[{at}]"), name))
    });
    check_names("spec.remoteClusters", names)?;
    entries.iter().enumerate().map(|(index, entry)| one(index, entry)).collect()
}

fn one(index: usize, entry: &Spanned<RemoteClustersText>) -> Result<RemoteClusters, ManifestError> {
    let RemoteClustersText { clusters, permissions } = &entry.value;
    for (field, is_empty, remedy) in [
        ("clusters", clusters.is_empty(), "name the clusters that the permissions hold in"),
        ("permissions", permissions.is_empty(), "write what the plugin may do there, or remove the entry"),
    ] {
        if is_empty {
            let field = format!("spec.remoteClusters[{index}].{field}");
            return Err(refused(entry, &field, "it is empty: the entry grants nothing".to_owned(), remedy));
        }
    }
    let list = format!("spec.remoteClusters[{index}].permissions");
    if let Some(at) = permissions.iter().position(|rule| rule.value.verbs.iter().any(|verb| verb == "watch"))
    {
        let reason = "watch has no meaning in a remote cluster, which has live calls alone".to_owned();
        let remedy = "leave it out, or run the plugin there (spec.clusters)";
        return Err(refused(&permissions[at], &format!("{list}[{at}].verbs"), reason, remedy));
    }
    Ok(RemoteClusters {
        clusters: clusters.iter().map(|name| name.value.clone()).collect(),
        permissions: rules(&list, permissions)?.into(),
    })
}

impl Manifest {
    /// The remote clusters of a run in `cluster`, in their order, each with the permissions there. The cluster of the run is not
    /// among them, also where the manifest names it.
    pub fn remote_clusters_of<'a>(
        &'a self,
        cluster: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Arc<[Rule]>)> {
        let each = |entry: &'a RemoteClusters| {
            entry.clusters.iter().map(move |name| (name.as_str(), &entry.permissions))
        };
        self.remote_clusters.iter().flat_map(each).filter(move |(name, _)| *name != cluster)
    }

    /// The permissions in a cluster that a run elsewhere may access; none if no run may.
    #[must_use]
    pub fn remote_permissions(&self, cluster: &str) -> Option<&Arc<[Rule]>> {
        let home = [HOME_CLUSTER.to_owned()];
        let runs: &[String] = if self.clusters.is_empty() { &home[..] } else { &self.clusters };
        if runs.iter().all(|run| run == cluster) {
            return None;
        }
        let entry =
            self.remote_clusters.iter().find(|entry| entry.clusters.iter().any(|name| name == cluster));
        entry.map(|entry| &entry.permissions)
    }
}
