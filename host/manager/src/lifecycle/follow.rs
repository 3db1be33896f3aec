//! [`Loader::follow`]: from the files of a plugin to its generations: the first, and one more for each change of the sources of
//! `spec.configFrom`.
//!
//! Invariants: files take the place of those before when their component is ready to run, and until then those are followed:
//! files that are refused end neither a probation nor anything else. The same configuration is not loaded again after an error
//! of its sources; a newer configuration cancels the load of the one before; whatever is wrong with the newest one, the running
//! generation goes on. Without `spec.configFrom` there is one load. A generation that fails its probation is rolled back, and
//! the task of a plugin lasts for as long. A plugin with a ServiceAccount is loaded again when a right that the account had
//! lost comes back.

use std::pin::Pin;
use std::sync::Arc;

use pilothouse_plugin::directory::Files;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::lifecycle::config_sources::{ConfigSources, MergedConfig, Unusable};
use crate::lifecycle::generation::Generation;
use crate::lifecycle::load::{Cause, Load, Loader};
use crate::lifecycle::plugin::Plugin;
use crate::lifecycle::rollback::Version;

/// A load in progress.
type LoadInProgress<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

impl Loader {
    /// Loads a plugin's files, and again whenever their configuration changes, until `cancel`: then newer files are loaded, or
    /// the plugin was removed. `take_over` ends the following of the files before; `false`: newer files have come.
    pub(crate) async fn follow(
        &self,
        plugin: &Arc<Plugin>,
        files: Files,
        cancel: &CancellationToken,
        take_over: impl FnOnce() -> bool,
    ) {
        let Some(code) = self.prepare(plugin, &files, cancel).await else { return };
        if !take_over() {
            return;
        }
        plugin.load_started();
        let follows = !files.manifest.config_from.is_empty();
        if follows {
            // The configuration may come late.
            code.unload();
        }
        let mut sources = ConfigSources::new(&files.manifest, &self.sources);
        let mut loaded: Option<MergedConfig> = None;
        let mut load: Option<LoadInProgress<'_>> = None;
        let has_account = files.manifest.service_account.is_some();
        let mut lifted = self.reviews.lifted();
        // Looked at once without a notice.
        lifted.mark_changed();
        loop {
            let change = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                () = load_ended(&mut load) => {
                    load = None;
                    continue;
                }
                generation = rights_restored(plugin, &mut lifted), if has_account && load.is_none() => {
                    load = Some(Box::pin(self.load_again(plugin, &files, generation, cancel)));
                    continue;
                }
                rollback = plugin.rollback_wanted(follows || has_account), if load.is_none() && loaded.is_some() => {
                    // Without one, nothing is left to do.
                    let Some(rollback) = rollback else { return };
                    let files = &files;
                    load = Some(Box::pin(async move { self.roll_back(plugin, files, &rollback, cancel).await }));
                    continue;
                }
                change = sources.next() => change,
            };
            let config = match change {
                Ok(config) => config,
                Err(error) => {
                    record_unusable(plugin, &files, error, cancel);
                    if !follows {
                        return;
                    }
                    continue;
                }
            };
            let is_new = loaded.as_ref() != Some(&config);
            plugin.config_usable(is_new || load.is_some(), cancel);
            if !is_new {
                tracing::info!(
                    event = "config_recovered",
                    plugin = &**plugin.name(),
                    "spec.configFrom is usable again, with unchanged content"
                );
                continue;
            }
            if loaded.replace(config.clone()).is_some() {
                tracing::info!(
                    event = "config_changed",
                    plugin = &**plugin.name(),
                    "spec.configFrom changed: loading a new generation"
                );
            }
            // Dropped first: two loads of one plugin never overlap.
            drop(load.take());
            let (number, files, code) = (plugin.next_number(), &files, &code);
            load = Some(Box::pin(async move {
                let load = Load { files, code, config: &config, number, cause: Cause::Change };
                self.load(plugin, &load, cancel).await;
            }));
        }
    }

    /// Loads the version of a generation once more, under the same files: its objects are shown anew.
    async fn load_again(
        &self,
        plugin: &Arc<Plugin>,
        files: &Files,
        generation: Arc<Generation>,
        cancel: &CancellationToken,
    ) {
        let Version { code, config } = &generation.version;
        let load = Load { files, code, config, number: plugin.next_number(), cause: Cause::RightsRestored };
        self.load(plugin, &load, cancel).await;
    }
}

/// Waits until the ServiceAccount may again watch what the current generation watches, which may have missed changes.
/// Cancel-safe.
async fn rights_restored(plugin: &Plugin, lifted: &mut watch::Receiver<u64>) -> Arc<Generation> {
    loop {
        if lifted.changed().await.is_err() {
            // The host ends.
            std::future::pending::<()>().await;
        }
        if let Some(generation) = plugin.current().filter(|current| current.imports.are_rights_restored()) {
            return generation;
        }
    }
}

/// Waits for the end of a load; never returns if there is none. Cancel-safe.
async fn load_ended(load: &mut Option<LoadInProgress<'_>>) {
    match load {
        Some(load) => load.await,
        None => std::future::pending().await,
    }
}

fn record_unusable(plugin: &Plugin, files: &Files, error: Unusable, cancel: &CancellationToken) {
    let message = format!("{}: {}", files.places.manifest_or_component(), error.message);
    let kept = plugin.current().map(|generation| generation.number);
    if error.waits && kept.is_none() {
        tracing::warn!(
            event = "config_waiting",
            plugin = &**plugin.name(),
            "waiting for the configuration: {message}"
        );
    } else {
        tracing::error!(
            event = "config_unusable",
            plugin = &**plugin.name(),
            kept,
            "configuration not usable: {message}"
        );
    }
    plugin.config_failed(&Unusable { message, ..error }, cancel);
}

#[cfg(test)]
mod tests;
