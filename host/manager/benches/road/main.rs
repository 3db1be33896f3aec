//! Figures of the main road, with the real binary on the real control plane and all defaults on.
//!
//! `cargo bench -p pilothouse-manager` runs all parts; a word after `--` runs those whose name contains it (`latency`,
//! `throughput`, `memory`, `wake`).

mod latency;
mod memory;
mod plugins;
mod throughput;
mod wake;

use pilothouse_bench::Report;

/// Measures something and adds its rows.
type Part = fn(&mut Report) -> anyhow::Result<()>;

fn main() -> anyhow::Result<()> {
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let mut report = Report::new("pilothouse-manager", "cargo bench -p pilothouse-manager");
    let parts: [(&str, Part); 4] = [
        ("latency", latency::run),
        ("throughput", throughput::run),
        ("memory", memory::run),
        ("wake", wake::run),
    ];
    for (name, run) in parts {
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
