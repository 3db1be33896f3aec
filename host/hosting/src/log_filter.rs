//! [`log_filter`]: which events are logged, by `RUST_LOG`. Called where `run` and `dev` start their logs.

use std::env::VarError;

use anyhow::{Result, anyhow};
use pilothouse_manager::TRACE;
use tracing_subscriber::filter::{LevelFilter, Targets};

/// What `RUST_LOG` says, `TARGET=LEVEL` with commas in between, or `default` where it is not set. [`Targets`] rather than
/// `EnvFilter`, whose regular expressions take 20 seconds of the first build and are for spans, which nobody filters here. The
/// spans of traces are not for the log.
///
/// # Errors
/// When `RUST_LOG` is something else.
pub fn log_filter(default: &str) -> Result<Targets> {
    match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => parse(&text),
        Ok(_) | Err(VarError::NotPresent) => parse(default),
        Err(VarError::NotUnicode(text)) => parse(&text.to_string_lossy()),
    }
}

fn parse(text: &str) -> Result<Targets> {
    // A blank after a comma would be a part of the next target's name.
    let filter: String = text.split_whitespace().collect();
    let filter: Targets = filter.parse().map_err(|error| {
        anyhow!("RUST_LOG {text:?} cannot be read: {error}; expected as in RUST_LOG=info,guest=debug")
    })?;
    Ok(filter.with_target(TRACE, LevelFilter::OFF))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn targets_begin_with_what_is_named_and_the_longest_name_counts() {
        let filter = parse("warn, pilothouse=info,pilothouse::reconciles=debug, guest=off").unwrap();
        for (target, level, logged) in [
            ("hyper", Level::WARN, true),
            ("hyper", Level::INFO, false),
            ("pilothouse_client::call", Level::INFO, true),
            ("pilothouse::reconciles", Level::DEBUG, true),
            ("pilothouse_client", Level::DEBUG, false),
            ("guest", Level::ERROR, false),
            ("pilothouse::trace", Level::ERROR, false),
        ] {
            assert_eq!(filter.would_enable(target, &level), logged, "{target} {level}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused_with_an_example() {
        for text in ["info,guest=loud", "info,[span{field=1}]=debug"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("RUST_LOG=info,guest=debug"), "{error}");
        }
    }
}
