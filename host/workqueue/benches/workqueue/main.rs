//! Figures of the work queue beside client-go's and controller-runtime's in the same run: `cargo bench -p pilothouse-workqueue`.
//!
//! A word after `--` runs the parts whose name contains it: `cycle`, `contended`, `limited`, `fill`, `memory`, `delayed`, `many`.
//! Every figure of every run comes from a process of its own, ours from this same program started once more, and all processes
//! are told the same two words: a scenario and a queue.
//! Needs Go 1.26 for the peers; the first run builds them into `target/peers`.

mod api;
mod contended;
mod contenders;
mod cycle;
mod delayed;
mod fill;
mod limited;
mod many;
mod measure;
mod memory;

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
        "pilothouse-workqueue",
        "cargo bench -p pilothouse-workqueue",
        &[
            ("cycle", cycle::run),
            ("contended", contended::run),
            ("limited", limited::run),
            ("fill", fill::run),
            ("memory", memory::run),
            ("delayed", delayed::run),
            ("many", many::run),
        ],
    )
}
