//! The contract as names: which interfaces of `pilothouse:controller` a component exports and imports, in which version.

use std::fmt;

use pilothouse_plugin::World;

use crate::error::LoadError;

/// Prefix of the contract's interfaces in the names of exports and imports.
const PACKAGE: &str = "pilothouse:controller/";

/// A version of the contract that this host serves, in any of its patch versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContractVersion {
    /// 0.1
    V0_1,
    /// 0.2
    V0_2,
}

impl ContractVersion {
    /// All versions that are served, in their order.
    pub const SERVED: [Self; 2] = [Self::V0_1, Self::V0_2];

    /// Major and minor version.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0_1 => "0.1",
            Self::V0_2 => "0.2",
        }
    }

    /// The versions that are served, for messages.
    pub(crate) fn served() -> String {
        Self::SERVED.map(Self::as_str).join(" and ")
    }
}

impl fmt::Display for ContractVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a component exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exported {
    pub(crate) version: ContractVersion,
    pub(crate) world: World,
    /// Whether it hands its state over at a reload.
    pub(crate) state: bool,
}

/// Checks the names of a component's exports and imports: they must be of one served version, and the exports those of a
/// plugin.
pub(crate) fn check(exports: &[String], imports: &[String]) -> Result<Exported, LoadError> {
    let versions = || exports.iter().chain(imports).filter_map(|name| version(name));
    let served = |text: &str| ContractVersion::SERVED.into_iter().find(|version| version.as_str() == text);
    if let Some(made_for) = versions().find(|text| served(text).is_none()) {
        return Err(LoadError::OtherVersion { made_for });
    }
    let mut found = versions().filter_map(|text| served(&text));
    let version = found.next().unwrap_or(ContractVersion::V0_2);
    if let Some(other) = found.find(|other| *other != version) {
        return Err(LoadError::MixedVersions { versions: [version, other] });
    }
    let has = |interface: &str| exports.iter().any(|name| is_interface(name, interface));
    let (reconciles, batches, handles) = (has("reconcile"), has("reconcile-many"), has("handler"));
    let missing = match (has("descriptor"), reconciles || batches || handles) {
        (true, true) => {
            let world = match (reconciles, batches, handles) {
                (true, true, _) => return Err(LoadError::MixedWorlds { other: "reconcile" }),
                (false, true, true) if version == ContractVersion::V0_1 => {
                    return Err(LoadError::MixedWorlds { other: "handler" });
                }
                (false, true, true) => World::BatchController,
                (false, true, false) => World::BatchReconciler,
                (true, false, true) => World::Controller,
                (true, false, false) => World::Reconciler,
                (false, false, _) => World::EventHandler,
            };
            let state = has("state") && version != ContractVersion::V0_1;
            return Ok(Exported { version, world, state });
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
        for (version, number) in [(ContractVersion::V0_1, "0.1"), (ContractVersion::V0_2, "0.2")] {
            let all = Exported { version, world: World::Controller, state: false };
            let names = ["descriptor", "reconcile", "handler"].map(|name| format!("{name}@{number}.7"));
            let exports = names.each_ref().map(|name| &**name);
            let cache = format!("cache@{number}.0");
            assert_eq!(checked(&exports, &[&cache, "wasi:cli/stdout@0.2.9"]), Ok(all));
        }
    }

    #[test]
    fn another_version_is_named_whether_exported_or_imported() {
        let served = ["descriptor@0.1.0", "reconcile@0.1.0"];
        for (exports, imports, made_for) in [
            (&["descriptor@0.0.2", "reconcile@0.0.2"][..], &[][..], "0.0"),
            (&served[..], &["cache@0.3.1"][..], "0.3"),
            (&["descriptor@1.4.0"], &[], "1"),
        ] {
            let error = checked(exports, imports).unwrap_err();
            let wanted = format!("needs pilothouse:controller@{made_for}, this host serves 0.1 and 0.2: ");
            assert!(error.starts_with(&wanted), "{error}");
        }
    }

    #[test]
    fn versions_are_not_mixed() {
        let error = checked(&["descriptor@0.2.0", "reconcile@0.2.0"], &["cache@0.1.0"]).unwrap_err();
        assert!(error.starts_with("it uses pilothouse:controller in the versions 0.2 and 0.1:"), "{error}");
    }

    #[test]
    fn exports_of_0_2_combine() {
        for (exports, world, state) in [
            (&["reconcile"][..], World::Reconciler, false),
            (&["reconcile", "state"], World::Reconciler, true),
            (&["reconcile-many"], World::BatchReconciler, false),
            (&["handler", "state"], World::EventHandler, true),
            (&["handler", "reconcile"], World::Controller, false),
            (&["handler", "reconcile-many"], World::BatchController, false),
        ] {
            let names = exports.iter().chain(&["descriptor"]).map(|name| format!("{name}@0.2.0"));
            let names: Vec<String> = names.collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let version = ContractVersion::V0_2;
            assert_eq!(checked(&names, &[]), Ok(Exported { version, world, state }), "{exports:?}");
        }
        let both = ["descriptor@0.2.0", "reconcile@0.2.0", "reconcile-many@0.2.0"];
        assert!(
            checked(&both, &[])
                .unwrap_err()
                .starts_with("it exports reconcile-many together with reconcile:")
        );
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
