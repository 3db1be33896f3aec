//! The clusters of a [`World`](super::World): its own is number 0, and each remote one is a world of its own.

use super::World;
use super::checks::refusal;
use crate::bindings::imports::types as raw;
use crate::sys::{self, Refused};
use crate::{Descriptor, Kind};

/// The name of the cluster that a world is.
const HOME: &str = "home";

impl World {
    /// A remote cluster of the plugin, as `spec.remoteClusters` of a manifest has it. Objects are created in the world that this
    /// returns, and [`grant`](World::grant) there gives the plugin permissions in it. Its first remote cluster has number 1.
    ///
    /// ```
    /// use pilothouse_sdk::prelude::*;
    /// use pilothouse_sdk::testing::World;
    ///
    /// #[derive(Resource, Serialize, Deserialize, Default)]
    /// #[resource(version = "v1")]
    /// struct ConfigMap {
    ///     metadata: Metadata,
    /// }
    ///
    /// let world = World::new(&Descriptor::new("copier"));
    /// let east = world.add_remote_cluster("east");
    /// east.grant(&Permission::new("", ["configmaps"]).verbs(["get", "create", "patch"]).namespaces(["a"]));
    ///
    /// let key = Key::namespaced("a", "x");
    /// let map = ConfigMap { metadata: Metadata::new(&key) };
    /// assert!(world.context().remote_cluster("east").unwrap().apply(&map).unwrap().is_change());
    /// assert!(east.get::<ConfigMap>(&key).is_some() && world.get::<ConfigMap>(&key).is_none());
    /// ```
    ///
    /// # Panics
    /// When there is a cluster of that name.
    pub fn add_remote_cluster(&self, name: &str) -> Self {
        assert!(!self.cluster_names().iter().any(|other| other == name), "there is a cluster {name:?}");
        let descriptor = Descriptor::new(self.state().described.name.clone());
        let remote = Self::new(&descriptor);
        let mut state = self.state();
        remote.state().server.now = state.server.now;
        // The log is that of the plugin.
        sys::log_to(&state.lines);
        state.remote_clusters.push((name.to_owned(), remote.clone()));
        remote
    }

    /// The names of all clusters, by their numbers.
    pub(super) fn cluster_names(&self) -> Vec<String> {
        let state = self.state();
        let remote = state.remote_clusters.iter().map(|(name, _)| name.clone());
        std::iter::once(HOME.to_owned()).chain(remote).collect()
    }

    /// The world of a live call to this cluster.
    pub(super) fn accessed(&self, cluster: u32) -> Refused<Self> {
        let Some(at) = cluster.checked_sub(1) else { return Ok(self.clone()) };
        let found = self.state().remote_clusters.get(at as usize).map(|(_, world)| world.clone());
        found.ok_or_else(|| {
            let message = format!(
                "cluster {cluster}: the plugin has {}; the test adds others with `World::add_remote_cluster`",
                self.cluster_names().join(", ")
            );
            refusal(raw::RefusalReason::Unsupported, message)
        })
    }

    /// Checks that a kind is read from the cache of the cluster that has one.
    pub(super) fn check_cached(&self, cluster: u32, kind: &Kind) -> Refused<()> {
        if cluster == 0 {
            return Ok(());
        }
        self.accessed(cluster)?;
        let message = format!(
            "the cache has objects of the cluster that the plugin runs in: read {kind} of cluster {cluster} with live calls"
        );
        Err(refusal(raw::RefusalReason::NotWatched, message))
    }
}

/// Checks that the work queue and Events are used for the cluster that the plugin runs in.
pub(super) fn check_cluster(cluster: u32) -> Refused<()> {
    if cluster == 0 {
        return Ok(());
    }
    let message = format!(
        "cluster {cluster}: the work queue and Events are of cluster 0, the one that the plugin runs in"
    );
    Err(refusal(raw::RefusalReason::Unsupported, message))
}
