//! Draws the charts of `docs/benchmarks.md` from the JSON files that the benchmarks of this target folder have written.

use anyhow::ensure;
use pilothouse_bench::{charts, results};

#[allow(clippy::print_stdout, reason = "its result")]
fn main() -> anyhow::Result<()> {
    let drawn = charts::draw(&results()?, &charts::folder())?;
    for path in &drawn.written {
        println!("written to {}", path.display());
    }
    for reason in &drawn.missing {
        println!("{reason}");
    }
    ensure!(!drawn.written.is_empty(), "no chart was drawn");
    Ok(())
}
