//! Waits until a plugin is idle: no reconcile is running and no key is ready. Delayed keys are ignored, because a key
//! that failed keeps its delayed retry even after another reconcile of it has succeeded.

use std::time::Duration;

use anyhow::Context;

use crate::Host;

/// The number of reconciles of a plugin so far, if the plugin is idle.
pub fn quiet(host: &Host, plugin: &str) -> anyhow::Result<Option<u64>> {
    let metrics = host.metrics()?;
    let by_plugin = [("controller", plugin)];
    let active = metrics.sum("controller_runtime_active_workers", &by_plugin).context("no active workers")?;
    let waiting = metrics.sum("workqueue_depth", &[("name", plugin)]).context("no queue")?;
    let reconciles =
        metrics.sum("controller_runtime_reconcile_total", &by_plugin).context("no reconciles")?;
    Ok((active + waiting == 0.0).then_some(reconciles as u64))
}

/// Waits until a plugin is idle.
pub fn wait_quiet(host: &Host, plugin: &str, deadline: Duration) -> anyhow::Result<u64> {
    host.wait_for(&format!("{plugin} to have nothing to do"), deadline, || quiet(host, plugin))
}
