//! [`Loader::follow`]: from the files of a plugin to its generations: the first, and one more for each change of what
//! `spec.configFrom` names.
//!
//! Invariants: a configuration is loaded once, not again for being told after an error; a newer one cancels the load of the one
//! before; whatever is wrong with the newest, the generation that works goes on. Without `spec.configFrom` this is one load.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use pilothouse_plugin::directory::Files;
use tokio_util::sync::CancellationToken;

use crate::lifecycle::config_sources::{ConfigSources, MergedConfig, Unusable};
use crate::lifecycle::load::{Load, Loader};
use crate::lifecycle::plugin::Plugin;

/// A load.
type UnderWay<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

impl Loader {
    /// Loads a plugin's files, and again whenever their configuration changes, until `cancel` says that they have.
    pub(crate) async fn follow(&self, plugin: &Arc<Plugin>, mut files: Files, cancel: &CancellationToken) {
        let mut number = Some(plugin.next_number());
        let code = match cancel.run_until_cancelled(self.prepare(&files)).await {
            None => return,
            Some(Err(refused)) => return refused.record(plugin, &files),
            Some(Ok(code)) => code,
        };
        let follows = !files.manifest.config_from.is_empty();
        if follows {
            // It may be long until the configuration is there.
            code.unload();
        }
        // The compiled component lies in the cache; these bytes may be many.
        files.wasm = Bytes::new();
        let mut sources = ConfigSources::new(&files.manifest, &self.client, self.factory.availability());
        let manifest_path = files.manifest_path.as_deref().unwrap_or(&files.wasm_path);
        let mut loaded: Option<MergedConfig> = None;
        let mut load: Option<UnderWay<'_>> = None;
        loop {
            let told = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                () = end(&mut load) => {
                    load = None;
                    if !follows {
                        return;
                    }
                    continue;
                }
                told = sources.next() => told,
            };
            match told {
                Err(error) => {
                    broken(plugin, manifest_path, error, cancel);
                    if !follows {
                        return;
                    }
                }
                Ok(config) => {
                    let another = loaded.as_ref() != Some(&config);
                    plugin.config_there(another || load.is_some(), cancel);
                    if !another {
                        tracing::info!(
                            event = "config_recovered",
                            plugin = &*plugin.name,
                            "spec.configFrom is usable again, with unchanged content"
                        );
                        continue;
                    }
                    if loaded.replace(config.clone()).is_some() {
                        tracing::info!(
                            event = "config_changed",
                            plugin = &*plugin.name,
                            "spec.configFrom changed: loading a new generation"
                        );
                    }
                    // Taken out first: it may not go on beside the next.
                    drop(load.take());
                    let number = number.take().unwrap_or_else(|| plugin.next_number());
                    let (files, code) = (&files, &code);
                    load = Some(Box::pin(async move {
                        self.load(plugin, &Load { files, code, config: &config, number }, cancel).await;
                    }));
                }
            }
        }
    }
}

/// Waits for the end of a load; for ever if there is none. Cancel-safe.
async fn end(load: &mut Option<UnderWay<'_>>) {
    match load {
        Some(load) => load.await,
        None => std::future::pending().await,
    }
}

fn broken(plugin: &Plugin, manifest: &Path, error: Unusable, cancel: &CancellationToken) {
    let message = format!("{}: {}", manifest.display(), error.message);
    let kept = plugin.current().map(|generation| generation.number);
    if error.waits && kept.is_none() {
        tracing::warn!(
            event = "config_waiting",
            plugin = &*plugin.name,
            "waiting for the configuration: {message}"
        );
    } else {
        tracing::error!(
            event = "config_unusable",
            plugin = &*plugin.name,
            kept,
            "configuration not usable: {message}"
        );
    }
    plugin.config_broken(Unusable { message, ..error }, cancel);
}
