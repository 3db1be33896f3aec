//! The first call of an unloaded component: map the compiled file, link, instantiate, reconcile.

use std::sync::Arc;
use std::time::Instant;

use pilothouse_engine::{Code, HostImports, Instance, ReasonSet, Request};
use pilothouse_object::ObjectKey;
use pilothouse_plugin::Limits;

/// Seconds until there is an instance, and until its first call has ended. The component must be unloaded; it is unloaded
/// afterwards.
///
/// # Errors
/// When the guest faults or fails.
pub(crate) async fn first_call(
    code: &Code,
    host: Arc<dyn HostImports>,
    key: &ObjectKey,
) -> anyhow::Result<(f64, f64)> {
    let began = Instant::now();
    let mut instance = Instance::new(code, host, Limits::default()).await?;
    let made = began.elapsed().as_secs_f64();
    let request = Request { key, attempt: 0, reasons: ReasonSet::of_bits(1), priority: 0 };
    let outcome = instance.reconcile(&request, 1).await?;
    let took = began.elapsed().as_secs_f64();
    anyhow::ensure!(outcome.is_ok(), "the guest failed: {outcome:?}");
    drop(instance);
    code.unload();
    Ok((made, took))
}
