//! [`Rollback`]: the return to the last good generation, after a new one failed its [`Probation`](super::probation).
//!
//! A rollback loads the component and the configuration of the good generation once more, as a new generation. Everything
//! else comes from the newest manifest: permissions, limits, the service account, `onReload`. So a rollback never widens
//! what a plugin may do. If the old component is refused under the newest manifest, the new generation stays.
//!
//! A rollback is forgotten with the next change of the plugin's files or configuration, which is tried like any other.

use std::fmt;
use std::sync::Arc;

use pilothouse_plugin::directory::Files;
use pilothouse_plugin::{Manifest, RollbackPolicy};
use tokio_util::sync::CancellationToken;

use crate::dispatch::guest::Component;
use crate::lifecycle::config_sources::MergedConfig;
use crate::lifecycle::load::{Cause, Load, Loader};
use crate::lifecycle::plugin::Plugin;
use crate::observe::status::RollbackView;

/// The parts of a generation that a rollback restores. Two are equal when a guest would be and see the same.
#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) code: Arc<dyn Component>,
    pub(crate) config: MergedConfig,
}

impl Version {
    /// `sha256:…` of the component.
    pub(crate) fn digest(&self) -> &str {
        self.code.digest()
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.digest() == other.digest() && self.config == other.config
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Version").field("digest", &self.digest()).finish_non_exhaustive()
    }
}

/// What the manifest of a generation says of rollbacks from it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RollbackRule {
    policy: RollbackPolicy,
    /// `spec.source.digest`: whoever pins a component gets no other one.
    pinned: Option<String>,
}

impl RollbackRule {
    pub(crate) fn of(manifest: &Manifest) -> Self {
        Self { policy: manifest.rollback, pinned: manifest.source.digest.clone() }
    }

    /// Whether a component of this digest may come back.
    pub(crate) fn allows(&self, digest: &str) -> bool {
        self.policy == RollbackPolicy::OnFault && self.pinned.as_deref().is_none_or(|pinned| pinned == digest)
    }
}

/// A rollback that is wanted.
#[derive(Debug, Clone)]
pub(crate) struct Rollback {
    /// The generation that failed its probation, and its digest.
    pub(crate) from: u64,
    pub(crate) digest: String,
    /// The good generation, and what to restore of it.
    pub(crate) to: u64,
    pub(crate) version: Version,
    /// The last fault.
    pub(crate) reason: String,
}

impl Rollback {
    pub(crate) fn view(&self) -> RollbackView {
        let Self { from, digest, to, reason, .. } = self.clone();
        RollbackView { from, digest, to, reason }
    }
}

impl fmt::Display for Rollback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, reason, .. } = self;
        write!(
            f,
            "generation {from} was rolled back to generation {to}, because its first calls faulted: {reason}"
        )
    }
}

impl Loader {
    /// Loads the good version again in place of the one that failed.
    pub(super) async fn roll_back(
        &self,
        plugin: &Arc<Plugin>,
        files: &Files,
        rollback: &Rollback,
        cancel: &CancellationToken,
    ) {
        let Version { code, config } = &rollback.version;
        let cause = Cause::Rollback(rollback);
        let load = Load { files, code, config, number: plugin.next_number(), cause };
        self.load(plugin, &load, cancel).await;
    }
}
