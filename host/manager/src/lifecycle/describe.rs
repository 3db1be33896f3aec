//! The step `describe` of a load: the guest describes itself, within the host's bounds.

use std::sync::Arc;

use pilothouse_engine::{FaultKind, LogOnly};
use pilothouse_plugin::{Description, Grants, Limits, World, printable};

use crate::dispatch::guest::Component;
use crate::imports::plugin_imports::PluginImports;
use crate::lifecycle::load::{Load, LoadFailure, Loader};
use crate::lifecycle::plugin::Plugin;
use crate::observe::warnings::Warnings;

/// Number of hosts that a warning names.
const HOSTS_NAMED: usize = 3;

impl Loader {
    /// Calls `describe` and checks the answer.
    pub(super) async fn describe(
        &self,
        plugin: &Plugin,
        load: &Load<'_>,
        code: &Arc<dyn Component>,
        world: World,
        imports: &Arc<PluginImports>,
    ) -> Result<Description, LoadFailure> {
        let answer = Self::call_describe(plugin, load, code, imports).await?;
        let limits = &load.manifest().limits.descriptor;
        let described = Description::parse(&answer, world, limits);
        Ok(described.map_err(|e| format!("describe: {e}"))?)
    }

    async fn call_describe(
        plugin: &Plugin,
        load: &Load<'_>,
        code: &Arc<dyn Component>,
        imports: &Arc<PluginImports>,
    ) -> Result<Vec<u8>, LoadFailure> {
        let (code, imports) = (Arc::clone(code), Arc::new(LogOnly::new(Arc::clone(imports) as _)));
        let (config, limits) = (Arc::clone(load.config.json()), load.manifest().limits.engine.for_describe());
        let instances = Arc::clone(plugin.instances());
        // Guest code runs on the guest threads only. A load that is cancelled takes its call with it.
        let call = plugin.spawn(async move {
            // Dropped from the last on: the guest goes before its lease.
            let (_lease, mut guest) = instances.extra(&*code, imports, limits).await?;
            guest.describe(&config).await
        });
        let panicked =
            || LoadFailure::Retry("describe: the host panicked, or it is shutting down".to_owned());
        let answer = call.abort_on_drop().await.ok_or_else(panicked)?;
        let answer = answer.map_err(|fault| {
            // A deadline may pass on a busy host.
            if matches!(fault.kind, FaultKind::Deadline | FaultKind::Waiting) {
                return LoadFailure::Retry(format!(
                    "describe failed: it took longer than {:?}; it has the log and the configuration alone and must not wait: correct the plugin",
                    limits.call_timeout
                ));
            }
            if fault.kind == FaultKind::Cpu && limits.cpu_per_call == Limits::DESCRIBE_CPU {
                return format!(
                    "describe failed: it used more than {:?} of CPU time, whatever limits.cpuPerCall is: correct the plugin",
                    Limits::DESCRIBE_CPU
                )
                .into();
            }
            if fault.kind.is_of_host() {
                return LoadFailure::Retry(format!("describe failed: {fault}"));
            }
            format!(
                "describe failed: {fault}; see the plugin's own log lines; correct the plugin or spec.config of the manifest"
            )
            .into()
        })?;
        Ok(answer.map_err(|message| {
            format!(
                "describe refused its configuration: {message}; correct spec.config of the manifest, or the sources of spec.configFrom"
            )
        })?)
    }

    /// Sums up the permissions and hosts that the guest asks for and the manifest does not grant: one line of the log and one
    /// warning for each.
    pub(super) fn warn_of_missing_grants(
        plugin: &Plugin,
        load: &Load<'_>,
        grants: &Grants,
        description: &Description,
        warnings: &Warnings,
    ) {
        let missing = grants.not_granted(&description.permissions, load.manifest().own_namespace());
        if !missing.is_empty() {
            let text = printable(&load.config.hide(missing.to_string()));
            tracing::warn!(event = "permissions_missing", plugin = &**plugin.name(), "{text}");
            warnings.set("permissions", text);
        }
        let hosts = load.manifest().outgoing_hosts.not_granted(&description.outgoing_hosts);
        if !hosts.is_empty() {
            let named: Vec<String> =
                hosts.iter().take(HOSTS_NAMED).map(|host| format!("{:?}", host.to_string())).collect();
            let more = match hosts.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let text = format!(
                "HTTP hosts not granted; to grant, add to spec.outgoingHosts of the manifest: {}{more}",
                named.join(", ")
            );
            let text = printable(&load.config.hide(text));
            tracing::warn!(event = "outgoing_host_missing", plugin = &**plugin.name(), "{text}");
            warnings.set("outgoingHosts", text);
        }
    }
}
