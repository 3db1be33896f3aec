//! Figures of the main road, with the real binary on the real control plane and all defaults on.
//!
//! `just bench road` runs all parts; a word after `--` runs those whose name contains it (`latency`, `throughput`, `memory`,
//! `wake`, `reload`).

#[path = "../shared/first_call.rs"]
mod first_call;
mod latency;
mod memory;
#[path = "../shared/plugins.rs"]
mod plugins;
mod reload;
mod throughput;
mod wake;

fn main() -> anyhow::Result<()> {
    pilothouse_bench::run(
        "road",
        "just bench road",
        &[
            ("latency", latency::run),
            ("throughput", throughput::run),
            ("memory", memory::run),
            ("wake", wake::run),
            ("reload", reload::run),
        ],
    )
}
