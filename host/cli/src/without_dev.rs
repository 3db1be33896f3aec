//! [`explain`]: the error of a subcommand that this build lacks, since it was built without the feature `dev`.

use clap::Error;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

/// The subcommands that the feature `dev` brings.
const SUBCOMMANDS: [&str; 6] = ["build", "check", "dev", "new", "sbom", "test"];

/// Adds to the error of an unknown subcommand how to get it, if a build with the feature `dev` has it.
pub(crate) fn explain(mut error: Error) -> Error {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if SUBCOMMANDS.contains(&name.as_str()) {
        let tip = format!(
            "this build is for clusters and has no `{name}`; build one that has it from the source: cargo build --release -p pilothouse"
        );
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    fn refused(subcommand: &str) -> String {
        let command = Command::new("pilothouse").subcommand_required(true).subcommand(Command::new("run"));
        explain(command.try_get_matches_from(["pilothouse", subcommand]).unwrap_err()).to_string()
    }

    #[test]
    fn a_subcommand_for_development_is_unknown_and_the_error_says_how_to_get_it() {
        let error = refused("dev");
        assert!(error.contains("unrecognized subcommand 'dev'"), "{error}");
        assert!(
            error.contains("tip: this build is for clusters") && error.contains("cargo build"),
            "{error}"
        );
        assert!(!refused("other").contains("this build is for clusters"));
    }
}
