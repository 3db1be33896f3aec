//! Figures of the cache layer beside client-go and kube-rs in the same run: `cargo bench -p pilothouse-cache`.
//!
//! A word after `--` runs the parts whose name contains it: `store`, `fifo`, `events`, `growth`, and `sync`, `memory` or
//! `latency`, which are one part, as one process gives all three. `large` (150,000 pods) and `million` are run when they are named
//! or with `--full`, which adds the other peers and takes hours.
//! Needs Go 1.26 for the peers; the first run builds them into `target/peers`.

mod client;
mod events;
mod fifo;
mod figures;
mod growth;
mod processes;
mod samples;
mod store;
mod usage;

/// As the host's binary has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    // As the host's binary does.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    // Whole processes are measured on this same program, started once more.
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == client::COMMAND) {
        return client::run(&args[1..]);
    }
    pilothouse_bench::run(
        "pilothouse-cache",
        "cargo bench -p pilothouse-cache",
        &[
            ("store", store::run),
            ("fifo", fifo::run),
            ("events", events::run),
            ("growth", growth::run),
            ("sync memory latency", figures::run),
            ("large", figures::large),
            ("million", figures::million),
        ],
    )
}
