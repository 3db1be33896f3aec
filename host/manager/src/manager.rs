//! [`Manager`]: the plugins of a host, kept in step with the plugin directory.
//!
//! One task reads the directory's changes; each plugin's files are loaded in a task of its own (`follow.rs`), so a slow
//! compilation or a plugin that waits for its caches holds up no other. A newer change of the same plugin cancels that task.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use pilothouse_cache::SharedInformerFactory;
use pilothouse_client::Client;
use pilothouse_engine::Engine;
use pilothouse_plugin::directory::{Change, Files};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::leader_election::LeaderElection;
use crate::lifecycle::directory::{Directory, DirectoryError, DirectoryOptions};
use crate::lifecycle::load::Loader;
use crate::lifecycle::plugin::{HostContext, Plugin};
use crate::observe::host_events::{HostEvents, HostObject};
use crate::observe::metrics::Metrics;
use crate::observe::status::{ElectionView, PluginList, PluginState, Role};

/// How a manager is made.
#[derive(Debug, Clone)]
pub struct ManagerOptions {
    /// The plugin directory.
    pub plugins: PathBuf,
    /// How the directory is read.
    pub directory: DirectoryOptions,
    /// How long an instance is kept warm without a call; then it goes, and the mapped code with the last one.
    pub idle_ttl: Duration,
    /// Refuse plugins that would act with the host's own identity.
    pub require_service_account: bool,
    /// Whether this host works from the start, or when it is elected.
    pub election: LeaderElection,
    /// What the host is called where events say who recorded them; 128 bytes at most count.
    pub host: String,
    /// What the host's own events about plugins are recorded on; none: they are not.
    pub events_about: Option<HostObject>,
}

impl ManagerOptions {
    /// How long instances are kept warm unless set otherwise: a wake costs less than a millisecond, an idle instance tens of
    /// kilobytes.
    pub const DEFAULT_IDLE_TTL: Duration = Duration::from_secs(30);

    /// Options for a directory, the rest as usual.
    #[must_use]
    pub fn new(plugins: PathBuf) -> Self {
        Self {
            plugins,
            directory: DirectoryOptions::default(),
            idle_ttl: Self::DEFAULT_IDLE_TTL,
            require_service_account: false,
            election: LeaderElection::disabled(),
            host: pilothouse_election::hostname(),
            events_about: None,
        }
    }
}

/// Wait between two tries to reach the API server at start.
const GREET_AGAIN: Duration = Duration::from_secs(2);

/// How long events that were recorded may still be written when a plugin or the host ends.
const EVENTS_GRACE: Duration = Duration::from_secs(2);

/// The plugins of a host; a cheap clone.
#[derive(Clone)]
pub struct Manager(Arc<Inner>);

struct Inner {
    loader: Arc<Loader>,
    metrics: Metrics,
    home: HostContext,
    plugins: Mutex<BTreeMap<String, Entry>>,
    /// Why the API server has not answered yet; none once it has.
    unreachable: Mutex<Option<String>>,
    /// The directory was read once and each plugin in it has been loaded or refused.
    settled: tokio::sync::watch::Sender<bool>,
    stopping: CancellationToken,
    tasks: TaskTracker,
    watcher: Mutex<Option<JoinHandle<()>>>,
}

struct Entry {
    plugin: Arc<Plugin>,
    /// Ends the load under way, and following the configuration.
    load: CancellationToken,
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager").finish_non_exhaustive()
    }
}

impl Manager {
    /// Starts with the plugins of the directory. Runs on the current runtime; guests run on `guests`, so that no guest can
    /// hold up the watches.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub async fn start(
        options: ManagerOptions,
        engine: Engine,
        client: Client,
        factory: SharedInformerFactory,
        metrics: Metrics,
        guests: Handle,
    ) -> Result<Self, DirectoryError> {
        let mut directory = Directory::new(&options.plugins, options.directory)?;
        metrics.watch_informers(factory.clone());
        if let Some(election) = options.election.status() {
            metrics.watch_election(election);
        }
        let io = Handle::current();
        let host_events = match options.events_about {
            Some(object) => HostEvents::start(client.clone(), &options.host, object).await,
            None => HostEvents::default(),
        };
        metrics.watch_host_events(host_events.clone());
        let home = HostContext {
            guests: guests.clone(),
            io: io.clone(),
            election: options.election,
            idle_ttl: options.idle_ttl,
            host: options.host.into(),
            host_events,
        };
        let loader = Loader {
            engine,
            client,
            factory,
            io,
            guests,
            require_service_account: options.require_service_account,
        };
        let manager = Self(Arc::new(Inner {
            loader: Arc::new(loader),
            metrics,
            home,
            plugins: Mutex::default(),
            unreachable: Mutex::new(Some("not tried yet".to_owned())),
            settled: tokio::sync::watch::Sender::new(false),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            watcher: Mutex::new(None),
        }));
        let this = manager.clone();
        tokio::spawn(async move { this.greet().await });
        let this = manager.clone();
        let watcher = tokio::spawn(async move {
            let stopping = this.0.stopping.clone();
            while let Some(changes) = stopping.run_until_cancelled(directory.next()).await {
                for change in changes {
                    this.apply(change);
                }
            }
        });
        *manager.0.watcher.lock() = Some(watcher);
        Ok(manager)
    }

    /// Asks the API server for its version until it answers, and says what comes of it.
    async fn greet(&self) {
        let Loader { client, factory, .. } = &*self.0.loader;
        let asking = async {
            loop {
                let permit = factory.availability().enter().await;
                let answer = client.server_version().await;
                permit.settle(answer.as_ref().is_err_and(pilothouse_client::Error::is_connection_refused));
                match answer {
                    Ok(version) => {
                        tracing::info!(server = client.server(), version = version.git_version, "connected");
                        *self.0.unreachable.lock() = None;
                        return;
                    }
                    Err(error) => {
                        let message = format!("{}: {error}", client.server());
                        tracing::warn!("no API server yet, trying again: {message}");
                        *self.0.unreachable.lock() = Some(message);
                        tokio::time::sleep(GREET_AGAIN.mul_f64(rand::random_range(0.8..1.2))).await;
                    }
                }
            }
        };
        self.0.stopping.run_until_cancelled(asking).await;
    }

    fn apply(&self, change: Change) {
        match change {
            Change::Changed(files) => self.load(files),
            Change::Removed { name } => self.remove(&name),
            Change::Broken { name, file, reason } => {
                let message = format!("{}: {reason}", file.display());
                tracing::error!(plugin = name, "plugin not loaded: {message}");
                self.plugin(&name).files_broken(message);
            }
            Change::Unreadable { reason } => tracing::error!("{reason}"),
            Change::Synced => {
                let this = self.clone();
                self.0.tasks.spawn(async move {
                    this.first_loads().await;
                    this.0.settled.send_replace(true);
                });
            }
        }
    }

    /// Waits until no plugin that is there now is in its first load.
    async fn first_loads(&self) {
        let plugins: Vec<_> = self.0.plugins.lock().values().map(|entry| Arc::clone(&entry.plugin)).collect();
        for plugin in plugins {
            plugin.loaded().await;
        }
    }

    /// The plugin of a name, made when it is new.
    fn plugin(&self, name: &str) -> Arc<Plugin> {
        let mut plugins = self.0.plugins.lock();
        let present = plugins.get(name).map(|entry| Arc::clone(&entry.plugin));
        let predecessor = match present {
            Some(plugin) if !plugin.stopping.is_cancelled() => return plugin,
            other => other,
        };
        let plugin = Plugin::new(name, &self.0.home, &self.0.metrics, predecessor);
        let entry = Entry { plugin: Arc::clone(&plugin), load: CancellationToken::new() };
        plugins.insert(name.to_owned(), entry);
        plugin
    }

    fn load(&self, files: Files) {
        let plugin = self.plugin(&files.name);
        let cancel = self.0.stopping.child_token();
        if let Some(entry) = self.0.plugins.lock().get_mut(&files.name) {
            std::mem::replace(&mut entry.load, cancel.clone()).cancel();
        }
        plugin.set_loading();
        let loader = Arc::clone(&self.0.loader);
        self.0.tasks.spawn(async move { loader.follow(&plugin, files, &cancel).await });
    }

    fn remove(&self, name: &str) {
        let plugin = {
            let plugins = self.0.plugins.lock();
            let Some(entry) = plugins.get(name) else { return };
            entry.load.cancel();
            Arc::clone(&entry.plugin)
        };
        tracing::info!(plugin = name, "plugin removed");
        plugin.reporter.removed();
        plugin.retire();
        let this = self.clone();
        self.0.tasks.spawn(async move {
            plugin.ended().await;
            plugin.events.shutdown(EVENTS_GRACE).await;
            let mut plugins = this.0.plugins.lock();
            // Unless one of the same name came meanwhile.
            if plugins.get(&*plugin.name).is_some_and(|entry| Arc::ptr_eq(&entry.plugin, &plugin)) {
                plugins.remove(&*plugin.name);
                this.0.metrics.remove(&plugin.name);
            }
        });
    }

    /// How the plugins fare.
    #[must_use]
    pub fn status(&self) -> PluginList {
        let plugins: Vec<_> = self.0.plugins.lock().values().map(|entry| Arc::clone(&entry.plugin)).collect();
        let plugins = plugins.iter().map(|plugin| plugin.status()).collect();
        PluginList { plugins, election: self.0.home.election.view() }
    }

    /// What stands in the way of being ready; none when the host is, a standby like a leader. A plugin that cannot be loaded is its own affair; one
    /// that still waits for its caches is not.
    #[must_use]
    pub fn not_ready(&self) -> Option<String> {
        if self.0.stopping.is_cancelled() {
            return Some("shutting down".to_owned());
        }
        if let Some(election) = self.election().filter(|election| election.role == Role::Lost) {
            return Some(election.to_string());
        }
        if let Some(why) = &*self.0.unreachable.lock() {
            return Some(format!("no API server yet: {why}"));
        }
        if !*self.0.settled.borrow() {
            let loading = self.status().plugins.into_iter().find(|p| p.state == PluginState::Loading);
            return Some(match loading {
                Some(p) => {
                    format!("plugin {}: {}", p.name, p.last_error.unwrap_or_else(|| "loading".to_owned()))
                }
                None => "reading the plugin directory".to_owned(),
            });
        }
        None
    }

    /// The election of hosts that this one takes part in.
    pub(crate) fn election(&self) -> Option<ElectionView> {
        self.0.home.election.view()
    }

    /// Why the host should be ended from outside, if it should.
    pub(crate) fn unhealthy(&self) -> Option<String> {
        self.0.home.election.check().err()
    }

    /// Ends: no new calls; waits for those in flight, and for their writes, at most `grace`. `false` when some are not over:
    /// they go on until their runtimes end, and so may their writes.
    pub async fn shutdown(&self, grace: Duration) -> bool {
        self.0.stopping.cancel();
        let watcher = self.0.watcher.lock().take();
        if let Some(watcher) = watcher {
            let _ = watcher.await;
        }
        let plugins: Vec<_> = self.0.plugins.lock().values().map(|entry| Arc::clone(&entry.plugin)).collect();
        for plugin in &plugins {
            plugin.retire();
        }
        let ended = async {
            for plugin in &plugins {
                plugin.ended().await;
            }
        };
        let in_time = tokio::time::timeout(grace, ended).await.is_ok();
        let events = plugins.iter().map(|plugin| plugin.events.shutdown(EVENTS_GRACE));
        tokio::join!(join_all(events), self.0.home.host_events.shutdown(EVENTS_GRACE));
        self.0.tasks.close();
        self.0.loader.factory.shutdown().await;
        in_time
    }
}
