//! [`Context`]: a call's access to the host.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Deref;
use std::time::{Duration, SystemTime};

use crate::cache::Cache;
use crate::client::Client;
use crate::queue::Queue;
use crate::{Error, Key, Kind, Refusal, RefusalReason, sys};

/// Access to the host, for the time of one call.
///
/// In a component it costs nothing: its methods call the host's imports directly. In native builds it stands on a
/// [`testing::World`](crate::testing::World), so that `cargo test` runs a plugin's logic.
///
/// Values that come from the host, such as [`Object`](crate::Object), borrow from the context: they cannot be kept
/// beyond the call.
pub struct Context {
    host: sys::Host,
    cluster: u32,
    /// The name of the plugin's crate; in tests that of its descriptor.
    plugin: Cow<'static, str>,
}

impl Context {
    pub(crate) fn new(host: sys::Host, cluster: u32, plugin: impl Into<Cow<'static, str>>) -> Self {
        Self { host, cluster, plugin: plugin.into() }
    }

    pub(crate) fn plugin(&self) -> &str {
        &self.plugin
    }

    /// Reads from the host's cache, without a request to the API server.
    pub fn cache(&self) -> Cache<'_> {
        Cache::new(self)
    }

    /// Live calls to the API server.
    pub fn client(&self) -> Client<'_> {
        Client::new(self)
    }

    /// The plugin's own work queue.
    pub fn queue(&self) -> Queue<'_> {
        Queue::new(self)
    }

    /// The number of this context's cluster: 0 for the one that the plugin runs in, others for
    /// [remote ones](Context::remote_cluster).
    pub fn cluster(&self) -> u32 {
        self.cluster
    }

    /// The names of the clusters that the plugin accesses, by their numbers: first that of the cluster that it runs in, then
    /// those of `spec.remoteClusters` of its manifest.
    ///
    /// A component that calls this, or [`remote_cluster`](Context::remote_cluster), needs a host with contract 0.2.1.
    pub fn clusters(&self) -> Vec<String> {
        self.host.clusters()
    }

    /// The same host with another cluster, which `spec.remoteClusters` of the manifest names, for live calls: reads, writes and
    /// lists of [`client`](Context::client) and [`api`](Context::api), and typed writes such as [`apply`](Context::apply). The
    /// permissions there are those of the entry in the manifest. Cache, queue and Events are of the cluster that the plugin
    /// runs in. The name of that one gives that one.
    ///
    /// An object that was read in one cluster has its UID and version, which no other cluster knows: write a new one.
    ///
    /// ```
    /// # use pilothouse_sdk::prelude::*;
    /// # #[derive(Resource, Serialize, Deserialize, Default)]
    /// # #[resource(version = "v1")]
    /// # struct ConfigMap { metadata: Metadata, data: std::collections::BTreeMap<String, String> }
    /// fn copy(ctx: &Context, map: &ConfigMap) -> Result<Outcome, Failure> {
    ///     let east = ctx.remote_cluster("east")?;
    ///     let written = east.create_or_update(&map.key(), |copy: &mut ConfigMap| {
    ///         copy.data = map.data.clone();
    ///         Ok(())
    ///     })?;
    ///     info!("copied", changed = written.is_change());
    ///     Ok(Outcome::Done)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the manifest does not name the cluster.
    pub fn remote_cluster(&self, name: &str) -> Result<InCluster<'_>, Error> {
        let names = self.clusters();
        if let Some(number) = (0..).zip(&names).find_map(|(number, own)| (own == name).then_some(number)) {
            return Ok(self.in_cluster(number));
        }
        let message = format!(
            "the plugin accesses no cluster {name:?}, it has {}: name it in spec.remoteClusters of the manifest",
            names.join(", ")
        );
        Err(Refusal { reason: RefusalReason::Unsupported, message }.into())
    }

    /// The same host with another cluster by its number, as batches and events have it. See
    /// [`remote_cluster`](Context::remote_cluster).
    #[must_use]
    pub fn in_cluster(&self, cluster: u32) -> InCluster<'_> {
        let ctx = Self { host: self.host.clone(), cluster, plugin: self.plugin.clone() };
        InCluster { ctx, call: PhantomData }
    }

    /// The time of the host. Tests move it.
    pub fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.host.now())
    }

    /// The time of the host in RFC 3339, to the second and in UTC, as the API writes times.
    pub fn now_rfc3339(&self) -> String {
        self.host.now_rfc3339()
    }

    /// Whether the plugin may make a call, as its manifest and the API server say. `key` says where: an empty name asks
    /// about all names, and an empty namespace about all namespaces, or a cluster-scoped kind.
    ///
    /// # Errors
    /// When the host cannot ask.
    pub fn may(&self, verb: &str, kind: &Kind, subresource: &str, key: &Key) -> Result<bool, Error> {
        Ok(self.host.may(self.cluster, kind, verb, subresource, key)?)
    }

    pub(crate) fn host(&self) -> &sys::Host {
        &self.host
    }
}

/// A [`Context`] of another cluster, for the time of the same call. Made with
/// [`Context::remote_cluster`] and [`Context::in_cluster`].
pub struct InCluster<'call> {
    ctx: Context,
    call: PhantomData<&'call Context>,
}

impl Deref for InCluster<'_> {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.ctx
    }
}

/// Made by the code of the attribute macros, once a call.
#[doc(hidden)]
#[cfg(target_family = "wasm")]
impl Context {
    pub fn of_call(cluster: u32, plugin: &'static str) -> Self {
        Self::new(sys::Host, cluster, plugin)
    }
}

/// In native builds the exports are only type-checked, and never run.
#[doc(hidden)]
#[cfg(not(target_family = "wasm"))]
impl Context {
    pub fn of_call(cluster: u32, plugin: &'static str) -> Self {
        panic!(
            "plugin {plugin} has no host (cluster {cluster}): native builds get a context from `testing::World`"
        )
    }
}
