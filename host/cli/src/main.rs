//! The `pilothouse` binary.

use std::process::ExitCode;

/// Pages of freed lists go back to the system; glibc keeps the peak of the first list.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    pilothouse_cli::main()
}
