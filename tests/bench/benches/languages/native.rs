//! The reconciler as a native function on the same imports and without a guest: what is left of a call without the sandbox.

use std::collections::BTreeMap;
use std::hint::black_box;

use anyhow::{Context as _, anyhow, ensure};
use pilothouse_bench::usage;
use pilothouse_engine::HostImports;
use pilothouse_object::{Gvk, ObjectKey};
use serde::de::IgnoredAny;

use super::host::{ANNOTATION, OneObject};

/// The number that is to be written into the annotation; none when it is there.
///
/// # Errors
/// When the host refuses to read the object, or it has other fields than a ConfigMap.
pub(crate) fn reconcile(
    host: &dyn HostImports,
    kind: &Gvk,
    key: &ObjectKey,
) -> anyhow::Result<Option<String>> {
    let found = host.cache_get(kind, key).map_err(|refusal| anyhow!(refusal.message))?;
    let found = found.with_context(|| format!("there is no {key}"))?;
    let mut number = 0;
    for json in ["/data", "/binaryData"].into_iter().filter_map(|pointer| found.get(pointer)) {
        let entries: Option<BTreeMap<String, IgnoredAny>> = serde_json::from_str(json)?;
        number += entries.map_or(0, |entries| entries.len());
    }
    let keys = number.to_string();
    let is_written = found.annotation(ANNOTATION).is_some_and(|written| written == keys);
    Ok((!is_written).then_some(keys))
}

/// CPU time of a call in nanoseconds: the mean of so many.
pub(crate) fn warm_call(host: &OneObject, calls: u64) -> anyhow::Result<f64> {
    let began = usage::cpu();
    for _ in 0..calls {
        let wanted = reconcile(black_box(host), host.kind(), host.key())?;
        ensure!(wanted.is_none(), "{wanted:?} is to be written");
    }
    #[allow(clippy::cast_precision_loss, reason = "a figure")]
    Ok((usage::cpu() - began).as_nanos() as f64 / calls as f64)
}
