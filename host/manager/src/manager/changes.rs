//! What each change of a source does to the plugins: of the plugin directory, and of the Plugins of the cluster.
//!
//! Invariant: one task calls this, so that a change is applied after those before it.

use std::sync::atomic::Ordering::{AcqRel, Release};

use pilothouse_election::Shards;
use pilothouse_plugin::directory::Change;

use super::Manager;
use crate::lifecycle::directory::Directory;
use crate::lifecycle::plugin_objects::status::PluginView;
use crate::lifecycle::plugin_objects::{ObjectChange, PluginObjects};
use crate::lifecycle::sources::AfterFiles;

impl Manager {
    /// Waits for the next changes of a source and applies them. Cancel-safe: what was read is applied.
    pub(super) async fn apply_next(
        &self,
        directory: Option<&mut Directory>,
        objects: Option<&mut PluginObjects>,
    ) {
        let of_directory = async {
            match directory {
                Some(directory) => directory.next().await,
                None => std::future::pending().await,
            }
        };
        let of_cluster = async {
            match objects {
                Some(objects) => objects.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changes = of_directory => changes.into_iter().for_each(|change| self.apply(change)),
            changes = of_cluster => changes.into_iter().for_each(|change| self.apply_object(change)),
        }
    }

    /// Applies one change of the plugin directory.
    pub(super) fn apply(&self, change: Change) {
        let sources = || self.0.sources.lock();
        match change {
            Change::Changed(files) => {
                sources().files_came(&files.name);
                self.load(files);
            }
            Change::Removed { name } => {
                let after = sources().files_gone(&name);
                match after {
                    AfterFiles::End => self.remove(&name),
                    AfterFiles::Load(files) => self.load(files),
                    AfterFiles::Nothing => {}
                }
            }
            Change::Broken { name, file, reason } => {
                self.refuse(&name, &format!("{}: {reason}", file.display()));
            }
            Change::Unreadable { reason } => tracing::error!(event = "plugin_unreadable", "{reason}"),
            Change::Synced => self.source_was_read(),
        }
    }

    /// Applies one change of the Plugins of the cluster.
    pub(super) fn apply_object(&self, change: ObjectChange) {
        let sources = || self.0.sources.lock();
        match change {
            ObjectChange::Changed(files) => {
                let files = sources().object_came(files);
                if let Some(files) = files {
                    self.load(files);
                }
            }
            ObjectChange::Refused { name, message } => {
                let concerns_plugin = sources().object_refused(&name);
                if concerns_plugin {
                    self.refuse(&name, &message);
                }
            }
            ObjectChange::Removed { name } => {
                let ends = sources().object_gone(&name);
                if ends {
                    self.remove(&name);
                }
            }
            ObjectChange::Synced => self.source_was_read(),
        }
    }

    /// A source has something of a plugin that cannot be used; a generation that runs goes on.
    fn refuse(&self, name: &str, message: &str) {
        tracing::error!(event = "plugin_failed", plugin = name, "plugin not loaded: {message}");
        self.plugin(name).files_failed(message);
    }

    /// A source has reported all that it had at the start.
    fn source_was_read(&self) {
        if self.0.unread.fetch_sub(1, AcqRel) > 1 {
            return;
        }
        let this = self.clone();
        let synced = async move {
            for plugin in this.plugins() {
                plugin.first_load_over().await;
            }
            this.0.first_loads_over.store(true, Release);
            // Caches are filled: shards may be moved here.
            this.0.host.election.shards().into_iter().for_each(Shards::set_ready);
        };
        self.0.tasks.spawn_on(synced, self.work());
    }

    /// How the plugin of a Plugin of the cluster fares.
    pub(super) fn plugin_view(&self, name: &str) -> PluginView {
        let in_directory = self.0.sources.lock().is_in_directory(name);
        let plugin = self.find(name);
        let generation = plugin.as_ref().and_then(|plugin| plugin.current());
        PluginView {
            in_directory,
            status: plugin.map(|plugin| plugin.status()),
            running_manifest: generation.map(|generation| generation.origin.manifest_digest.clone()),
        }
    }
}
