//! [`Manifest`]: the YAML file with which an operator names and configures a plugin, grants it permissions and limits
//! it.
//!
//! Parsing is strict: an unknown field, a wrong type or a value out of range rejects the whole manifest, because an
//! ignored misspelt limit or permission would be noticed too late. `docs/manifest.md` is the description for operators.
//!
//! Called by [`crate::directory`]; the caller prefixes an error with the name of the file.

mod config_from;
mod error;
mod object;
mod remote_clusters;
mod source;

use std::fmt;

use pilothouse_object::is_dns_subdomain;
use serde::Deserialize;
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use self::config_from::ConfigFromText;
pub use self::config_from::{ConfigFrom, ObjectReference};
pub use self::error::{ManifestError, Position};
pub use self::remote_clusters::RemoteClusters;
use self::remote_clusters::RemoteClustersText;
use self::source::{Home, SourceText};
pub use self::source::{OciComponent, RemoteComponent, Source};
use crate::clusters;
use crate::grants::Rule;
use crate::limits::{AskedLimits, Ceilings, PluginLimits};
use crate::outgoing_hosts::{OutgoingHost, OutgoingHostError, OutgoingHosts};
use crate::yaml::{known, read};

/// A parsed and validated manifest.
#[derive(Clone, PartialEq)]
pub struct Manifest {
    /// The plugin's name, unique on the host: a DNS label, or `NAMESPACE/NAME` where the manifest has a namespace.
    pub name: String,
    /// Where the component is.
    pub source: Source,
    /// The clusters that the plugin runs in, by name; the home cluster alone if it is empty.
    pub clusters: Vec<String>,
    /// The configuration in the manifest. The sources in `config_from` are merged over it.
    pub config: Map<String, Value>,
    /// Additional sources of the configuration; later entries take precedence.
    pub config_from: Vec<ConfigFrom>,
    /// The ServiceAccount of live calls; the host's own identity when absent.
    pub service_account: Option<NamespacedName>,
    /// The granted permissions, in the cluster of each run. Everything else is denied.
    pub permissions: Vec<Rule>,
    /// Other clusters that each run may access with live calls, and the permissions there.
    pub remote_clusters: Vec<RemoteClusters>,
    /// The hosts that the plugin may call over HTTP.
    pub outgoing_hosts: OutgoingHosts,
    /// Treatment of the keys when a new generation replaces the plugin.
    pub on_reload: OnReload,
    /// Whether a version that faults in its first calls is replaced by the last good one.
    pub rollback: RollbackPolicy,
    /// The limits of the plugin.
    pub limits: PluginLimits,
}

/// A ServiceAccount of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespacedName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// Treatment of a plugin's keys when a new generation starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnReload {
    /// Every key of the watches is reconciled once.
    #[default]
    Resync,
    /// The queue is kept unchanged.
    Keep,
}

/// Whether a version that faults in its first calls is replaced by the last good one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RollbackPolicy {
    /// It is, but never by a component of another digest than `spec.source.digest`.
    #[default]
    OnFault,
    /// It stays.
    Never,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Document {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    metadata: Metadata,
    #[serde(default)]
    spec: Option<Spec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    name: Spanned<String>,
    namespace: Option<Spanned<String>>,
}

impl Metadata {
    /// The name of the plugin.
    fn plugin_name(self) -> Result<String, ManifestError> {
        let Self { name, namespace } = self;
        let parts = [("metadata.namespace", namespace.as_ref()), ("metadata.name", Some(&name))];
        for (field, part) in parts.into_iter().filter_map(|(field, part)| Some((field, part?))) {
            if !is_dns_label(&part.value) {
                let reason = format!("{:?} is not a DNS label", part.value);
                return Err(refused(part, field, reason, DNS_LABEL));
            }
        }
        Ok(match namespace {
            Some(namespace) => format!("{}/{}", namespace.value, name.value),
            None => name.value,
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spec {
    source: Option<SourceText>,
    clusters: Option<Vec<Spanned<String>>>,
    config: Option<Map<String, Value>>,
    config_from: Option<Vec<Spanned<ConfigFromText>>>,
    service_account: Option<Spanned<NamespacedName>>,
    permissions: Option<Vec<Spanned<Rule>>>,
    remote_clusters: Option<Vec<Spanned<RemoteClustersText>>>,
    outgoing_hosts: Option<Vec<Spanned<String>>>,
    on_reload: Option<OnReload>,
    rollback: Option<RollbackPolicy>,
    limits: Option<AskedLimits>,
}

impl Manifest {
    /// Parses and validates a manifest, without ceilings of a host.
    ///
    /// # Errors
    /// When a field is unknown, or a value is malformed or out of range.
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        Self::parse_within(text, &Ceilings::default())
    }

    /// Parses and validates a manifest on a host with these ceilings.
    ///
    /// # Errors
    /// When a field is unknown, or a value is malformed, out of range, or wider than its ceiling.
    pub fn parse_within(text: &[u8], ceilings: &Ceilings) -> Result<Self, ManifestError> {
        Self::parse_from(text, ceilings, Home::Directory)
    }

    fn parse_from(text: &[u8], ceilings: &Ceilings, home: Home) -> Result<Self, ManifestError> {
        let document: Document = read(text, "Plugin", "or move the file out of the plugin directory")?;
        let name = document.metadata.plugin_name()?;
        let spec = document.spec.unwrap_or_default();
        Ok(Self {
            name,
            source: spec.source.unwrap_or_default().check(home)?,
            clusters: clusters::check(spec.clusters.unwrap_or_default())?,
            config: spec.config.unwrap_or_default(),
            config_from: config_from::check(spec.config_from.unwrap_or_default())?,
            service_account: spec.service_account.map(service_account).transpose()?,
            permissions: rules("spec.permissions", &spec.permissions.unwrap_or_default())?,
            remote_clusters: remote_clusters::check(spec.remote_clusters.unwrap_or_default())?,
            outgoing_hosts: each(&spec.outgoing_hosts.unwrap_or_default(), |index, entry| {
                entry.value.parse::<OutgoingHost>().map_err(|error| {
                    let field = format!("spec.outgoingHosts[{index}]");
                    refused(entry, &field, error.to_string(), OutgoingHostError::REMEDY)
                })
            })?
            .into_iter()
            .collect(),
            on_reload: spec.on_reload.unwrap_or_default(),
            rollback: spec.rollback.unwrap_or_default(),
            limits: ceilings.apply(&spec.limits.unwrap_or_default())?,
        })
    }

    /// The manifest of a component without a file: no grants, no configuration, the default limits. The name is the
    /// file name without `.wasm`, in lower case and with `-` instead of the `_` that Cargo writes.
    ///
    /// # Errors
    /// When that name is not a DNS label.
    pub fn bare(stem: &str) -> Result<Self, ManifestError> {
        Self::bare_within(stem, &Ceilings::default())
    }

    /// As [`bare`](Self::bare), on a host with these ceilings.
    ///
    /// # Errors
    /// When that name is not a DNS label.
    pub fn bare_within(stem: &str, ceilings: &Ceilings) -> Result<Self, ManifestError> {
        let name = stem.to_lowercase().replace('_', "-");
        if !is_dns_label(&name) {
            return Err(ManifestError::Field {
                at: None,
                field: "the plugin's name".into(),
                reason: format!("{name:?}, taken from the file's, is not a DNS label"),
                remedy: format!(
                    "rename the file ({DNS_LABEL}), or put a manifest beside it that names the plugin"
                ),
            });
        }
        Ok(Self {
            name,
            source: Source::default(),
            clusters: Vec::new(),
            config: Map::new(),
            config_from: Vec::new(),
            service_account: None,
            permissions: Vec::new(),
            remote_clusters: Vec::new(),
            outgoing_hosts: OutgoingHosts::default(),
            on_reload: OnReload::default(),
            rollback: RollbackPolicy::default(),
            limits: ceilings.defaults(),
        })
    }

    /// Whether the plugin runs in a cluster of this name.
    #[must_use]
    pub fn runs_in(&self, cluster: &str) -> bool {
        self.clusters.iter().any(|name| name == cluster)
            || (self.clusters.is_empty() && cluster == clusters::HOME_CLUSTER)
    }

    /// The manifest of the run in one of its clusters: if it names any, `$(cluster)` in strings of the configuration is the
    /// name of the cluster.
    #[must_use]
    pub fn in_cluster(&self, cluster: &str) -> Self {
        let mut manifest = self.clone();
        if !manifest.clusters.is_empty() {
            manifest.config.values_mut().for_each(|value| clusters::fill_in(value, cluster));
        }
        manifest
    }
}

/// Omits the values of the configuration, which may be secret.
impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manifest")
            .field("name", &self.name)
            .field("source", &self.source)
            .field("clusters", &self.clusters)
            .field("config", &self.config.keys().collect::<Vec<_>>())
            .field("config_from", &self.config_from)
            .field("service_account", &self.service_account)
            .field("permissions", &self.permissions)
            .field("remote_clusters", &self.remote_clusters)
            .field("outgoing_hosts", &self.outgoing_hosts)
            .field("on_reload", &self.on_reload)
            .field("rollback", &self.rollback)
            .field("limits", &self.limits)
            .finish()
    }
}

fn service_account(account: Spanned<NamespacedName>) -> Result<NamespacedName, ManifestError> {
    // Both become part of a user name that is sent to the server, so they must be valid names.
    let parts = [
        ("namespace", is_dns_label(&account.value.namespace)),
        ("name", is_dns_subdomain(&account.value.name)),
    ];
    if let Some((part, _)) = parts.iter().find(|(_, good)| !good) {
        let field = format!("spec.serviceAccount.{part}");
        let remedy = "name a ServiceAccount of the cluster by its namespace and name";
        return Err(refused(&account, &field, "it is not a name of Kubernetes".into(), remedy));
    }
    Ok(account.value)
}

impl NamespacedName {
    /// The user name of the ServiceAccount in Kubernetes.
    #[must_use]
    pub fn service_account_user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// The groups that the API server itself gives the ServiceAccount.
    #[must_use]
    pub fn service_account_groups(&self) -> Vec<String> {
        vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
            "system:authenticated".to_owned(),
        ]
    }
}

pub(crate) const DNS_LABEL: &str =
    "use lower-case letters, digits and \"-\", 63 at most, with a letter or digit at both ends";

/// Whether a text is a DNS label (RFC 1123), with the rules of Kubernetes.
pub(crate) fn is_dns_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Checks the rules of a list, which is in this field.
fn rules(field: &str, list: &[Spanned<Rule>]) -> Result<Vec<Rule>, ManifestError> {
    each(list, |index, rule| {
        rule.value.check().map(|()| rule.value.clone()).map_err(|error| {
            refused(rule, &format!("{field}[{index}].{}", error.field), error.reason, error.remedy)
        })
    })
}

fn each<T, U>(
    list: &[T],
    mut check: impl FnMut(usize, &T) -> Result<U, ManifestError>,
) -> Result<Vec<U>, ManifestError> {
    // Without room to spare: it is kept for the life of the plugin.
    let mut checked = Vec::with_capacity(list.len());
    for (index, entry) in list.iter().enumerate() {
        checked.push(check(index, entry)?);
    }
    Ok(checked)
}

pub(crate) fn refused<T>(value: &Spanned<T>, field: &str, reason: String, remedy: &str) -> ManifestError {
    let at = known(value.referenced);
    ManifestError::Field { at, field: field.to_owned(), reason, remedy: remedy.to_owned() }
}

/// For errors whose text already contains the remedy after a semicolon.
pub(crate) fn malformed(
    value: &Spanned<String>,
    field: &str,
    error: &dyn std::error::Error,
) -> ManifestError {
    let text = error.to_string();
    let (reason, remedy) = text.rsplit_once("; ").unwrap_or((&text, "docs/manifest.md describes the field"));
    refused(value, field, reason.to_owned(), remedy)
}
