//! A call of a warm instance, without a host around it.

use std::sync::Arc;

use pilothouse_bench::usage;
use pilothouse_engine::{Code, HostImports, Instance, ReasonSet, Request};
use pilothouse_object::ObjectKey;
use pilothouse_plugin::Limits;

/// CPU time of a reconcile in nanoseconds: the mean of so many calls of one instance, after a first one.
///
/// # Errors
/// When the guest faults or fails.
pub(crate) async fn warm_call(
    code: &Code,
    host: Arc<dyn HostImports>,
    key: &ObjectKey,
    calls: u64,
) -> anyhow::Result<f64> {
    let mut instance = Instance::new(code, host, Limits::default()).await?;
    let request = Request { key, attempt: 0, reasons: ReasonSet::of_bits(1), priority: 0 };
    let mut began = usage::cpu();
    for call in 0..=calls {
        let outcome = instance.reconcile(&request, call).await?;
        anyhow::ensure!(outcome.is_ok(), "the guest failed: {outcome:?}");
        if call == 0 {
            began = usage::cpu();
        }
    }
    #[allow(clippy::cast_precision_loss, reason = "a figure")]
    Ok((usage::cpu() - began).as_nanos() as f64 / calls as f64)
}
