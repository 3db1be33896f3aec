//! What each change of the plugin directory does to the plugins.

use std::sync::atomic::Ordering::Release;

use pilothouse_plugin::directory::Change;

use super::Manager;

impl Manager {
    /// Applies one change of the plugin directory.
    pub(super) fn apply(&self, change: Change) {
        match change {
            Change::Changed(files) => self.load(files),
            Change::Removed { name } => self.remove(&name),
            Change::Broken { name, file, reason } => {
                let message = format!("{}: {reason}", file.display());
                tracing::error!(event = "plugin_failed", plugin = name, "plugin not loaded: {message}");
                self.plugin(&name).files_failed(&message);
            }
            Change::Unreadable { reason } => tracing::error!(event = "plugin_unreadable", "{reason}"),
            Change::Synced => {
                let this = self.clone();
                let synced = async move {
                    this.await_first_loads().await;
                    this.0.first_loads_over.store(true, Release);
                };
                self.0.tasks.spawn_on(synced, self.work());
            }
        }
    }

    /// Waits for the first loads of all plugins that exist now.
    async fn await_first_loads(&self) {
        for plugin in self.plugins() {
            plugin.first_load_over().await;
        }
    }
}
