//! Draws the charts of `docs/benchmarks.md` again, after results were copied to `docs/benchmarks`.

fn main() -> anyhow::Result<()> {
    for (path, svg) in pilothouse_bench::charts::all()? {
        std::fs::write(path, svg)?;
    }
    Ok(())
}
