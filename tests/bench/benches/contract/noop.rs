//! A reconcile that does nothing, without a host around it: the crossing of the boundary in both directions.

use std::sync::Arc;

use pilothouse_bench::{Better, Report};
use pilothouse_engine::{Compiler, Engine, EngineOptions, Nothing};
use pilothouse_object::ObjectKey;
use pilothouse_tests::guests;

use super::warm_call::warm_call;

const ROUNDS: usize = 15;
const CALLS: u64 = 200_000;

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let cache = tempfile::tempdir()?;
    let engine = Engine::new(EngineOptions {
        cache_dir: cache.path().to_owned(),
        compiler: Compiler::InProcess,
        instances: 4,
    })?;
    let key = ObjectKey::new(Some("default"), "a-name-of-usual-length-5d4f8c7b9-x2x4z")?;
    let mut calls = Vec::new();
    runtime.block_on(async {
        let code = engine.prepare(std::fs::read(guests::wasm("noop")?)?).await?;
        for round in 0..=ROUNDS {
            let took = warm_call(&code, Arc::new(Nothing), &key, CALLS).await?;
            // The first round is for warming up.
            if round > 0 {
                calls.push(took);
            }
        }
        anyhow::Ok(())
    })?;
    let what = "a reconcile that does nothing, the engine alone";
    report.bound(what, "ns of CPU", Better::Lower, &mut calls, None);
    Ok(())
}
