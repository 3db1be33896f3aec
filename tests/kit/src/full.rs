//! Long variants of tests. `cargo test` is the gate of a change and runs a sample of each; `just full` sets `PILOTHOUSE_FULL=1`
//! and a random `PILOTHOUSE_SEED`, which it prints.

use std::env;

use anyhow::Context;

use crate::skip;

/// Set to `1`, tests run at their full length.
pub const FULL: &str = "PILOTHOUSE_FULL";
/// The seed of random scripts. Without it each test has a fixed one.
pub const SEED: &str = "PILOTHOUSE_SEED";

/// Whether tests run at their full length.
pub fn is_full() -> bool {
    env::var_os(FULL).is_some_and(|value| value == "1")
}

/// One of two: a length at full, and one for the gate.
pub fn or_sample<T>(full: T, sample: T) -> T {
    if is_full() { full } else { sample }
}

/// Runs a test at full length only; otherwise a line on standard error says that it was not run.
///
/// # Errors
/// That of the test.
pub fn only(test: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    if is_full() {
        return test();
    }
    skip::say("NOT IN THE SAMPLE", &format!("only with {FULL}=1"));
    Ok(())
}

/// The seed of a random script: that of the environment, or the one given. It is printed where a failed test shows its output.
///
/// # Errors
/// When the environment's is no number.
pub fn seed(fixed: u64) -> anyhow::Result<u64> {
    let seed = match env::var(SEED) {
        Ok(text) => text.parse().with_context(|| format!("{SEED}={text}"))?,
        Err(_) => fixed,
    };
    eprintln!("{SEED}={seed}");
    Ok(seed)
}
