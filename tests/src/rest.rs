//! When a plugin has nothing to do: nothing under way and nothing waiting. A key that is delayed does not count: one that
//! failed and was put right since keeps its delay, and comes once more for nothing.

use std::time::Duration;

use anyhow::Context;

use crate::Host;

/// The number of a plugin's reconciles so far, if none is under way or waiting.
pub fn quiet(host: &Host, plugin: &str) -> anyhow::Result<Option<u64>> {
    let metrics = host.metrics()?;
    let by_plugin = [("controller", plugin)];
    let active = metrics.sum("controller_runtime_active_workers", &by_plugin).context("no active workers")?;
    let waiting = metrics.sum("workqueue_depth", &[("name", plugin)]).context("no queue")?;
    let reconciles =
        metrics.sum("controller_runtime_reconcile_total", &by_plugin).context("no reconciles")?;
    Ok((active + waiting == 0.0).then_some(reconciles as u64))
}

/// Waits until a plugin has nothing to do.
pub fn wait_quiet(host: &Host, plugin: &str, deadline: Duration) -> anyhow::Result<u64> {
    host.wait_for(&format!("{plugin} to have nothing to do"), deadline, || quiet(host, plugin))
}
