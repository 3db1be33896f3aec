//! The contract as names: which interfaces of `pilothouse:controller` a component exports and imports, in which version.

use pilothouse_plugin::World;

use crate::error::LoadError;

/// Prefix of the contract's interfaces in the names of exports and imports.
const PACKAGE: &str = "pilothouse:controller/";

/// The version of the contract that this host serves: major and minor, in any of its patch versions. Before 1.0 it is one.
pub const CONTRACT: &str = "0.2";

/// Checks the names of a component's exports and imports: they must be of the version that is served, and the exports those
/// of a plugin.
pub(crate) fn check(exports: &[String], imports: &[String]) -> Result<World, LoadError> {
    let mut versions = exports.iter().chain(imports).filter_map(|name| version(name));
    if let Some(made_for) = versions.find(|version| version != CONTRACT) {
        return Err(LoadError::OtherVersion { made_for });
    }
    let has = |interface: &str| exports.iter().any(|name| is_interface(name, interface));
    let (reconciles, batches, handles) = (has("reconcile"), has("reconcile-many"), has("handler"));
    let missing = match (has("descriptor"), reconciles || batches || handles) {
        (true, true) => {
            return match (reconciles, batches, handles) {
                (true, true, _) => Err(LoadError::MixedWorlds),
                (false, true, true) => Ok(World::BatchController),
                (false, true, false) => Ok(World::BatchReconciler),
                (true, false, true) => Ok(World::Controller),
                (true, false, false) => Ok(World::Reconciler),
                (false, false, _) => Ok(World::EventHandler),
            };
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

    fn checked(exports: &[&str], imports: &[&str]) -> Result<World, String> {
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
        let exports = ["descriptor@0.2.7", "reconcile@0.2.7", "handler@0.2.7"];
        assert_eq!(checked(&exports, &["cache@0.2.0", "wasi:cli/stdout@0.2.9"]), Ok(World::Controller));
    }

    #[test]
    fn another_version_is_refused_by_name_whether_exported_or_imported() {
        let served = ["descriptor@0.2.0", "reconcile@0.2.0"];
        for (exports, imports, made_for) in [
            (&["descriptor@0.1.0", "reconcile@0.1.0"][..], &["cache@0.1.0"][..], "0.1"),
            (&served, &["cache@0.1.0"], "0.1"),
            (&served, &["cache@0.3.1"], "0.3"),
            (&["descriptor@1.4.0"], &[], "1"),
        ] {
            let error = checked(exports, imports).unwrap_err();
            let wanted = format!(
                "needs pilothouse:controller@{made_for}, this host serves 0.2: rebuild the guest with pilothouse-sdk 0.2, which \
                 comes with this host, or run a host that serves {made_for}"
            );
            assert_eq!(error, wanted);
        }
    }

    #[test]
    fn exports_combine() {
        for (exports, world) in [
            (&["reconcile"][..], World::Reconciler),
            (&["reconcile-many"], World::BatchReconciler),
            (&["handler"], World::EventHandler),
            (&["handler", "reconcile"], World::Controller),
            (&["handler", "reconcile-many"], World::BatchController),
        ] {
            let names = exports.iter().chain(&["descriptor"]).map(|name| format!("{name}@0.2.0"));
            let names: Vec<String> = names.collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            assert_eq!(checked(&names, &[]), Ok(world), "{exports:?}");
        }
        let both = ["descriptor@0.2.0", "reconcile@0.2.0", "reconcile-many@0.2.0"];
        assert!(
            checked(&both, &[])
                .unwrap_err()
                .starts_with("it exports reconcile-many together with reconcile:")
        );
    }

    #[test]
    fn a_component_of_no_world_is_told_what_is_missing() {
        let missing = |exports: &[&str]| checked(exports, &[]).unwrap_err();
        assert!(missing(&["reconcile@0.2.0"]).contains("and not descriptor;"));
        assert!(missing(&["descriptor@0.2.0"]).contains("and not reconcile, reconcile-many or handler;"));
        assert!(missing(&[]).contains("it exports nothing"));
        assert!(missing(&["example:greeter/greet"]).contains("it exports example:greeter/greet"));
    }
}
