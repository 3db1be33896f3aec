//! One small reconciler in Rust, Python, JavaScript and C, by turns, on the engine alone: it reads a ConfigMap from the cache,
//! counts its entries, compares the number with an annotation, and has nothing to write. A warm call is held against the same
//! function without a guest as well.
//!
//! `cargo bench -p pilothouse-bench --bench languages` measures all that can be built here; a word after `--` Rust and the
//! language of that name (`python`, `javascript`, `c`). A language whose tools are missing is named in the table and in the
//! JSON file.
//! `--small` shows quickly that everything works; its figures mean nothing.

#[path = "../shared/first_call.rs"]
mod first_call;
mod host;
mod native;
mod subject;
#[path = "../shared/warm_call.rs"]
mod warm_call;

use anyhow::{Context as _, ensure};
use pilothouse_bench::{Aim, Better, Report, is_small, word};
use pilothouse_engine::{Compiler, Engine, EngineOptions};
use pilothouse_testkit::languages::Language;

use host::{ENTRIES, OneObject};
use subject::{Figures, Subject};

/// Those that are measured beside Rust.
const OTHERS: [Language; 3] = [Language::Python, Language::JavaScript, Language::C];

/// Instances whose memory is measured: so many that the few pages of the host's own do not count.
const INSTANCES: usize = 16;

/// Warm calls of a round: a second in the slowest language.
const CALLS: u64 = 5_000;

/// Native calls for each warm call of a guest: they take a fraction of the time.
const NATIVE: u64 = 20;

/// A figure: its name, unit and field.
type Measure = (&'static str, &'static str, fn(&mut Figures) -> &mut Vec<f64>);

/// The call that has nothing to write, which has a native peer.
const WARM_CALL: Measure =
    ("a warm call that writes nothing", "µs of CPU", |figures| &mut figures.warm_call);

const MEASURES: [Measure; 8] = [
    ("size of the component", "KiB", |figures| &mut figures.component),
    ("size of the machine code", "KiB", |figures| &mut figures.code),
    ("compilation", "s of CPU", |figures| &mut figures.compile_cpu),
    ("compilation, by the clock", "s", |figures| &mut figures.compile_time),
    ("wake of an unloaded plugin, until there is an instance", "ms", |figures| &mut figures.instance),
    ("wake of an unloaded plugin, first call included", "ms", |figures| &mut figures.first_call),
    ("linear memory of an instance", "KiB", |figures| &mut figures.linear),
    ("anonymous memory of an instance", "KiB", |figures| &mut figures.anonymous),
];

fn main() -> anyhow::Result<()> {
    let mut report = Report::new("languages", "cargo bench -p pilothouse-bench --bench languages");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(&mut report))?;
    report.finish()
}

async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let cache = tempfile::tempdir()?;
    let engine = Engine::new(EngineOptions {
        cache_dir: cache.path().to_owned(),
        compiler: Compiler::InProcess,
        instances: 2 * u32::try_from(INSTANCES)?,
    })?;
    let mut subjects = Vec::new();
    for language in std::iter::once(Language::Rust).chain(asked()) {
        let component = match language.component() {
            Ok(component) => component,
            Err(error) if language != Language::Rust => {
                report.skip(language.name(), &format!("{error:#}"));
                continue;
            }
            Err(error) => return Err(error),
        };
        let subject = Subject::compile(&engine, cache.path(), language, &component).await;
        let subject = subject.with_context(|| format!("compiling the component in {}", language.name()))?;
        subject.check().await?;
        subjects.push(subject);
    }

    let host = OneObject::new(ENTRIES)?;
    let wrong = OneObject::new(ENTRIES + 1)?;
    let wanted = native::reconcile(&*wrong, wrong.kind(), wrong.key())?;
    ensure!(wanted == Some(ENTRIES.to_string()), "the native function wants to write {wanted:?}");
    let (rounds, calls) = if is_small() { (1, CALLS / 50) } else { (7, CALLS) };
    let mut native = Vec::new();
    for round in 0..=rounds {
        for subject in &mut subjects {
            subject.call(&host, calls).await?;
        }
        native.push(native::warm_call(&host, calls * NATIVE)?);
        // The first round is for warming up.
        if round == 0 {
            native.clear();
            for Subject { figures, .. } in &mut subjects {
                for runs in [&mut figures.instance, &mut figures.first_call, &mut figures.warm_call] {
                    runs.clear();
                }
            }
        }
    }
    for subject in &mut subjects {
        subject.remember(&host, INSTANCES).await?;
    }

    for measure in MEASURES {
        add(report, &mut subjects, measure, Vec::new());
    }
    let native = native.into_iter().map(|nanoseconds| nanoseconds / 1e3).collect();
    add(report, &mut subjects, WARM_CALL, vec![("native", native)]);
    Ok(())
}

/// The languages that the command line asks for beside Rust.
fn asked() -> impl Iterator<Item = Language> {
    let word = word();
    OTHERS.into_iter().filter(move |language| word.is_empty() || language.name() == word)
}

/// Adds a row: the figure of Rust, with the other languages and what else there is as peers.
fn add(
    report: &mut Report,
    subjects: &mut [Subject],
    (what, unit, runs): Measure,
    mut peers: Vec<(&'static str, Vec<f64>)>,
) {
    let Some((rust, others)) = subjects.split_first_mut() else { return };
    peers.extend(
        others.iter_mut().map(|other| (other.language.name(), std::mem::take(runs(&mut other.figures)))),
    );
    report.versus(what, unit, Better::Lower, runs(&mut rust.figures), peers, Aim::Shown);
}
