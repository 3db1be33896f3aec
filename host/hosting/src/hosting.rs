//! [`Hosting`]: the host in this process, from the client to the end of the last call. Called by `run`, `dev` and `test`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Error, Result};
use pilothouse_cache::{Compression, FactoryOptions, InformerOptions, SharedInformerFactory};
use pilothouse_client::{Client, ClientOptions};
use pilothouse_engine::{Engine, EngineOptions};
use pilothouse_manager::admin::AdminOptions;
use pilothouse_manager::{ClusterClient, Clusters, Manager, ManagerOptions, Metrics, PluginThreads, admin};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::election::ElectionOptions;
use crate::membership::{Membership, PreparedMembership};
use crate::own_pod::OwnPod;
use crate::runtimes::Threads;
use crate::signals::Signals;
use crate::worker;

/// Where the admin endpoints listen unless told otherwise.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:9470";

/// How a host is started.
pub struct HostingOptions {
    /// Where the API server of the home cluster is and how it is asked.
    pub client: ClientOptions,
    /// Where those of other clusters are, by the names that manifests use.
    pub clusters: BTreeMap<String, ClientOptions>,
    /// Folder of compiled plugins.
    pub cache_dir: Option<PathBuf>,
    /// Where the admin endpoints are served, and to whom.
    pub admin: AdminOptions,
    /// Whether the caches keep objects compressed.
    pub compression: Compression,
    /// The plugins and how they are treated.
    pub manager: ManagerOptions,
    /// The election that the host takes part in.
    pub election: Option<ElectionOptions>,
    /// What the host records events of its own about; none: it records none.
    pub pod: Option<OwnPod>,
}

/// Whether streaming lists are checked. client-go reads the same variable, and the same words as true.
fn checks_watch_lists() -> bool {
    std::env::var("KUBE_WATCHLIST_INCONSISTENCY_DETECTOR")
        .is_ok_and(|value| matches!(&*value, "1" | "t" | "T" | "true" | "TRUE" | "True"))
}

/// The client of a cluster, with its informers; the home cluster has no name.
async fn connect(
    name: Option<&str>,
    options: ClientOptions,
    compression: Compression,
    metrics: &Metrics,
) -> Result<ClusterClient> {
    let client = Client::new(ClientOptions { observer: Some(Arc::new(metrics.clone())), ..options }).await?;
    // Made for each cluster: the options hold what informers know together about whether their API server is there.
    let mut informer = InformerOptions { compression, ..InformerOptions::default() };
    informer.reflector.check_watch_lists = checks_watch_lists();
    informer.reflector.cluster = name.map(Arc::from);
    let options = FactoryOptions { informer, ..FactoryOptions::default() };
    let factory = SharedInformerFactory::for_client(client.clone(), options);
    Ok(ClusterClient { client, factory })
}

/// A running host.
pub struct Hosting {
    manager: Manager,
    admin: SocketAddr,
    health: Option<SocketAddr>,
    serving: JoinHandle<()>,
    membership: Option<Membership>,
}

impl Hosting {
    /// Starts on the current runtime, which is `io`, and on the other threads.
    pub async fn start(options: HostingOptions, threads: Threads) -> Result<Self> {
        let Threads { guests, work, admin: admin_runtime, lease } = threads;
        let metrics = Metrics::new();
        let home = connect(None, options.client, options.compression, &metrics).await?;
        let mut others = BTreeMap::new();
        for (name, client) in options.clusters {
            let cluster = connect(Some(&name), client, options.compression, &metrics).await;
            let cluster = cluster.with_context(|| format!("--clusters: cluster {name:?}"))?;
            others.insert(name, cluster);
        }
        let client = home.client.clone();
        let engine = Engine::new(EngineOptions {
            cache_dir: options.cache_dir.map_or_else(default_cache_dir, Ok)?,
            compiler: worker::compiler(),
            instances: EngineOptions::DEFAULT_INSTANCES,
        })?;
        let admin = options.admin.listener.local_addr()?;
        let health = options.admin.health.as_ref().map(TcpListener::local_addr).transpose()?;
        let mut managed = options.manager;
        managed.events_about = options.pod.map(|pod| pod.object(&client)).transpose()?;
        let lease = lease.unwrap_or_else(Handle::current);
        let membership = options.election;
        let membership =
            membership.map(|options| PreparedMembership::new(client.clone(), options, lease)).transpose()?;
        if let Some(membership) = &membership {
            managed.election = membership.leader_election();
        }
        tokio::spawn(metrics.watch_this_runtime());
        let threads = PluginThreads { guests, work };
        let clusters = Clusters { home, others };
        let manager = Manager::start(managed, engine, clusters, metrics.clone(), threads).await?;
        let served = {
            // The readiness of a listener is reported by the runtime that it is registered with.
            let _on_admin = admin_runtime.enter();
            let moved = |listener: TcpListener| TcpListener::from_std(listener.into_std()?);
            AdminOptions {
                listener: moved(options.admin.listener)?,
                health: options.admin.health.map(moved).transpose()?,
                token_file: options.admin.token_file,
                log: options.admin.log,
            }
        };
        let serving = admin_runtime.spawn(admin::serve(served, manager.clone(), metrics));
        // Last, so that a host which cannot start holds no lease.
        Ok(Self { manager, admin, health, serving, membership: membership.map(PreparedMembership::start) })
    }

    /// Where the admin endpoints are.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Where health alone is served.
    pub fn health(&self) -> Option<SocketAddr> {
        self.health
    }

    /// The plugins.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// Ends a host that takes part in no election: calls under way may go on for `grace`.
    pub async fn close(self, grace: Duration) {
        // What goes on after that ends with its threads.
        let _ = self.manager.shutdown(grace).await;
        self.serving.abort();
    }

    /// Waits until the host must end at once, and says why; for ever without an election. Cancel-safe.
    pub async fn lost(&mut self) -> Error {
        match &mut self.membership {
            Some(membership) => membership.lost().await,
            None => std::future::pending().await,
        }
    }

    /// Ends: no new calls, those under way may go on for `grace`; then a Lease is given up, unless some still go on: others
    /// wait for its end then. A signal cuts each short.
    ///
    /// # Errors
    /// When the Lease is lost meanwhile.
    pub async fn end(mut self, grace: Duration, signals: &mut Signals) -> Result<()> {
        tracing::info!(
            event = "shutdown_started",
            "shutting down: no new calls; running calls may continue for {} s",
            grace.as_secs()
        );
        if let Some(membership) = &self.membership {
            // A standby does not come to lead any more.
            membership.stop();
        }
        let manager = self.manager.clone();
        let all_ended = tokio::select! {
            ended = manager.shutdown(grace) => ended,
            lost = self.lost() => return Err(lost),
            // Asked twice.
            () = signals.next() => false,
        };
        self.serving.abort();
        if !all_ended {
            tracing::warn!(
                event = "calls_unfinished",
                "running calls did not end within the shutdown timeout: they end with the process"
            );
        }
        let kept = match self.membership {
            Some(membership) if all_ended => tokio::select! {
                released = membership.release() => {
                    released?;
                    false
                }
                () = signals.next() => true,
            },
            Some(membership) => membership.abandon().await,
            None => false,
        };
        if kept {
            tracing::warn!(
                event = "lease_not_released",
                "the Lease was not released: standbys take over after it expires"
            );
        }
        tracing::info!(event = "stopped", "stopped");
        Ok(())
    }
}

/// The folder of compiled plugins unless another one is named.
pub fn default_cache_dir() -> Result<PathBuf> {
    let from = |variable: &str| std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = from("XDG_CACHE_HOME").or_else(|| from("HOME").map(|home| home.join(".cache")));
    let base = base.context("neither XDG_CACHE_HOME nor HOME is set: name a folder with --cache-dir")?;
    Ok(base.join("pilothouse"))
}
