//! [`Workload`]: random writes of a few ConfigMaps, with a record of every state that they had.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_client::{Client, DeleteParams, ListParams, WriteParams};
use pilothouse_object::ObjectKey;

use crate::informers::config_maps;
use crate::sequence::{self, Told, View, What};

/// Writes to a namespace through a client. The random numbers are derived from a seed.
pub struct Workload {
    client: Client,
    namespace: String,
    keys: u64,
    random: u64,
    live: BTreeMap<String, String>,
    /// Key, UID and resource version of each written state.
    written: BTreeSet<(String, String, String)>,
}

impl Workload {
    /// A workload on `keys` objects.
    #[must_use]
    pub fn new(client: Client, namespace: &str, keys: u64, seed: u64) -> Workload {
        let (live, written) = (BTreeMap::new(), BTreeSet::new());
        Workload { client, namespace: namespace.to_owned(), keys, random: seed, live, written }
    }

    /// Replaces the client, because a write on a connection that a restart of the server has closed fails.
    pub fn reconnect(&mut self, client: Client) {
        self.client = client;
    }

    /// The next random number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// Creates, changes, deletes or re-creates one of the objects.
    ///
    /// # Errors
    /// When the write fails.
    pub async fn write(&mut self) -> anyhow::Result<()> {
        let name = format!("c{}", self.below(self.keys));
        let (exists, choice) = (self.live.contains_key(&name), self.below(8));
        if exists && choice < 3 {
            self.delete(&name).await?;
        }
        if !exists || choice > 0 {
            self.put(&name).await?;
        }
        Ok(())
    }

    /// Creates or changes an object.
    ///
    /// # Errors
    /// When the write fails.
    pub async fn put(&mut self, name: &str) -> anyhow::Result<()> {
        let (resource, params, value) = (config_maps(), WriteParams::default(), self.below(1000));
        let version = self.live.get(name).cloned().unwrap_or_default();
        let body = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": value.to_string()},
            "metadata": {"name": name, "namespace": self.namespace, "resourceVersion": version}});
        let body = body.to_string();
        let written = if version.is_empty() {
            self.client.create(&resource, Some(&self.namespace), body.as_bytes(), &params).await?
        } else {
            self.client.update(&resource, &self.key(name)?, body.as_bytes(), &params).await?
        };
        let version = written.resource_version().to_owned();
        self.live.insert(name.to_owned(), version.clone());
        self.written.insert((written.key().to_string(), written.uid().to_owned(), version));
        Ok(())
    }

    async fn delete(&mut self, name: &str) -> anyhow::Result<()> {
        self.client.delete(&config_maps(), &self.key(name)?, &DeleteParams::default()).await?;
        self.live.remove(name);
        Ok(())
    }

    fn key(&self, name: &str) -> anyhow::Result<ObjectKey> {
        Ok(format!("{}/{name}", self.namespace).parse()?)
    }

    /// Reads the current objects with a list.
    ///
    /// # Errors
    /// When the list fails.
    pub async fn list(&self) -> anyhow::Result<View> {
        let list =
            self.client.list_all(&config_maps(), Some(&self.namespace), &ListParams::default()).await?;
        Ok(sequence::view(&list.items))
    }

    /// The first event with a state that the object never had. Deletions are ignored, because their version is not that
    /// of a write.
    #[must_use]
    pub fn invented<'a>(&self, told: &'a [Told]) -> Option<&'a Told> {
        told.iter().find(|event| {
            let state = (event.key.clone(), event.uid.clone(), event.version.clone());
            matches!(event.what, What::Add | What::Update) && !self.written.contains(&state)
        })
    }
}
