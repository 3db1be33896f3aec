//! A reconcile that does nothing, without a host around it: the crossing of the boundary in both directions.

use std::sync::Arc;

use anyhow::Context as _;
use pilothouse_bench::{Better, Report, median};
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
    let stored = concat!(env!("CARGO_MANIFEST_DIR"), "/../contract/0.1/noop.wasm");
    let stored = std::fs::read(stored).with_context(|| stored.to_owned())?;
    let key = ObjectKey::new(Some("default"), "a-name-of-usual-length-5d4f8c7b9-x2x4z")?;
    let (mut new, mut old) = (Vec::new(), Vec::new());
    runtime.block_on(async {
        let before = engine.prepare(stored).await?;
        let after = engine.prepare(std::fs::read(guests::wasm("noop")?)?).await?;
        for round in 0..=ROUNDS {
            let was = warm_call(&before, Arc::new(Nothing), &key, CALLS).await?;
            let is = warm_call(&after, Arc::new(Nothing), &key, CALLS).await?;
            // The first round is for warming up.
            if round > 0 {
                old.push(was);
                new.push(is);
            }
        }
        anyhow::Ok(())
    })?;
    let (was, is) = (median(&mut old.clone()), median(&mut new.clone()));
    let what = "a reconcile that does nothing, the engine alone";
    report.versus(
        what,
        "ns of CPU",
        Better::Lower,
        &mut new,
        vec![("contract 0.1", old)],
        pilothouse_bench::Aim::Shown,
    );
    let cheaper = 100.0 * (was - is) / was;
    report.bound(&format!("{what}: cheaper than with 0.1"), "%", Better::Higher, &mut [cheaper], Some(15.0));
    Ok(())
}
