//! The step `describe` of a load: the guest describes itself, within the host's bounds.

use std::sync::Arc;

use pilothouse_plugin::{Description, Grants, World};
use tokio_util::task::AbortOnDropHandle;

use crate::imports::plugin_imports::PluginImports;
use crate::lifecycle::load::{Load, Loader, Refused};
use crate::lifecycle::plugin::Plugin;

/// Most watches, indexes or schedules of one plugin: each costs the host time on every change or tick.
const MAX_ENTRIES: usize = 256;

impl Loader {
    /// Calls `describe` and checks the answer.
    pub(super) async fn describe(
        &self,
        load: &Load<'_>,
        world: World,
        imports: &Arc<PluginImports>,
    ) -> Result<Description, Refused> {
        let answer = self.call_describe(load, imports).await?;
        let description = Description::parse(&answer, world).map_err(|e| format!("describe: {e}"))?;
        let entries = [description.watches.len(), description.indexes.len(), description.schedules.len()];
        if entries.into_iter().any(|count| count > MAX_ENTRIES) {
            return Err(format!(
                "describe: more than {MAX_ENTRIES} watches, indexes or schedules; split the plugin"
            )
            .into());
        }
        Ok(description)
    }

    async fn call_describe(&self, load: &Load<'_>, imports: &Arc<PluginImports>) -> Result<Vec<u8>, Refused> {
        let (code, imports) = (Arc::clone(load.code), Arc::clone(imports));
        let (config, limits) = (Arc::clone(load.config.json()), load.manifest().limits.engine);
        // Guest code runs on the guest runtime only. A load that is cancelled takes its call with it.
        let call = AbortOnDropHandle::new(self.guests.spawn(async move {
            let mut guest = code.instantiate(imports, limits).await?;
            guest.describe(&config).await
        }));
        let answer = call.await.map_err(|e| format!("describe: {e}"))?;
        let answer = answer.map_err(|fault| {
            format!(
                "describe failed: {fault}; see the plugin's own log lines; correct the plugin or spec.config of the manifest"
            )
        })?;
        Ok(answer.map_err(|message| {
            format!(
                "describe refused its configuration: {message}; correct spec.config of the manifest, or the sources of spec.configFrom"
            )
        })?)
    }

    /// Logs each permission and host that the guest asks for and the manifest does not grant.
    pub(super) fn warn_of_missing_grants(
        plugin: &Plugin,
        load: &Load<'_>,
        grants: &Grants,
        description: &Description,
    ) {
        for missing in grants.not_granted(&description.permissions) {
            let missing = load.config.hide(missing.to_string());
            tracing::warn!(
                event = "permissions_missing",
                plugin = &**plugin.name(),
                "the manifest does not grant all requested permissions; missing: {missing}"
            );
        }
        for missing in load.manifest().outgoing_hosts.not_granted(&description.outgoing_hosts) {
            let missing = load.config.hide(missing.to_string());
            tracing::warn!(
                event = "outgoing_host_missing",
                plugin = &**plugin.name(),
                "the plugin asks for HTTP to {missing}, which is not granted; to grant it, add to spec.outgoingHosts of the manifest: \"{missing}\""
            );
        }
    }
}
