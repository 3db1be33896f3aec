//! Figures of the main road, with the real binary on the real control plane and all defaults on.
//!
//! `cargo bench -p pilothouse-bench --bench road` runs all parts; a word after `--` runs those whose name contains it (`latency`,
//! `throughput`, `memory`, `wake`).

#[path = "../shared/first_call.rs"]
mod first_call;
mod latency;
mod memory;
#[path = "../shared/plugins.rs"]
mod plugins;
mod throughput;
mod wake;

fn main() -> anyhow::Result<()> {
    pilothouse_bench::run(
        "road",
        "cargo bench -p pilothouse-bench --bench road",
        &[
            ("latency", latency::run),
            ("throughput", throughput::run),
            ("memory", memory::run),
            ("wake", wake::run),
        ],
    )
}
