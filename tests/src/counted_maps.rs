//! [`CountedMaps`]: ConfigMaps that change while hosts come and go, and whose entries the plugin `key-counter` counts: a change
//! that no host has reconciled shows as a wrong count.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_json::json;

use crate::Cluster;
use crate::plugins::Manifest;

/// The label of what the plugin counts.
const LABEL: &str = "key-counter.example.com/count";
/// The annotation with the count.
const ANNOTATION: &str = "key-counter.example.com/keys";

/// The manifest of a plugin that counts the entries of the ConfigMaps of a namespace.
pub fn manifest(name: &str, namespace: &str) -> Manifest {
    let verbs = ["get", "list", "watch", "create", "patch"];
    let manifest = Manifest::new(name).grant(&["configmaps"], &verbs, &[namespace]);
    manifest.grant(&["events"], &["create"], &[namespace])
}

/// ConfigMaps, by namespace and name, with the number of entries that each was given.
#[derive(Debug, Default)]
pub struct CountedMaps(BTreeMap<(String, String), usize>);

impl CountedMaps {
    /// Adds an entry to a ConfigMap, which the first entry creates.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub fn add_entry(&mut self, cluster: &Cluster, namespace: &str, name: &str) -> Result<()> {
        let entries = self.0.entry((namespace.to_owned(), name.to_owned())).or_insert(0);
        *entries += 1;
        let data = json!({format!("e{entries}"): "x"});
        if *entries > 1 {
            return cluster.merge("v1/ConfigMap", namespace, name, &json!({"data": data})).map(drop);
        }
        let metadata = json!({"namespace": namespace, "name": name, "labels": {LABEL: "true"}});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        cluster.create(&map).map(drop)
    }

    /// How many ConfigMaps there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The ConfigMaps whose count is not the number of their entries.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn miscounted(&self, cluster: &Cluster) -> Result<Vec<String>> {
        let namespaces: BTreeSet<&str> = self.0.keys().map(|(namespace, _)| namespace.as_str()).collect();
        let mut counts = BTreeMap::new();
        for namespace in namespaces {
            for map in cluster.list("v1/ConfigMap", namespace)? {
                let name = map["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                counts
                    .insert((namespace.to_owned(), name), map["metadata"]["annotations"][ANNOTATION].clone());
            }
        }
        let counted = |key: &(String, String)| -> Option<usize> { counts.get(key)?.as_str()?.parse().ok() };
        let wrong = self.0.iter().filter(|(key, entries)| counted(key) != Some(**entries));
        let shown = wrong.map(|(key, entries)| {
            format!("{}/{}: {entries} entries, counted {:?}", key.0, key.1, counts.get(key))
        });
        Ok(shown.collect())
    }
}
