//! [`ManagerOptions`]: what a manager is started with; [`StartError`]: why it cannot be.

use std::path::PathBuf;
use std::time::Duration;

use pilothouse_cache::CacheError;
use pilothouse_executor::Executor;
use pilothouse_plugin::{AllowLists, HostLimits};
use pilothouse_recording::Recorder;
use tokio::runtime::Handle;

use crate::leader_election::LeaderElection;
use crate::lifecycle::directory::{DirectoryError, DirectoryOptions};
use crate::lifecycle::plugin_objects::PluginObjectsOptions;
use crate::observe::host_events::HostObject;

/// Options of a manager.
#[derive(Debug, Clone)]
pub struct ManagerOptions {
    /// The plugin directory; none: plugins come from the cluster alone.
    pub plugins: Option<PathBuf>,
    /// The Plugins of the cluster; none: they are not followed.
    pub objects: Option<PluginObjectsOptions>,
    /// How the directory is read.
    pub directory: DirectoryOptions,
    /// The ceilings of plugins and the bounds of the host.
    pub limits: HostLimits,
    /// How long an instance is kept warm without a call. The mapped code is dropped with the last instance.
    pub idle_ttl: Duration,
    /// Refuse plugins that would act with the host's own identity.
    pub require_service_account: bool,
    /// What manifests may name.
    pub allowed: AllowLists,
    /// Leader election: disabled, the host runs plugins at once; enabled, when it is elected.
    pub election: LeaderElection,
    /// The name of the host as the reporter of events; the first 128 bytes count.
    pub host: String,
    /// The object on which the host records events about plugins; none: it records none.
    pub events_about: Option<HostObject>,
    /// Records the calls of plugins.
    pub recorder: Option<Recorder>,
}

impl ManagerOptions {
    /// Default of `idle_ttl`: a wake costs less than a millisecond, an idle instance tens of kilobytes.
    pub const DEFAULT_IDLE_TTL: Duration = Duration::from_secs(30);

    /// Options for a directory, the rest at its defaults.
    #[must_use]
    pub fn new(plugins: impl Into<Option<PathBuf>>) -> Self {
        Self {
            plugins: plugins.into(),
            objects: None,
            directory: DirectoryOptions::default(),
            limits: HostLimits::default(),
            idle_ttl: Self::DEFAULT_IDLE_TTL,
            require_service_account: false,
            allowed: AllowLists::default(),
            election: LeaderElection::disabled(),
            host: pilothouse_election::hostname(),
            events_about: None,
            recorder: None,
        }
    }
}

/// Why a manager cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The plugin directory cannot be watched.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The folder of components of the cluster cannot be used.
    #[error("the folder of components: {0}; choose another one with --cache-dir")]
    Components(String),
    /// The Plugins of the cluster cannot be followed.
    #[error("the Plugins of the cluster cannot be followed: {0}")]
    Objects(#[from] CacheError),
}

/// Where the work of plugins runs, beside the runtime of the manager.
#[derive(Debug, Clone)]
pub struct PluginThreads {
    /// The threads of guests.
    pub guests: Executor,
    /// What grows with a plugin and is no guest's: loads, index builds, writes, outgoing HTTP, pages of the admin address.
    pub work: Handle,
}
