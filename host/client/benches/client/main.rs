//! Figures of the client beside client-go and kube-rs in the same run: `cargo bench -p pilothouse-client`.
//!
//! A word after `--` runs the parts whose name contains it: `decode`, `flood`. `--full` adds further peers.
//! Needs Go 1.26 for the peers; the first run builds them into `target/peers`.

mod decode;
mod flood;
mod reader;

/// As the host's binary has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    // As the host's binary does.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    // Whole processes are measured on this same program, started once more.
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == reader::COMMAND) {
        return reader::run(&args[1..]);
    }
    if args.first().is_some_and(|arg| arg == flood::COMMAND) {
        return flood::serve();
    }
    pilothouse_bench::run(
        "pilothouse-client",
        "cargo bench -p pilothouse-client",
        &[("decode", decode::run), ("flood", flood::run)],
    )
}
