//! [`Subject`]: the component of one language, and its figures.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use pilothouse_bench::usage;
use pilothouse_engine::{Code, Engine, Instance, ReasonSet, Request};
use pilothouse_plugin::Limits;
use pilothouse_testkit::languages::Language;

use super::first_call::first_call;
use super::host::{ENTRIES, OneObject};
use super::warm_call::warm_call;

/// Bytes of a KiB, in which sizes are shown.
const KIB: f64 = 1024.0;

/// The runs of each figure.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Size of the component in KiB.
    pub(crate) component: Vec<f64>,
    /// Size of its machine code in KiB.
    pub(crate) code: Vec<f64>,
    /// CPU time in seconds until it is compiled.
    pub(crate) compile_cpu: Vec<f64>,
    /// The same by the clock.
    pub(crate) compile_time: Vec<f64>,
    /// Milliseconds until an unloaded component has an instance.
    pub(crate) instance: Vec<f64>,
    /// The same until the first call of the instance has ended.
    pub(crate) first_call: Vec<f64>,
    /// CPU time of a warm call in microseconds.
    pub(crate) warm_call: Vec<f64>,
    /// Linear memory of an instance after its first call in KiB.
    pub(crate) linear: Vec<f64>,
    /// Anonymous memory that an instance adds to the process in KiB.
    pub(crate) anonymous: Vec<f64>,
}

/// A compiled component.
pub(crate) struct Subject {
    pub(crate) language: Language,
    pub(crate) figures: Figures,
    code: Code,
}

impl Subject {
    /// Compiles the component of a language, which is not in the engine's compile cache. `cache` is the cache's folder.
    pub(crate) async fn compile(
        engine: &Engine,
        cache: &Path,
        language: Language,
        component: &Path,
    ) -> anyhow::Result<Self> {
        let bytes = fs::read(component).with_context(|| format!("reading {}", component.display()))?;
        let mut figures = Figures { component: vec![bytes.len() as f64 / KIB], ..Figures::default() };
        let before = machine_code(cache)?;
        let (cpu, began) = (usage::cpu(), Instant::now());
        let code = engine.prepare(bytes).await?;
        figures.compile_time.push(began.elapsed().as_secs_f64());
        figures.compile_cpu.push((usage::cpu() - cpu).as_secs_f64());
        let size = machine_code(cache)? - before;
        ensure!(size > 0, "{}: the component was in the compile cache", language.name());
        figures.code.push(size as f64 / KIB);
        code.unload();
        Ok(Self { language, figures, code })
    }

    /// Checks that a guest which finds another number in the annotation wants to write: it does look at the object.
    pub(crate) async fn check(&self) -> anyhow::Result<()> {
        let host = OneObject::new(ENTRIES + 1)?;
        let mut instance = self.instance(&host).await?;
        let request = Request { key: host.key(), attempt: 0, reasons: ReasonSet::of_bits(1), priority: 0 };
        let outcome = instance.reconcile(&request, 1).await?;
        let is_write = outcome.as_ref().is_err_and(|failure| failure.message.contains("no cluster"));
        ensure!(is_write, "{} did not try to write: {outcome:?}", self.language.name());
        drop(instance);
        self.code.unload();
        Ok(())
    }

    /// Measures a first call, and warm ones.
    pub(crate) async fn call(&mut self, host: &Arc<OneObject>, calls: u64) -> anyhow::Result<()> {
        let before = host.reads();
        let (made, took) = first_call(&self.code, host.clone(), host.key()).await?;
        self.figures.instance.push(made * 1e3);
        self.figures.first_call.push(took * 1e3);
        self.figures.warm_call.push(warm_call(&self.code, host.clone(), host.key(), calls).await? / 1e3);
        self.code.unload();
        // The warm calls follow one that is not counted.
        let (reads, expected) = (host.reads() - before, calls + 2);
        ensure!(reads == expected, "{}: {reads} reads in {expected} calls", self.language.name());
        Ok(())
    }

    /// Measures the memory of so many instances, each after its first call.
    pub(crate) async fn remember(&mut self, host: &Arc<OneObject>, instances: usize) -> anyhow::Result<()> {
        let request = Request { key: host.key(), attempt: 0, reasons: ReasonSet::of_bits(1), priority: 0 };
        let mut live = Vec::with_capacity(instances + 1);
        // The first maps the code as well.
        let mut before = 0.0;
        for number in 0..=instances {
            let mut instance = self.instance(host).await?;
            let outcome = instance.reconcile(&request, 1).await?;
            ensure!(outcome.is_ok(), "the guest failed: {outcome:?}");
            if number == 0 {
                self.figures.linear.push(instance.memory() as f64 / KIB);
                before = anonymous();
            }
            live.push(instance);
        }
        self.figures.anonymous.push((anonymous() - before) / instances as f64);
        drop(live);
        self.code.unload();
        Ok(())
    }

    async fn instance(&self, host: &Arc<OneObject>) -> anyhow::Result<Instance> {
        Ok(Instance::new(&self.code, host.clone(), Limits::default()).await?)
    }
}

/// Anonymous memory of this process in KiB.
fn anonymous() -> f64 {
    usage::kilobytes("smaps_rollup", "Anonymous")
}

/// Bytes of all machine code in a compile cache.
fn machine_code(cache: &Path) -> anyhow::Result<u64> {
    let folder = cache.join("compiled");
    let mut bytes = 0;
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == "cwasm") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}
