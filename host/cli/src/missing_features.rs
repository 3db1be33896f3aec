//! [`explain`]: the error of a subcommand or flag that this build lacks, since it was built without a Cargo feature.

use clap::Error;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

/// The subcommands that the feature `dev` brings.
const DEV: [&str; 6] = ["build", "check", "dev", "new", "sbom", "test"];
/// The subcommands and flags that the feature `oci` brings.
const OCI: [&str; 4] = ["push", "pull", "--signatures", "--signature-key"];

/// Adds to the error of an unknown subcommand or flag how to get it, if a build with another feature has it.
pub(crate) fn explain(mut error: Error) -> Error {
    let unknown = error.get(ContextKind::InvalidSubcommand).or_else(|| error.get(ContextKind::InvalidArg));
    let Some(ContextValue::String(name)) = unknown else { return error };
    let name = name.split([' ', '=']).next().unwrap_or_default();
    let tip = if DEV.contains(&name) {
        format!(
            "this build is for clusters and has no `{name}`; build one that has it from the source: cargo build --release \
             -p pilothouse"
        )
    } else if OCI.contains(&name) {
        format!(
            "this build has no `{name}`, which is of the feature `oci`; build one that has it from the source: \
             cargo build --release -p pilothouse --features oci"
        )
    } else {
        return error;
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    error
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    fn refused(args: &[&str]) -> String {
        let command = Command::new("pilothouse").subcommand_required(true).subcommand(Command::new("run"));
        explain(command.try_get_matches_from(["pilothouse"].iter().chain(args)).unwrap_err()).to_string()
    }

    #[test]
    fn a_subcommand_for_development_is_unknown_and_the_error_says_how_to_get_it() {
        let error = refused(&["dev"]);
        assert!(error.contains("unrecognized subcommand 'dev'"), "{error}");
        assert!(
            error.contains("tip: this build is for clusters") && error.contains("cargo build"),
            "{error}"
        );
        assert!(!refused(&["other"]).contains("this build"));
    }

    #[test]
    fn what_is_of_registries_is_unknown_and_the_error_names_the_feature() {
        for args in
            [&["push", "a.wasm"][..], &["run", "--signatures", "require"], &["run", "--signature-key=a"]]
        {
            let error = refused(args);
            assert!(
                error.contains("tip: this build has no `") && error.contains("--features oci"),
                "{error}"
            );
        }
        assert!(!refused(&["run", "--other"]).contains("this build"));
    }
}
