//! Long variants of tests. `cargo test`, the gate of a change, runs a sample of each. `just full` sets
//! `PILOTHOUSE_FULL=1` and a random `PILOTHOUSE_SEED`, which it prints.

use std::env;

use anyhow::Context;

use crate::skip;

/// The variable that makes tests run at full length when it is `1`.
pub const FULL: &str = "PILOTHOUSE_FULL";
/// The variable with the seed of random scripts. Without it each test uses a fixed seed.
pub const SEED: &str = "PILOTHOUSE_SEED";

/// Whether tests run at full length.
pub fn is_full() -> bool {
    env::var_os(FULL).is_some_and(|value| value == "1")
}

/// Returns `full` when tests run at full length, otherwise `sample`.
pub fn or_sample<T>(full: T, sample: T) -> T {
    if is_full() { full } else { sample }
}

/// Runs a test only at full length. Otherwise a line on standard error says that it was not run.
///
/// # Errors
/// The error of the test.
pub fn only(test: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    if is_full() {
        return test();
    }
    skip::say("NOT IN THE SAMPLE", &format!("only with {FULL}=1"));
    Ok(())
}

/// The seed of a random script: from the environment, otherwise `fixed`. It is printed to the captured output of the
/// test.
///
/// # Errors
/// When the variable is not a number.
pub fn seed(fixed: u64) -> anyhow::Result<u64> {
    let seed = match env::var(SEED) {
        Ok(text) => text.parse().with_context(|| format!("{SEED}={text}"))?,
        Err(_) => fixed,
    };
    eprintln!("{SEED}={seed}");
    Ok(seed)
}
