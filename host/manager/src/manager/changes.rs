//! What each change of a source does to the plugins: of the plugin directory, and of the Plugins of the cluster.
//!
//! Invariant: one task calls this, so that a change is applied after those before it.

use std::sync::atomic::Ordering::{AcqRel, Release};

use pilothouse_election::Shards;
use pilothouse_plugin::directory::{Change, Files};
use pilothouse_plugin::{HOME_CLUSTER, run_name, split_run};

use super::Manager;
use crate::lifecycle::directory::Directory;
use crate::lifecycle::plugin_objects::status::PluginView;
use crate::lifecycle::plugin_objects::{ObjectChange, PluginObjects, no_cluster};
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
                // Files that are refused take no name.
                let checked = self.0.home.loader.allowed.check_clusters(&files.manifest, true);
                if let Err(reason) = checked {
                    let place = files.places.manifest_or_component();
                    return self.refuse(&files.name, &format!("{place}: {reason}"));
                }
                let ends_object = sources().files_came(&files.name);
                if ends_object {
                    self.remove_plugin(&files.name);
                }
                self.load_plugin(files);
            }
            Change::Removed { name } => {
                let after = sources().files_gone(&name);
                match after {
                    AfterFiles::End => self.remove_plugin(&name),
                    AfterFiles::Load(files) => {
                        self.remove_plugin(&name);
                        self.load_plugin(files);
                    }
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
                    self.load_plugin(files);
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
                    self.remove_plugin(&name);
                }
            }
            ObjectChange::Synced => self.source_was_read(),
        }
    }

    /// Loads the files of a plugin in each cluster that they name, and ends the runs in others.
    fn load_plugin(&self, files: Files) {
        let name = files.name.clone();
        let runs = files.runs();
        let is_left = |run: &String| !runs.iter().any(|files| files.name == *run);
        self.runs_of(&name).iter().filter(|run| is_left(run)).for_each(|run| self.remove(run));
        for files in runs {
            match self.cluster_of(&files.name) {
                Some(_) => self.load(files),
                None => self.refuse_run(&files.name, &self.no_cluster(&files)),
            }
        }
    }

    /// Why the run of a cluster that the host does not have is refused. A Plugin of the cluster that names one is not accepted.
    fn no_cluster(&self, files: &Files) -> String {
        let (place, cluster) = (files.places.manifest_or_component(), split_run(&files.name).1);
        let others = self.0.others.keys().map(String::as_str);
        format!("{place}: {}", no_cluster(cluster.unwrap_or(HOME_CLUSTER), others))
    }

    /// Removes all runs of a plugin.
    fn remove_plugin(&self, name: &str) {
        self.runs_of(name).iter().for_each(|run| self.remove(run));
    }

    /// The names of the runs of a plugin that are not being removed.
    fn runs_of(&self, name: &str) -> Vec<String> {
        let elsewhere = run_name(name, "");
        let plugins = self.0.plugins.lock();
        let runs = plugins.range(elsewhere.clone()..).take_while(|(run, _)| run.starts_with(&elsewhere));
        let runs = plugins.get_key_value(name).into_iter().chain(runs);
        runs.filter(|(_, entry)| !entry.plugin.is_stopping()).map(|(run, _)| run.clone()).collect()
    }

    /// A source has something of a plugin that cannot be used; generations that run go on.
    fn refuse(&self, name: &str, message: &str) {
        match self.runs_of(name).as_slice() {
            [] => self.refuse_run(name, message),
            runs => runs.iter().for_each(|run| self.refuse_run(run, message)),
        }
    }

    fn refuse_run(&self, name: &str, message: &str) {
        tracing::error!(event = "plugin_failed", plugin = name, "plugin not loaded: {message}");
        self.plugin(name, None).files_failed(message);
    }

    /// A source has reported all that it had at the start.
    fn source_was_read(&self) {
        if self.0.unread.fetch_sub(1, AcqRel) > 1 {
            return;
        }
        tracing::debug!("all plugins are known");
        let this = self.clone();
        let synced = async move {
            for plugin in this.plugins() {
                match this.cluster_of(plugin.name()) {
                    Some(cluster) => cluster.first_load_over(&plugin).await,
                    // Its load is refused.
                    None => plugin.first_load_over().await,
                }
            }
            this.0.first_loads_over.store(true, Release);
            tracing::debug!("all plugins are loaded or refused: the host is ready");
            // Caches are filled: shards may be moved here.
            this.0.host.election.shards().into_iter().for_each(Shards::set_ready);
        };
        self.0.tasks.spawn_on(synced, self.work());
    }

    /// How the plugin of a Plugin of the cluster fares.
    pub(super) fn plugin_view(&self, name: &str) -> PluginView {
        let in_directory = self.0.sources.lock().is_in_directory(name);
        let run = |name: String| {
            let plugin = self.find(&name)?;
            let manifest = plugin.current().map(|generation| generation.origin.manifest_digest.clone());
            Some((plugin.status(), manifest))
        };
        PluginView::of_runs(in_directory, self.runs_of(name).into_iter().filter_map(run))
    }
}
