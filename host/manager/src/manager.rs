//! [`Manager`]: the plugins of a host, kept in step with the plugin directory and with the Plugins of the cluster.
//!
//! One task reads the changes of both (`manager/changes.rs`). Each plugin's files are loaded in a task of its own
//! (`lifecycle/follow.rs`), so a slow compilation, or a plugin that waits for its caches, does not delay the others. A bounded
//! number compiles or describes at once. A newer change of the same plugin cancels that task.

mod changes;
mod clusters;
mod options;
mod shards;
mod start_log;
mod succession;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_engine::{Engine, EngineOptions};
use pilothouse_plugin::directory::Files;
use pilothouse_plugin::split_run;
use pilothouse_workqueue::{Priority, Timekeeper};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use self::clusters::Cluster;
pub use self::clusters::{ClusterClient, Clusters};
pub use self::options::{ManagerOptions, PluginThreads, StartError};
use crate::access::{AccessReviews, AskServer};
use crate::dispatch::guest::Compiler;
use crate::dispatch::instance_pool::memory::default_guest_memory;
use crate::dispatch::instance_pool::{InstancePool, PoolBounds};
use crate::dispatch::reasons::Reasons;
use crate::imports::remote_clusters::ClusterTable;
use crate::lifecycle::component_fetch::ComponentFetcher;
use crate::lifecycle::component_store::ComponentStore;
use crate::lifecycle::config_sources::SharedSources;
use crate::lifecycle::directory::Directory;
use crate::lifecycle::load::Loader;
use crate::lifecycle::plugin::{HostContext, Plugin};
use crate::lifecycle::plugin_objects::writer::StatusWriter;
use crate::lifecycle::plugin_objects::{PluginObjects, PluginTable};
use crate::lifecycle::schedules::Schedules;
use crate::lifecycle::sources::Sources;
use crate::lifecycle::standby::Standby;
use crate::observe::command::{Command, CommandError};
use crate::observe::detail::PluginDetail;
use crate::observe::host_events::HostEvents;
use crate::observe::metrics::Metrics;
use crate::observe::status::{ElectionView, PluginList, PluginState, Role};

/// How long pending events may still be written when a plugin or the host ends.
const EVENTS_GRACE: Duration = Duration::from_secs(2);

/// Instances of all plugins: those of the engine.
const POOL_SLOTS: usize = EngineOptions::DEFAULT_INSTANCES as usize;

/// The plugins of a host; a cheap clone.
#[derive(Clone)]
pub struct Manager(Arc<Inner>);

struct Inner {
    started: (Timestamp, Instant),
    home: Arc<Cluster>,
    /// The other clusters, by name.
    others: BTreeMap<String, Arc<Cluster>>,
    metrics: Metrics,
    host: HostContext,
    /// The runs of the plugins, by name.
    plugins: Mutex<BTreeMap<String, Entry>>,
    /// Who defines each plugin.
    sources: Mutex<Sources>,
    /// Sources that have not been read once.
    unread: AtomicUsize,
    /// The Plugins of the cluster, where they are followed.
    objects: OnceLock<PluginTable>,
    /// All sources were read once, and each plugin in them has been loaded or refused.
    first_loads_over: AtomicBool,
    stopping: CancellationToken,
    tasks: TaskTracker,
    watcher: Mutex<Option<JoinHandle<()>>>,
}

struct Entry {
    plugin: Arc<Plugin>,
    /// Cancels the preparation of the newest files.
    prepared: CancellationToken,
    /// Cancels what follows the last files that took over: loads, and the following of the configuration.
    followed: CancellationToken,
    /// The newest files.
    files: Option<Files>,
}

impl Entry {
    fn new(plugin: &Arc<Plugin>) -> Self {
        let (prepared, followed) = (CancellationToken::new(), CancellationToken::new());
        Self { plugin: Arc::clone(plugin), prepared, followed, files: None }
    }

    /// Newer files have come, whose preparation and following `cancel` ends.
    fn prepare(&mut self, cancel: CancellationToken) {
        std::mem::replace(&mut self.prepared, cancel).cancel();
    }

    /// The newest files are prepared: those before are followed no longer.
    fn take_over(&mut self) {
        let prepared = std::mem::take(&mut self.prepared);
        std::mem::replace(&mut self.followed, prepared).cancel();
    }

    /// The plugin is removed.
    fn cancel(&self) {
        self.prepared.cancel();
        self.followed.cancel();
    }
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager").finish_non_exhaustive()
    }
}

impl Manager {
    /// Starts the plugins of the directory and of the cluster. Informers run on the current runtime; what a plugin may make large runs on
    /// `threads`, so that no plugin delays a watch.
    ///
    /// # Errors
    /// When the directory, or the folder of fetched components, cannot be used.
    pub async fn start(
        options: ManagerOptions,
        engine: Engine,
        clusters: Clusters,
        metrics: Metrics,
        threads: PluginThreads,
    ) -> Result<Self, StartError> {
        let (ceilings, allowed) = (options.limits.ceilings.clone(), options.allowed.clone());
        let watched = |path| Directory::within(path, options.directory, ceilings.clone());
        let mut directory = options.plugins.clone().map(watched).transpose()?;
        let (mut objects, mut store) = (None, None);
        if let Some(options) = &options.objects {
            let components = Arc::new(options.open_store().map_err(StartError::Components)?);
            store = Some(Arc::clone(&components));
            objects = Some(PluginObjects::start(
                &clusters.home.factory,
                options.namespaces.as_ref(),
                ceilings,
                allowed,
                clusters.others.keys().cloned().collect(),
                components,
            )?);
        }
        let memory = Arc::clone(engine.guest_memory());
        let manager = Self::new(options, Arc::new(engine), clusters, metrics, threads, store).await;
        manager.0.host.instances.bound(&memory);
        for cluster in manager.clusters() {
            let (cluster, stopping) = (Arc::clone(cluster), manager.0.stopping.clone());
            tokio::spawn(async move { stopping.run_until_cancelled(cluster.ask_for_version()).await });
        }
        if let Some(objects) = &objects {
            // Set once: the manager is new.
            let _ = manager.0.objects.set(objects.table());
            let this = manager.clone();
            let writer = StatusWriter {
                table: objects.table(),
                sink: manager.0.home.loader.client.clone(),
                election: manager.0.host.election.clone(),
            };
            manager.0.tasks.spawn_on(
                async move {
                    let stopping = this.0.stopping.clone();
                    stopping.run_until_cancelled(writer.run(|name| this.plugin_view(name))).await;
                },
                manager.work(),
            );
        }
        let this = manager.clone();
        manager.0.tasks.spawn_on(
            async move {
                let stopping = this.0.stopping.clone();
                stopping.run_until_cancelled(this.log_start()).await;
            },
            manager.work(),
        );
        let this = manager.clone();
        let watcher = manager.work().spawn(async move {
            let stopping = this.0.stopping.clone();
            loop {
                let next = this.apply_next(directory.as_mut(), objects.as_mut());
                if stopping.run_until_cancelled(next).await.is_none() {
                    return;
                }
            }
        });
        *manager.0.watcher.lock() = Some(watcher);
        Ok(manager)
    }

    /// A manager without plugins.
    async fn new(
        options: ManagerOptions,
        compiler: Arc<dyn Compiler>,
        clusters: Clusters,
        metrics: Metrics,
        threads: PluginThreads,
        store: Option<Arc<ComponentStore>>,
    ) -> Self {
        let PluginThreads { guests, work } = threads;
        let sources = [options.plugins.is_some(), options.objects.is_some()];
        // TLS and bodies of live calls are of a plugin's size: their connections are not those of lists and watches.
        let clusters = clusters.with_connections_on(&work);
        let table = ClusterTable::new(clusters.named());
        let Clusters { home, others } = clusters;
        let ClusterClient { client, factory } = home;
        metrics.watch_election(&options.election);
        let shards = options.election.shards().cloned();
        let host_events = match options.events_about {
            Some(object) => HostEvents::start(client.clone(), &options.host, object).await,
            None => HostEvents::default(),
        };
        metrics.watch_host_events(host_events.clone());
        let (reloads, mut wanted) = mpsc::unbounded_channel();
        let timekeeper = Timekeeper::new();
        guests.group().spawn({
            let timekeeper = timekeeper.clone();
            async move { timekeeper.run().await }
        });
        let memory = options.limits.guest_memory.unwrap_or_else(default_guest_memory);
        let bounds = PoolBounds { memory, slots: POOL_SLOTS };
        let host = HostContext {
            work: work.clone(),
            standby: Standby::start(&options.election, &guests, &work),
            election: options.election,
            instances: InstancePool::new(bounds, options.idle_ttl, &guests),
            timekeeper: timekeeper.clone(),
            guests,
            host: options.host.into(),
            host_events,
            schedules: Schedules::start(&Handle::current()),
            reloads,
        };
        let asker = AskServer::new(&client, Arc::clone(factory.availability()));
        let reviews = AccessReviews::new(Arc::new(asker));
        let availability = Arc::clone(factory.availability());
        let fetched = options.objects.zip(store);
        let fetcher = fetched.map(|(objects, store)| {
            Arc::new(ComponentFetcher::new(client.clone(), store, reviews.clone(), objects, work.clone()))
        });
        let loader = Loader {
            sources: SharedSources::new(
                client.clone(),
                availability,
                reviews.clone(),
                options.allowed.config_files_under.clone(),
            ),
            reviews,
            compiler,
            fetcher,
            client,
            factory,
            clusters: table,
            work,
            require_service_account: options.require_service_account,
            allowed: options.allowed,
            slots: Arc::default(),
            recorder: options.recorder,
            indexes: Arc::default(),
        };
        let other = |(name, ClusterClient { client, factory }): (String, ClusterClient)| {
            let cluster = Cluster::new(Some(&name), loader.elsewhere(&name, client, factory));
            (name, Arc::new(cluster))
        };
        let others = others.into_iter().map(other).collect();
        let manager = Self(Arc::new(Inner {
            started: (Timestamp::now(), Instant::now()),
            home: Arc::new(Cluster::new(None, loader)),
            others,
            metrics,
            host,
            plugins: Mutex::default(),
            sources: Mutex::default(),
            unread: AtomicUsize::new(sources.into_iter().filter(|is_followed| *is_followed).count()),
            objects: OnceLock::new(),
            first_loads_over: AtomicBool::new(false),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            watcher: Mutex::new(None),
        }));
        let this = Arc::downgrade(&manager.0);
        let all = move || this.upgrade().map_or_else(Vec::new, |this| Self(this).plugins());
        manager.0.metrics.watch_plugins(all);
        manager.0.metrics.watch_clusters(manager.clusters());
        if let Some(shards) = shards {
            manager.follow_shards(&shards);
        }
        let (this, stopping) = (Arc::downgrade(&manager.0), manager.0.stopping.clone());
        let reloading = async move {
            while let Some(Some(name)) = stopping.run_until_cancelled(wanted.recv()).await {
                let Some(this) = this.upgrade() else { return };
                // It may have been removed meanwhile.
                let _ = Self(this).reload(&name);
            }
        };
        manager.0.tasks.spawn_on(reloading, manager.work());
        manager
    }

    /// All plugins, those that are being removed included.
    pub(crate) fn plugins(&self) -> Vec<Arc<Plugin>> {
        self.0.plugins.lock().values().map(|entry| Arc::clone(&entry.plugin)).collect()
    }

    /// When the host was started, on both clocks.
    pub(crate) fn started(&self) -> (Timestamp, Instant) {
        self.0.started
    }

    /// All clusters of the host, the home cluster first.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = &Arc<Cluster>> {
        std::iter::once(&self.0.home).chain(self.0.others.values())
    }

    /// The cluster of a run, by the name of the run; none if the host has no cluster of that name.
    fn cluster_of(&self, run: &str) -> Option<&Arc<Cluster>> {
        split_run(run).1.map_or(Some(&self.0.home), |name| self.0.others.get(name))
    }

    /// The threads for what grows with a plugin.
    pub(crate) fn work(&self) -> &Handle {
        &self.0.home.loader.work
    }

    /// Loads the files of one run.
    fn load(&self, files: Files) {
        let cancel = self.0.stopping.child_token();
        let plugin = self.plugin(&files.name, Some((&files, &cancel)));
        self.follow(plugin, files, cancel);
    }

    /// Loads the newest files of a plugin again.
    fn reload(&self, name: &str) -> Result<(), CommandError> {
        let cancel = self.0.stopping.child_token();
        // Under one lock: newer files of the directory come before it or after it.
        let (plugin, files) = {
            let mut plugins = self.0.plugins.lock();
            let entry = plugins.get_mut(name).ok_or(CommandError::NoPlugin)?;
            if entry.followed.is_cancelled() {
                return Err(CommandError::REMOVED);
            }
            let files = entry.files.clone().ok_or(CommandError::Not("its files were never usable"))?;
            entry.prepare(cancel.clone());
            (Arc::clone(&entry.plugin), files)
        };
        self.follow(plugin, files, cancel);
        Ok(())
    }

    fn follow(&self, plugin: Arc<Plugin>, files: Files, cancel: CancellationToken) {
        // Files of a run without a cluster are refused before.
        let Some(cluster) = self.cluster_of(plugin.name()).cloned() else { return };
        plugin.files_came();
        let this = self.clone();
        let following = async move {
            let take_over = || {
                let mut plugins = this.0.plugins.lock();
                let entry = plugins.get_mut(&**plugin.name()).filter(|_| !cancel.is_cancelled());
                entry.map(Entry::take_over).is_some()
            };
            let follow = cluster.loader.follow(&plugin, files, &cancel, take_over);
            if let Err(panic) = AssertUnwindSafe(follow).catch_unwind().await {
                let error = plugin.task_panicked("the load", &*panic);
                plugin.load_failed(&error, &cancel);
            }
        };
        self.0.tasks.spawn_on(following, self.work());
    }

    /// The plugins as `/plugins` shows them.
    #[must_use]
    pub fn status(&self) -> PluginList {
        let plugins = self.plugins().iter().map(|plugin| plugin.status()).collect();
        let clusters = self.0.others.values().filter_map(|cluster| cluster.view()).collect();
        PluginList { not_ready: self.not_ready(), plugins, election: self.0.host.election.view(), clusters }
    }

    /// All that is known of one plugin; none if there is none of that name.
    #[must_use]
    pub fn detail(&self, name: &str) -> Option<PluginDetail> {
        self.find(name).map(|plugin| plugin.detail())
    }

    /// The plugin of a name, if there is one.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Plugin>> {
        self.0.plugins.lock().get(name).map(|entry| Arc::clone(&entry.plugin))
    }

    /// Asks the API server about the users of the admin address.
    pub(crate) fn access_asker(&self) -> AskServer {
        let Loader { client, factory, .. } = &self.0.home.loader;
        AskServer::new(client, Arc::clone(factory.availability()))
    }

    /// Does what an operator asks for; returns what was done.
    pub(crate) fn command(&self, name: &str, command: &Command) -> Result<String, CommandError> {
        let plugin = self.find(name).ok_or(CommandError::NoPlugin)?;
        if plugin.is_stopping() {
            return Err(CommandError::REMOVED);
        }
        match command {
            Command::Pause => plugin.pause(true),
            Command::Resume => plugin.pause(false),
            Command::Reload => {
                self.reload(name)?;
                return Ok(format!("{name}: the files are loaded again"));
            }
            Command::Reconcile(key) => {
                if !plugin.election().is_leader() {
                    let why =
                        "this host is a standby; ask the leader, or the holder of the shard of the plugin";
                    return Err(CommandError::Not(why));
                }
                if plugin.current().is_none() {
                    return Err(CommandError::Not("no generation runs"));
                }
                plugin.queue().add_with(key.clone(), Reasons::MANUAL, Priority::NORMAL);
                return Ok(format!("{name}: {key} is queued"));
            }
            Command::Release => {
                if !plugin.release() {
                    return Err(CommandError::Not("the plugin is not in quarantine"));
                }
            }
        }
        Ok(format!("{name}: {}", plugin.status().state.as_str()))
    }

    /// Why the host is not ready; none when it is. A standby is ready like a leader. A plugin that cannot be loaded does not
    /// keep the host from being ready; a plugin that waits for its first lists does.
    #[must_use]
    pub fn not_ready(&self) -> Option<String> {
        if self.0.stopping.is_cancelled() {
            return Some("shutting down".to_owned());
        }
        if let Some(election) = self.election() {
            // In a rollout the hosts that work go on, since no host that would wait until the Lease is deleted takes their place.
            if election.role == Role::Lost || election.mismatch().is_some() {
                return Some(election.to_string());
            }
        }
        if let Some(why) = self.0.home.unanswered() {
            return Some(format!("no API server yet: {why}"));
        }
        if !self.0.first_loads_over.load(Acquire) {
            let plugins = self.plugins();
            let statuses = plugins.iter().map(|plugin| plugin.status());
            let loading = statuses.filter(|status| status.state == PluginState::Loading).map(|status| {
                let why = status.last_error.unwrap_or_else(|| "loading".to_owned());
                format!("plugin {}: {why}", status.name)
            });
            let unlisted = || self.0.objects.get().and_then(PluginTable::why_unlisted);
            let why = start_log::in_one_text(loading).or_else(unlisted);
            return Some(why.unwrap_or_else(|| "reading the plugin directory".to_owned()));
        }
        None
    }

    /// The leader election of this host; none without one.
    pub(crate) fn election(&self) -> Option<ElectionView> {
        self.0.host.election.view()
    }

    /// Why the host is unhealthy; none when it is not.
    pub(crate) fn unhealthy(&self) -> Option<String> {
        self.0.host.election.check().err()
    }

    /// Shuts down: no new calls; waits for calls in flight, and for their writes, for `grace` at most. `false` when some are not
    /// over by then: they go on until their runtimes end.
    pub async fn shutdown(&self, grace: Duration) -> bool {
        self.0.stopping.cancel();
        let watcher = self.0.watcher.lock().take();
        if let Some(watcher) = watcher {
            let _ = watcher.await;
        }
        let plugins = self.plugins();
        for plugin in &plugins {
            plugin.retire();
        }
        let ended = async {
            for plugin in &plugins {
                plugin.ended().await;
            }
        };
        let in_time = tokio::time::timeout(grace, ended).await.is_ok();
        let events = plugins.iter().map(|plugin| plugin.events().shutdown(EVENTS_GRACE));
        tokio::join!(join_all(events), self.0.host.host_events.shutdown(EVENTS_GRACE));
        self.0.tasks.close();
        join_all(self.clusters().map(|cluster| cluster.loader.factory.shutdown())).await;
        if let Some(recorder) = &self.0.home.loader.recorder {
            recorder.close();
        }
        in_time
    }
}

#[cfg(test)]
pub(crate) mod tests;
