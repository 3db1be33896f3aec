//! The contract as names: which interfaces of `pilothouse:controller` a component exports and imports, in which version.

use crate::error::LoadError;

/// Prefix of the contract's interfaces in the names of exports and imports.
const PACKAGE: &str = "pilothouse:controller/";

/// The version of the contract that this host serves: any patch version of it.
pub(crate) const SERVED: &str = "0.1";

/// Which of its optional interfaces a component exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exported {
    pub(crate) reconcile: bool,
    pub(crate) reconcile_many: bool,
    pub(crate) handler: bool,
}

/// Checks the names of a component's exports and imports: they must form a world of the contract, in the served version.
pub(crate) fn check(exports: &[String], imports: &[String]) -> Result<Exported, LoadError> {
    let foreign = |name: &&String| version(name).is_some_and(|version| version != SERVED);
    if let Some(made_for) = exports.iter().chain(imports).find(foreign).and_then(|name| version(name)) {
        return Err(LoadError::OtherVersion { made_for });
    }
    let has = |interface: &str| exports.iter().any(|name| is_interface(name, interface));
    let exported = Exported {
        reconcile: has("reconcile"),
        reconcile_many: has("reconcile-many"),
        handler: has("handler"),
    };
    let works = exported.reconcile || exported.handler || exported.reconcile_many;
    let missing = match (has("descriptor"), works) {
        (true, true) => {
            let other = match exported {
                Exported { reconcile_many: false, .. } => return Ok(exported),
                Exported { reconcile: true, .. } => "reconcile",
                Exported { handler: true, .. } => "handler",
                Exported { reconcile: false, handler: false, .. } => return Ok(exported),
            };
            return Err(LoadError::MixedWorlds { other });
        }
        (false, true) => "descriptor",
        (true, false) => "reconcile, reconcile-many or handler",
        (false, false) => "descriptor with reconcile, reconcile-many or handler",
    };
    let found = if exports.is_empty() { "nothing".to_owned() } else { exports.join(", ") };
    Err(LoadError::OtherWorld { found, missing: missing.to_owned() })
}

/// Whether a name is this interface of the contract, in any version.
fn is_interface(name: &str, interface: &str) -> bool {
    name.strip_prefix(PACKAGE)
        .and_then(|rest| rest.strip_prefix(interface))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
}

/// The compatible part of the version of an interface of the contract: major and minor before 1.0, then the major version.
fn version(name: &str) -> Option<String> {
    let (_, version) = name.strip_prefix(PACKAGE)?.split_once('@')?;
    let mut parts = version.split('.');
    let major = parts.next()?;
    Some(if major == "0" { format!("0.{}", parts.next()?) } else { major.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(exports: &[&str], imports: &[&str]) -> Result<Exported, String> {
        let names = |names: &[&str]| -> Vec<String> {
            let name = |name: &&str| {
                if name.contains(':') { (*name).to_owned() } else { format!("{PACKAGE}{name}") }
            };
            names.iter().map(name).collect()
        };
        check(&names(exports), &names(imports)).map_err(|error| error.to_string())
    }

    #[test]
    fn any_patch_version_of_the_served_contract_is_accepted() {
        let all = Exported { reconcile: true, reconcile_many: false, handler: true };
        let exports = ["descriptor@0.1.0", "reconcile@0.1.7", "handler@0.1.0"];
        assert_eq!(checked(&exports, &["cache@0.1.3", "wasi:cli/stdout@0.2.9"]), Ok(all));
    }

    #[test]
    fn another_version_is_named_whether_exported_or_imported() {
        let served = ["descriptor@0.1.0", "reconcile@0.1.0"];
        for (exports, imports, made_for) in [
            (&["descriptor@0.2.0", "reconcile@0.2.0"][..], &[][..], "0.2"),
            (&served[..], &["cache@0.3.1"][..], "0.3"),
            (&["descriptor@1.4.0"], &[], "1"),
        ] {
            let error = checked(exports, imports).unwrap_err();
            let wanted = format!("made for contract {made_for}, this host serves 0.1: ");
            assert!(error.starts_with(&wanted), "{error}");
        }
    }

    #[test]
    fn a_batch_reconciler_that_exports_more_is_told_what_does_not_belong() {
        for other in ["handler", "reconcile"] {
            let other_export = format!("{other}@0.1.0");
            let error =
                checked(&["descriptor@0.1.0", "reconcile-many@0.1.0", &other_export], &[]).unwrap_err();
            assert!(
                error.starts_with(&format!("it exports reconcile-many together with {other}:")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_component_of_no_world_is_told_what_is_missing() {
        let missing = |exports: &[&str]| checked(exports, &[]).unwrap_err();
        assert!(missing(&["reconcile@0.1.0"]).contains("and not descriptor;"));
        assert!(missing(&["descriptor@0.1.0"]).contains("and not reconcile, reconcile-many or handler;"));
        assert!(missing(&[]).contains("it exports nothing"));
        assert!(missing(&["example:greeter/greet"]).contains("it exports example:greeter/greet"));
    }
}
