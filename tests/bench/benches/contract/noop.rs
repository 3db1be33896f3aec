//! A reconcile that does nothing, without a host around it: the crossing of the boundary in both directions.

use std::sync::Arc;

use anyhow::Context as _;
use pilothouse_bench::{Better, Report, median, usage};
use pilothouse_engine::{Code, Compiler, Engine, EngineOptions, Instance, Nothing, ReasonSet, Request};
use pilothouse_object::ObjectKey;
use pilothouse_plugin::Limits;
use pilothouse_tests::guests;

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
    let (mut new, mut old) = (Vec::new(), Vec::new());
    runtime.block_on(async {
        let before = engine.prepare(stored).await?;
        let after = engine.prepare(std::fs::read(guests::wasm("noop")?)?).await?;
        for round in 0..=ROUNDS {
            let (was, is) = (nanoseconds(&before).await?, nanoseconds(&after).await?);
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

/// CPU time of a call.
async fn nanoseconds(code: &Code) -> anyhow::Result<f64> {
    let key = ObjectKey::new(Some("default"), "a-name-of-usual-length-5d4f8c7b9-x2x4z")?;
    let mut instance = Instance::new(code, Arc::new(Nothing), Limits::default()).await?;
    let request = Request { key: &key, attempt: 0, reasons: ReasonSet::of_bits(1), priority: 0 };
    let began = usage::cpu();
    for call in 0..CALLS {
        let outcome = instance.reconcile(&request, call).await?;
        anyhow::ensure!(outcome.is_ok(), "the guest failed: {outcome:?}");
    }
    #[allow(clippy::cast_precision_loss, reason = "a figure")]
    Ok((usage::cpu() - began).as_nanos() as f64 / CALLS as f64)
}
