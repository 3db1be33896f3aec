//! [`explain`]: the error of a subcommand or flag that this build lacks, since it was built without a Cargo feature.

use clap::Error;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

/// The subcommands that the feature `dev` brings.
const DEV: [&str; 7] = ["build", "check", "crd", "dev", "new", "rbac", "test"];
/// The features that are off by default, with the subcommands and flags that each brings.
const OPTIONAL: [(&str, &[&str]); 2] = [
    ("oci", &["pull", "--signatures", "--signature-key"]),
    ("traces", &["--otlp-endpoint", "--trace-ratio"]),
];

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
    } else if let Some((feature, _)) = OPTIONAL.iter().find(|(_, names)| names.contains(&name)) {
        format!(
            "this build has no `{name}`, which is of the feature `{feature}`; build one that has it from the source: \
             cargo build --release -p pilothouse --features {feature}"
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
    fn what_is_of_an_optional_feature_is_unknown_and_the_error_names_the_feature() {
        for (args, feature) in [
            (&["pull", "oci://r.example/a"][..], "oci"),
            (&["run", "--signatures", "require"], "oci"),
            (&["run", "--signature-key=a"], "oci"),
            (&["run", "--otlp-endpoint", "http://127.0.0.1:4318"], "traces"),
        ] {
            let error = refused(args);
            let remedy = format!("--features {feature}");
            assert!(error.contains("tip: this build has no `") && error.contains(&remedy), "{error}");
        }
        assert!(!refused(&["run", "--other"]).contains("this build"));
    }
}
