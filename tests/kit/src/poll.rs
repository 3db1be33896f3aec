//! Waits for a condition: polls it until it holds or a deadline passes. The harness has no other way of waiting.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;

/// Interval between two polls of a condition.
pub const INTERVAL: Duration = Duration::from_millis(20);

/// The deadline of a wait that no test measures: longer than anything takes, the end of a short lease included, also on a
/// machine that other processes keep busy.
pub const SOON: Duration = Duration::from_secs(180);

/// The result of a condition: a `bool`, an `Option` with the awaited value, or a `Result` of either. An error means
/// "not yet" and is part of the failure message if the deadline passes.
pub trait Outcome {
    /// The value that the wait returns.
    type Value;

    /// The value if the condition holds, otherwise the reason why it does not, which may be empty.
    fn outcome(self) -> Result<Self::Value, String>;
}

impl Outcome for bool {
    type Value = ();

    fn outcome(self) -> Result<(), String> {
        if self { Ok(()) } else { Err(String::new()) }
    }
}

impl<T> Outcome for Option<T> {
    type Value = T;

    fn outcome(self) -> Result<T, String> {
        self.ok_or_else(String::new)
    }
}

impl<O: Outcome, E: Display> Outcome for Result<O, E> {
    type Value = O::Value;

    fn outcome(self) -> Result<O::Value, String> {
        match self {
            Ok(inner) => inner.outcome(),
            // `{:#}` includes the causes of an `anyhow::Error`.
            Err(error) => Err(format!("{error:#}")),
        }
    }
}

/// Polls `condition` until it holds.
///
/// # Errors
/// When the condition does not hold within `deadline`; the message contains `description`.
pub fn until<O: Outcome>(
    description: &str,
    deadline: Duration,
    condition: impl FnMut() -> O,
) -> anyhow::Result<O::Value> {
    until_or(description, deadline, condition, || None)
}

/// As [`until`], and also fails when `hopeless` returns a reason why the condition can no longer hold. The condition is
/// polled once more after that.
///
/// # Errors
/// When the condition does not hold within `deadline` or `hopeless` returns a reason.
pub fn until_or<O: Outcome>(
    description: &str,
    deadline: Duration,
    mut condition: impl FnMut() -> O,
    mut hopeless: impl FnMut() -> Option<String>,
) -> anyhow::Result<O::Value> {
    let started = Instant::now();
    loop {
        let given_up = hopeless();
        let why = match condition().outcome() {
            Ok(value) => return Ok(value),
            Err(why) => why,
        };
        let why = if why.is_empty() { why } else { format!("; last seen: {why}") };
        if let Some(reason) = given_up {
            bail!("{description}: {reason}{why}");
        }
        if started.elapsed() >= deadline {
            bail!("{description}: not within {deadline:?}{why}");
        }
        thread::sleep(INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_may_answer_with_what_was_waited_for() {
        let mut answers = vec![Some("here"), None];
        assert_eq!(until("it", Duration::from_secs(5), || answers.pop().flatten()).unwrap(), "here");
    }

    #[test]
    fn the_failure_names_the_wait_and_the_last_error() {
        let error = until("the sun to rise", Duration::ZERO, || Err::<bool, _>("it is night")).unwrap_err();
        assert_eq!(error.to_string(), "the sun to rise: not within 0ns; last seen: it is night");
    }

    #[test]
    fn a_hopeless_wait_ends_at_once() {
        let error =
            until_or("it", Duration::from_secs(600), || false, || Some("it is gone".into())).unwrap_err();
        assert_eq!(error.to_string(), "it: it is gone");
    }
}
