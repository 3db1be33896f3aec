//! Figures of the development server over HTTP: `cargo bench -p pilothouse-devserver`; a word after `--` (`create`, `list`,
//! `fanout`, `memory`) runs one part.
//!
//! The server has one thread on a core of its own, the clients have another: a figure per second of the server's thread is
//! what one core does.

mod load;
mod parts;

use pilothouse_bench::Report;

/// As the binary has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Part = fn(&mut Report) -> anyhow::Result<()>;

fn main() -> anyhow::Result<()> {
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let mut report = Report::new("pilothouse-devserver", "cargo bench -p pilothouse-devserver");
    // Memory first: what the others leave in the allocator would count.
    let all: [(&str, Part); 4] = [
        ("memory", parts::memory),
        ("create", parts::create),
        ("list", parts::list),
        ("fanout", parts::fan_out),
    ];
    for (name, run) in all {
        if name.contains(&only) {
            run(&mut report)?;
        }
    }
    let path = report.write()?;
    #[allow(clippy::print_stdout, reason = "a bench's result")]
    {
        println!("written to {}", path.display());
    }
    Ok(())
}
