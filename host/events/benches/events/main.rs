//! Figures of events beside client-go's `tools/record` in the same run: `cargo bench -p pilothouse-events`.
//!
//! A word after `--` runs the parts whose name contains it: `correlate`, `record`, `memory`.
//! Every figure of every run comes from a process of its own, ours from this same program started once more, and all processes
//! are told the same word: a scenario. Processor time is counted and not the time by the clock, as machines are shared.
//! Needs Go 1.26 for the peers; the first run builds them into `target/peers`.

mod correlate;
mod events;
mod measure;
mod memory;
mod race;
mod record;

/// As the host's binary has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    // As the host's binary does.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    if std::env::args().nth(1).is_some_and(|arg| arg == measure::COMMAND) {
        return measure::run();
    }
    pilothouse_bench::run(
        "pilothouse-events",
        "cargo bench -p pilothouse-events",
        &[("correlate", correlate::run), ("record", record::run), ("memory", memory::run)],
    )
}
