//! Figures of the development server over HTTP: `cargo bench -p pilothouse-devserver`; a word after `--` (`create`, `list`,
//! `fanout`, `memory`) runs one part.
//!
//! The server has one thread on a core of its own, the clients have another: a figure per second of the server's thread is
//! what one core does.

mod load;
mod parts;

/// As the binary has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    pilothouse_bench::run(
        "pilothouse-devserver",
        "cargo bench -p pilothouse-devserver",
        // Memory first: what the others leave in the allocator would count.
        &[
            ("memory", parts::memory),
            ("create", parts::create),
            ("list", parts::list),
            ("fanout", parts::fan_out),
        ],
    )
}
