//! [`or_skip`]: skips a test whose tool is missing, with a visible message, or fails it when skipping is not allowed.
//!
//! A test, or a function of the harness that it calls, checks for the tool with
//! [`Tool::require`](crate::tools::Tool::require) and returns the error; [`or_skip`] wraps the test's function.

use std::env;
use std::io::{self, Write as _};
use std::thread;

use crate::tools::MissingTool;

/// The variable that makes a test with a missing tool fail instead of being skipped when it is `1`. CI sets it. The right to
/// mount is no such tool: nothing that is installed gives it.
pub const REQUIRE_ALL: &str = "PILOTHOUSE_REQUIRE_ALL";

/// Runs a test and skips it when its error is a [`MissingTool`]: prints a line on standard
/// error and returns `Ok`, unless [`REQUIRE_ALL`] is set.
///
/// # Errors
/// The error of the test.
pub fn or_skip(test: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let require_all = env::var_os(REQUIRE_ALL).is_some_and(|value| value == "1");
    decide(test(), require_all, |reason| say("SKIPPED", reason))
}

/// Prints why this test is not run. The line is visible although the test passes.
pub(crate) fn say(what: &str, reason: &str) {
    let test = thread::current();
    let line = format!("\n*** {what}: {}: {reason} ***\n", test.name().unwrap_or_default());
    // Not with `eprintln!`, whose output libtest prints only for a failed test.
    let _ = io::stderr().write_all(line.as_bytes());
}

fn decide(result: anyhow::Result<()>, require_all: bool, say: impl FnOnce(&str)) -> anyhow::Result<()> {
    let Err(error) = result else { return Ok(()) };
    // `downcast_ref` also finds the error below context that callers have added.
    let Some(missing) = error.downcast_ref::<MissingTool>() else { return Err(error) };
    if require_all && missing.tool.can_be_installed() {
        return Err(error.context(format!("{REQUIRE_ALL}=1 allows no test to be skipped")));
    }
    say(&missing.to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;
    use crate::tools::Tool;

    fn missing() -> anyhow::Result<()> {
        let missing = MissingTool { tool: Tool::Go, reason: "no `go`".to_owned() };
        Err(missing).context("starting the control plane")
    }

    #[test]
    fn a_test_without_its_tool_is_skipped_and_says_so() {
        let mut said = String::new();
        decide(missing(), false, |line| line.clone_into(&mut said)).unwrap();
        assert!(said.starts_with("no `go`; install Go 1.26"), "{said}");
    }

    #[test]
    fn it_fails_where_nothing_may_be_skipped() {
        let error = decide(missing(), true, |line| panic!("said {line}")).unwrap_err();
        assert!(format!("{error:#}").contains("no `go`"), "{error:#}");
    }

    #[test]
    fn the_right_to_mount_is_never_required() {
        let missing = MissingTool { tool: Tool::Root, reason: "no mounts".to_owned() };
        let mut said = String::new();
        decide(Err(missing.into()), true, |line| line.clone_into(&mut said)).unwrap();
        assert!(said.starts_with("no mounts"), "{said}");
    }

    #[test]
    fn any_other_error_is_the_tests_own() {
        let error = decide(Err(anyhow::anyhow!("broken")), false, |line| panic!("said {line}")).unwrap_err();
        assert_eq!(error.to_string(), "broken");
        decide(Ok(()), false, |line| panic!("said {line}")).unwrap();
    }
}
