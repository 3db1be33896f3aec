//! [`AllowLists`]: what the operator of a host lets manifests name, where others write the plugin directory.
//!
//! Invariant: without a list everything may be named, except clusters by Plugins of the cluster. With one, nothing outside of it
//! takes effect: a manifest that names it is refused as a whole, and the error names the flag.

use std::collections::BTreeSet;
use std::path::{Component, PathBuf};

use crate::clusters::HOME_CLUSTER;
use crate::manifest::{ConfigFrom, Manifest, NamespacedName};

/// The lists of a host; the default allows everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowLists {
    /// Namespaces that permissions, ServiceAccounts and `configFrom` may name; cluster-scoped objects are outside of all.
    pub namespaces: Option<BTreeSet<String>>,
    /// ServiceAccounts that a manifest may name; each has to name one.
    pub service_accounts: Option<Vec<AllowedAccount>>,
    /// The folder below which files of `configFrom` are.
    pub config_files_under: Option<PathBuf>,
    /// Clusters that a manifest may name beside the home cluster, for runs and as remote ones. Without a list those of the
    /// plugin directory may name all, and Plugins of the cluster none: a namespace of the same name elsewhere may be another
    /// tenant's.
    pub clusters: Option<BTreeSet<String>>,
}

/// A ServiceAccount, or all of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedAccount {
    namespace: String,
    /// None: all of the namespace.
    name: Option<String>,
}

impl AllowedAccount {
    /// Reads `NAMESPACE/NAME`, or `NAMESPACE/*`.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                let name = (name != "*").then(|| name.to_owned());
                Ok(Self { namespace: namespace.to_owned(), name })
            }
            _ => Err(format!("{text:?} is not NAMESPACE/NAME; for all of a namespace write NAMESPACE/*")),
        }
    }

    fn covers(&self, account: &NamespacedName) -> bool {
        self.namespace == account.namespace && self.name.as_ref().is_none_or(|name| *name == account.name)
    }
}

impl AllowLists {
    /// Checks what a manifest names.
    ///
    /// # Errors
    /// The field, what it names, and the flag that does not allow it.
    pub fn check(&self, manifest: &Manifest) -> Result<(), String> {
        self.check_namespaces(manifest)?;
        self.check_account(manifest)?;
        self.check_files(manifest)
    }

    /// Checks the clusters that a manifest of the plugin directory, or of a Plugin of the cluster, names.
    ///
    /// # Errors
    /// The field, the name, and the flag that does not allow it.
    pub fn check_clusters(&self, manifest: &Manifest, in_directory: bool) -> Result<(), String> {
        let nothing = BTreeSet::new();
        let allowed = match &self.clusters {
            None if in_directory => return Ok(()),
            allowed => allowed.as_ref().unwrap_or(&nothing),
        };
        let of_runs = manifest.clusters.iter().enumerate();
        let of_runs = of_runs.map(|(at, name)| (format!("spec.clusters[{at}]"), name));
        let remote = manifest.remote_clusters.iter().enumerate().flat_map(|(index, entry)| {
            let named = entry.clusters.iter().enumerate();
            named.map(move |(at, name)| (format!("spec.remoteClusters[{index}].clusters[{at}]"), name))
        });
        let refused = |name: &String| name != HOME_CLUSTER && !allowed.contains(name);
        let Some((field, name)) = of_runs.chain(remote).find(|(_, name)| refused(name)) else {
            return Ok(());
        };
        let flag = match &self.clusters {
            None => "the host runs Plugins of the cluster at home only, without --allow-clusters".to_owned(),
            Some(_) => {
                let names: Vec<&str> = allowed.iter().map(String::as_str).collect();
                format!("the host runs with --allow-clusters {}", names.join(","))
            }
        };
        Err(format!("{field}: cluster {name:?} is not allowed: {flag}"))
    }

    fn check_namespaces(&self, manifest: &Manifest) -> Result<(), String> {
        let Some(allowed) = &self.namespaces else { return Ok(()) };
        let flag = || {
            let names: Vec<&str> = allowed.iter().map(String::as_str).collect();
            format!("the host runs with --allow-namespaces {}", names.join(","))
        };
        let refused = |field: &str, namespace: &str| {
            Err(format!("{field}: namespace {namespace:?} is not allowed: {}", flag()))
        };
        let remote = manifest.remote_clusters.iter().enumerate();
        let remote =
            remote.map(|(at, entry)| (format!("spec.remoteClusters[{at}].permissions"), &*entry.permissions));
        let here = ("spec.permissions".to_owned(), &*manifest.permissions);
        for (list, rules) in std::iter::once(here).chain(remote) {
            for (index, rule) in rules.iter().enumerate() {
                let field = format!("{list}[{index}].namespaces");
                if rule.namespaces.is_empty() {
                    return Err(format!("{field}: cluster-scoped objects are not allowed: {}", flag()));
                }
                let foreign = rule.namespaces.iter().find(|namespace| !allowed.contains(*namespace));
                if let Some(namespace) = foreign {
                    return refused(&field, namespace);
                }
            }
        }
        for (index, from) in manifest.config_from.iter().enumerate() {
            if let ConfigFrom::Secret(object) | ConfigFrom::ConfigMap(object) = from
                && !allowed.contains(&object.namespace)
            {
                return refused(&format!("spec.configFrom[{index}].{from}.namespace"), &object.namespace);
            }
        }
        match &manifest.service_account {
            Some(account) if !allowed.contains(&account.namespace) => {
                refused("spec.serviceAccount.namespace", &account.namespace)
            }
            _ => Ok(()),
        }
    }

    fn check_account(&self, manifest: &Manifest) -> Result<(), String> {
        let Some(allowed) = &self.service_accounts else { return Ok(()) };
        match &manifest.service_account {
            None => Err("spec.serviceAccount is missing, and the host runs with --allow-service-accounts: name one of them"
                .to_owned()),
            Some(account) if !allowed.iter().any(|allowed| allowed.covers(account)) => Err(format!(
                "spec.serviceAccount: {}/{} is not one of --allow-service-accounts of the host",
                account.namespace, account.name
            )),
            Some(_) => Ok(()),
        }
    }

    fn check_files(&self, manifest: &Manifest) -> Result<(), String> {
        let Some(folder) = &self.config_files_under else { return Ok(()) };
        for (index, from) in manifest.config_from.iter().enumerate() {
            // Links are checked when the file is opened.
            if let ConfigFrom::File(path) = from
                && (!path.starts_with(folder) || path.components().any(|part| part == Component::ParentDir))
            {
                return Err(format!(
                    "spec.configFrom[{index}].file: {} is not below {}, where the host allows files (--config-files-under)",
                    path.display(),
                    folder.display()
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(spec: &str) -> Manifest {
        let head = "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: {name: p}\n";
        Manifest::parse(format!("{head}spec: {spec}").as_bytes()).unwrap()
    }

    fn namespaces(names: &[&str]) -> AllowLists {
        let names = names.iter().map(ToString::to_string).collect();
        AllowLists { namespaces: Some(names), ..AllowLists::default() }
    }

    fn rule(namespaces: &str) -> Manifest {
        manifest(&format!("{{permissions: [{{groups: [''], resources: [pods], verbs: [get]{namespaces}}}]}}"))
    }

    #[test]
    fn without_lists_everything_may_be_named() {
        let manifest =
            manifest("{serviceAccount: {namespace: a, name: b}, configFrom: [{file: /etc/passwd}]}");
        assert_eq!(AllowLists::default().check(&manifest), Ok(()));
    }

    #[test]
    fn only_the_namespaces_of_the_list_may_be_named_anywhere() {
        let allowed = namespaces(&["a", "b"]);
        for good in [", namespaces: [a]", ", namespaces: [b, a]"] {
            assert_eq!(allowed.check(&rule(good)), Ok(()), "{good}");
        }
        for (bad, words) in [
            ("", "spec.permissions[0].namespaces: cluster-scoped objects are not allowed"),
            (", namespaces: [a, c]", "spec.permissions[0].namespaces: namespace \"c\" is not allowed"),
            (", namespaces: ['*']", "spec.permissions[0].namespaces: namespace \"*\" is not allowed"),
        ] {
            let error = allowed.check(&rule(bad)).unwrap_err();
            assert!(error.starts_with(words) && error.ends_with("--allow-namespaces a,b"), "{error}");
        }
        let error =
            allowed.check(&manifest("{configFrom: [{secretRef: {namespace: c, name: x}}]}")).unwrap_err();
        assert!(error.starts_with("spec.configFrom[0].secretRef.namespace: namespace \"c\""), "{error}");
        let error = allowed.check(&manifest("{serviceAccount: {namespace: c, name: x}}")).unwrap_err();
        assert!(error.starts_with("spec.serviceAccount.namespace: namespace \"c\""), "{error}");
    }

    #[test]
    fn a_service_account_of_the_list_has_to_be_named() {
        let accounts = ["a/x", "b/*"].map(|text| AllowedAccount::parse(text).unwrap());
        let allowed = AllowLists { service_accounts: Some(accounts.into()), ..AllowLists::default() };
        let of = |namespace, name| {
            allowed.check(&manifest(&format!("{{serviceAccount: {{namespace: {namespace}, name: {name}}}}}")))
        };
        assert_eq!([of("a", "x"), of("b", "y")], [Ok(()), Ok(())]);
        assert!(of("a", "y").unwrap_err().contains("a/y is not one of --allow-service-accounts"));
        assert!(allowed.check(&manifest("{}")).unwrap_err().starts_with("spec.serviceAccount is missing"));
        for bad in ["a", "a/", "/x", "a/b/c"] {
            assert!(AllowedAccount::parse(bad).unwrap_err().contains("NAMESPACE/NAME"), "{bad}");
        }
    }

    #[test]
    fn clusters_are_those_of_the_list_and_plugins_of_the_cluster_stay_at_home_without_one() {
        let [home, east] = ["{clusters: [home]}", "{clusters: [home, east]}"].map(manifest);
        let without = AllowLists::default();
        assert_eq!(without.check_clusters(&east, true), Ok(()));
        assert_eq!(without.check_clusters(&home, false), Ok(()));
        let error = without.check_clusters(&east, false).unwrap_err();
        assert!(error.starts_with("spec.clusters[1]: cluster \"east\" is not allowed"), "{error}");
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let with = |list| AllowLists { clusters: Some(names(list)), ..AllowLists::default() };
        for in_directory in [true, false] {
            assert_eq!(with(&["east"]).check_clusters(&east, in_directory), Ok(()));
            let error = with(&["west"]).check_clusters(&east, in_directory).unwrap_err();
            assert!(error.ends_with("--allow-clusters west"), "{error}");
        }
    }

    const REMOTE: &str = "{remoteClusters: [{clusters: [home, east], permissions: [
        {groups: [''], resources: [pods], verbs: [get], namespaces: [a]}]}]}";

    #[test]
    fn remote_clusters_are_those_of_the_list_too() {
        let remote = manifest(REMOTE);
        assert_eq!(AllowLists::default().check_clusters(&remote, true), Ok(()));
        let error = AllowLists::default().check_clusters(&remote, false).unwrap_err();
        let words = "spec.remoteClusters[0].clusters[1]: cluster \"east\" is not allowed";
        assert!(error.starts_with(words), "{error}");
        let east = AllowLists { clusters: Some(["east".to_owned()].into()), ..AllowLists::default() };
        assert_eq!(east.check_clusters(&remote, false), Ok(()));
    }

    #[test]
    fn permissions_in_remote_clusters_name_only_the_namespaces_of_the_list() {
        assert_eq!(namespaces(&["a"]).check(&manifest(REMOTE)), Ok(()));
        let error = namespaces(&["b"]).check(&manifest(REMOTE)).unwrap_err();
        let words = "spec.remoteClusters[0].permissions[0].namespaces: namespace \"a\" is not allowed";
        assert!(error.starts_with(words), "{error}");
    }

    #[test]
    fn files_are_below_the_folder() {
        let allowed = AllowLists { config_files_under: Some("/etc/es".into()), ..AllowLists::default() };
        let of = |path| allowed.check(&manifest(&format!("{{configFrom: [{{file: {path}}}]}}")));
        assert_eq!([of("/etc/es/a.yaml"), of("/etc/es/b/c.yaml")], [Ok(()), Ok(())]);
        for bad in ["/etc/passwd", "/etc/es2/a", "/etc/es/../passwd", "/etc/es/a/../../x"] {
            assert!(of(bad).unwrap_err().contains("is not below /etc/es"), "{bad}");
        }
    }
}
