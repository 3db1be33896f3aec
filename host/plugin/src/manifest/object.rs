//! [`Manifest::of_object`]: the manifest of a Plugin of the cluster, with what such a Plugin may name.
//!
//! Whoever may create Plugins in a namespace decides about that namespace alone: the plugin acts as an account of it, and its
//! component and its configuration are objects of it, or of a server that the operator allows. What remains of the host is bounded by the ceilings of its operator.

use serde_json::value::RawValue;

use super::source::Home;
use super::{ConfigFrom, Manifest, ManifestError};
use crate::limits::Ceilings;

impl Manifest {
    /// The text of the manifest that a Plugin of the cluster stands for. Its `spec` is as the API server gives it.
    #[must_use]
    pub fn text_of_object(namespace: &str, name: &str, spec: Option<&RawValue>) -> String {
        let (namespace, name) = (json(namespace), json(name));
        let spec = spec.map_or("{}", RawValue::get);
        format!(
            r#"{{"apiVersion":"pilothouse.dev/v1alpha1","kind":"Plugin","metadata":{{"namespace":{namespace},"name":{name}}},"spec":{spec}}}"#
        )
    }

    /// Parses and validates the text of a Plugin of the cluster ([`text_of_object`](Self::text_of_object)), on a host with
    /// these ceilings.
    ///
    /// # Errors
    /// As [`parse_within`](Self::parse_within), and when it names what only the operator of the host may name. Errors have no
    /// position: nobody has seen the text.
    pub fn of_object(text: &str, ceilings: &Ceilings) -> Result<Self, ManifestError> {
        let manifest = Self::parse_from(text.as_bytes(), ceilings, Home::Cluster);
        let manifest = manifest.map_err(ManifestError::without_position)?;
        let (namespace, _) = manifest.name.split_once('/').unwrap_or_default();
        manifest.check_within(namespace)?;
        Ok(manifest)
    }

    /// The namespace of a Plugin of the cluster; none of a plugin of the plugin directory.
    #[must_use]
    pub fn own_namespace(&self) -> Option<&str> {
        let (namespace, _) = self.name.split_once('/')?;
        self.source.remote.is_some().then_some(namespace)
    }

    /// Checks that a manifest names nothing outside of its namespace.
    fn check_within(&self, namespace: &str) -> Result<(), ManifestError> {
        let Some(account) = &self.service_account else {
            return refuse(
                "spec.serviceAccount",
                "it is missing".to_owned(),
                "name a ServiceAccount of the namespace",
            );
        };
        if account.namespace != namespace {
            let reason = format!("namespace {:?} is not that of the Plugin", account.namespace);
            let remedy = format!("name a ServiceAccount of namespace {namespace:?}");
            return refuse("spec.serviceAccount.namespace", reason, &remedy);
        }
        if self.source.digest.is_none() {
            let remedy = "write \"sha256:\" and the 64 hexadecimal digits that `sha256sum FILE` prints";
            return refuse("spec.source.digest", "it is missing".to_owned(), remedy);
        }
        for (index, from) in self.config_from.iter().enumerate() {
            let field = format!("spec.configFrom[{index}].{from}");
            match from {
                ConfigFrom::File(_) => {
                    let reason = "a Plugin of the cluster names no file of the host".to_owned();
                    return refuse(
                        &field,
                        reason,
                        "put the configuration into a ConfigMap or Secret of the namespace",
                    );
                }
                ConfigFrom::Secret(object) | ConfigFrom::ConfigMap(object) => {
                    if object.namespace != namespace {
                        let reason = format!("namespace {:?} is not that of the Plugin", object.namespace);
                        let remedy = format!("name an object of namespace {namespace:?}");
                        return refuse(&format!("{field}.namespace"), reason, &remedy);
                    }
                }
            }
        }
        if let Some((entry, what)) = self.outgoing_hosts.special() {
            let reason = format!("{:?} is {what}, which belongs to the host", entry.to_string());
            let remedy =
                "name a Service or a host outside; a plugin of the plugin directory may name such addresses";
            return refuse("spec.outgoingHosts", reason, remedy);
        }
        Ok(())
    }
}

fn refuse(field: &str, reason: String, remedy: &str) -> Result<(), ManifestError> {
    Err(ManifestError::Field { at: None, field: field.to_owned(), reason, remedy: remedy.to_owned() })
}

/// A text as JSON.
fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
