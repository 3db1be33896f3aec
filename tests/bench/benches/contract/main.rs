//! What the contract costs a guest: a reconcile that does nothing, and reads of the cache of a running host by the guest's
//! own clock.
//!
//! `cargo bench -p pilothouse-bench --bench contract` runs both parts; a word after `--` runs one (`noop`, `reads`).

mod noop;
mod reads;
#[path = "../shared/warm_call.rs"]
mod warm_call;

fn main() -> anyhow::Result<()> {
    let command = "cargo bench -p pilothouse-bench --bench contract";
    pilothouse_bench::run("contract", command, &[("noop", noop::run), ("reads", reads::run)])
}
