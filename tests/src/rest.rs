//! When a plugin has nothing to do: nothing under way, nothing waiting, nothing delayed.

use std::time::Duration;

use anyhow::Context;

use crate::Host;

/// The number of a plugin's reconciles so far, if none is under way, waiting or delayed.
pub fn quiet(host: &Host, plugin: &str) -> anyhow::Result<Option<u64>> {
    let metrics = host.metrics()?;
    let by_queue = [("name", plugin)];
    let by_plugin = [("controller", plugin)];
    let mut busy =
        metrics.sum("controller_runtime_active_workers", &by_plugin).context("no active workers")?;
    for figure in ["workqueue_depth", "workqueue_delayed"] {
        busy += metrics.sum(figure, &by_queue).with_context(|| format!("no {figure} of {plugin}"))?;
    }
    let reconciles =
        metrics.sum("controller_runtime_reconcile_total", &by_plugin).context("no reconciles")?;
    Ok((busy == 0.0).then_some(reconciles as u64))
}

/// Waits until a plugin has nothing to do.
pub fn wait_quiet(host: &Host, plugin: &str, deadline: Duration) -> anyhow::Result<u64> {
    host.wait_for(&format!("{plugin} to have nothing to do"), deadline, || quiet(host, plugin))
}
