//! [`Context`]: a call's access to the host.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Deref;
use std::time::{Duration, SystemTime};

use crate::cache::Cache;
use crate::client::Client;
use crate::queue::Queue;
use crate::{Error, Key, Kind, sys};

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

    /// The cluster that the call is about; 0 for the one that the plugin runs in, which is the only one today.
    pub fn cluster(&self) -> u32 {
        self.cluster
    }

    /// The same host with another cluster, for batches with keys of several clusters.
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

/// A [`Context`] of another cluster, for the time of the same call. Made with [`Context::in_cluster`].
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
