//! [`PluginObjects`]: the Plugins of the cluster as a source of plugins, beside the plugin directory.
//!
//! ```text
//!  informers of plugins.pilothouse.dev ─► keys that changed ─► admission: manifest, what a Plugin may name ─► changes
//!                    ▲                                              │
//!                    └── status.rs, writer.rs ◄── admissions ◄──────┘
//! ```
//!
//! Invariants: a Plugin is reported when its `metadata` and `spec` say something else than before, and not for a
//! change of its status; one that is refused leaves the version before in place, unless that was another object of
//! the name. The component is fetched by the load, not here.

pub(crate) mod status;
pub(crate) mod writer;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_cache::{CacheError, InformerLease, Listener, Registration, SharedInformerFactory};
use pilothouse_client::ApiResource;
use pilothouse_object::{Gvk, Object, ObjectKey};
use pilothouse_plugin::directory::{Files, Places, digest_of};
use pilothouse_plugin::{AllowLists, Ceilings, ComponentHosts, HOME_CLUSTER, Manifest};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;

#[cfg(feature = "oci")]
use crate::lifecycle::component_fetch::SignaturePolicy;
use crate::lifecycle::component_store::ComponentStore;

/// How the Plugins of the cluster are followed.
#[derive(Debug, Clone)]
pub struct PluginObjectsOptions {
    /// The namespaces whose Plugins count; none: those of all.
    pub namespaces: Option<BTreeSet<String>>,
    /// The folder of their components. It is private to the host.
    pub components: PathBuf,
    /// The hosts from which components are fetched.
    pub component_hosts: ComponentHosts,
    /// Which signatures components have to have; none: no signature is looked at.
    #[cfg(feature = "oci")]
    pub signatures: Option<SignaturePolicy>,
}

impl PluginObjectsOptions {
    /// The options with the fields that a host needs; those of features are off.
    #[must_use]
    pub fn new(
        namespaces: Option<BTreeSet<String>>,
        components: PathBuf,
        component_hosts: ComponentHosts,
    ) -> Self {
        Self {
            namespaces,
            components,
            component_hosts,
            #[cfg(feature = "oci")]
            signatures: None,
        }
    }

    /// Opens the folder of components.
    ///
    /// # Errors
    /// When it cannot be made, or others have access to it.
    pub(crate) fn open_store(&self) -> Result<ComponentStore, String> {
        let store = ComponentStore::open(self.components.clone())?;
        #[cfg(feature = "oci")]
        if let Some(SignaturePolicy { keys, required: true }) = &self.signatures {
            return Ok(store.signed_by(&keys.fingerprint()));
        }
        Ok(store)
    }
}

/// A change of the Plugins of the cluster.
#[derive(Debug)]
pub(crate) enum ObjectChange {
    /// A Plugin is new, or another one than before.
    Changed(Files),
    /// A Plugin is refused.
    Refused { name: String, message: String },
    /// A Plugin is gone.
    Removed { name: String },
    /// All Plugins that existed at the start have been reported. Reported once.
    Synced,
}

/// What was decided about one version of a Plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Admission {
    /// `metadata.generation` of the version.
    pub(crate) generation: i64,
    /// Digest of the manifest's text, or why it is refused.
    pub(crate) outcome: Result<String, String>,
}

/// The Plugins of the cluster and what was decided about them; a cheap clone.
#[derive(Clone)]
pub(crate) struct PluginTable(Arc<Table>);

struct Table {
    leases: Vec<InformerLease>,
    admissions: Mutex<BTreeMap<String, Admission>>,
}

/// The source.
pub(crate) struct PluginObjects {
    table: PluginTable,
    changed: Arc<ChangedKeys>,
    _registrations: Vec<Registration>,
    /// UID and digest of the text of each Plugin that was looked at.
    known: HashMap<ObjectKey, (String, String)>,
    synced: bool,
    ceilings: Ceilings,
    allowed: AllowLists,
    /// The names of the clusters of the host, but for the home cluster.
    clusters: BTreeSet<String>,
    store: Arc<ComponentStore>,
}

/// Why a manifest that names this cluster in `spec.clusters` cannot be run there; the host has `others` beside the home cluster.
pub(crate) fn no_cluster<'a>(name: &str, others: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = std::iter::once(HOME_CLUSTER).chain(others).collect();
    let names = names.join(", ");
    format!("spec.clusters: the host has no cluster {name:?}, it has: {names}; name it in --clusters")
}

/// The resource.
pub(crate) fn plugins() -> ApiResource {
    ApiResource::new(Gvk::new("pilothouse.dev", "v1alpha1", "Plugin"), "plugins", true)
}

impl PluginObjects {
    /// Begins to follow the Plugins of these namespaces; `clusters` are those of the host beside the home cluster.
    ///
    /// # Errors
    /// When the informers have ended.
    pub(crate) fn start(
        factory: &SharedInformerFactory,
        namespaces: Option<&BTreeSet<String>>,
        ceilings: Ceilings,
        allowed: AllowLists,
        clusters: BTreeSet<String>,
        store: Arc<ComponentStore>,
    ) -> Result<Self, CacheError> {
        let scopes: Vec<Option<&str>> = match namespaces {
            None => vec![None],
            Some(names) => names.iter().map(|name| Some(name.as_str())).collect(),
        };
        let leases: Vec<_> =
            scopes.into_iter().map(|namespace| factory.informer(&plugins(), namespace)).collect();
        let changed = Arc::new(ChangedKeys::default());
        let listen = |lease: &InformerLease| lease.add_listener(Arc::clone(&changed) as _, None);
        let registrations = leases.iter().map(listen).collect::<Result<_, _>>()?;
        Ok(Self {
            table: PluginTable(Arc::new(Table { leases, admissions: Mutex::default() })),
            changed,
            _registrations: registrations,
            known: HashMap::new(),
            synced: false,
            ceilings,
            allowed,
            clusters,
            store,
        })
    }

    /// The Plugins, and what was decided about them.
    pub(crate) fn table(&self) -> PluginTable {
        self.table.clone()
    }

    /// Waits for the next changes, at least one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Vec<ObjectChange> {
        loop {
            let first_lists = async {
                for lease in &self.table.0.leases {
                    lease.wait_synced().await;
                }
            };
            let has_synced = tokio::select! {
                biased;
                () = first_lists, if !self.synced => true,
                () = self.changed.notify.notified() => false,
            };
            let mut changes = self.take();
            if has_synced {
                self.synced = true;
                changes.push(ObjectChange::Synced);
            }
            if !changes.is_empty() {
                return changes;
            }
        }
    }

    fn take(&mut self) -> Vec<ObjectChange> {
        let keys = std::mem::take(&mut *self.changed.keys.lock());
        keys.into_iter().flat_map(|key| self.look(key)).collect()
    }

    /// What is new about a Plugin. One that was deleted and made again is another one, also if it says the same: other hosts may
    /// have seen that there was none.
    fn look(&mut self, key: ObjectKey) -> Vec<ObjectChange> {
        let name = key.to_string();
        let before = self.known.remove(&key);
        let object = self.table.object(&key);
        let mut changes = Vec::new();
        if let Some((uid, _)) = &before
            && object.as_ref().is_none_or(|object| object.uid() != uid)
        {
            changes.push(ObjectChange::Removed { name: name.clone() });
        }
        let Some(object) = object else {
            self.table.0.admissions.lock().remove(&name);
            return changes;
        };
        let (generation, text) = version_of(&key, &object);
        let digest = digest_of(text.as_bytes());
        let known = (object.uid().to_owned(), digest.clone());
        let is_known = before.as_ref() == Some(&known);
        self.known.insert(key, known);
        if is_known {
            // A change that was taken back counts as a generation.
            if let Some(admission) = self.table.0.admissions.lock().get_mut(&name) {
                admission.generation = generation;
            }
            return changes;
        }
        let admitted = self.admit(&name, digest.clone(), &text);
        let outcome = admitted.as_ref().map(|_| digest).map_err(Clone::clone);
        self.table.0.admissions.lock().insert(name.clone(), Admission { generation, outcome });
        changes.push(match admitted {
            Ok(files) => ObjectChange::Changed(files),
            Err(reason) => ObjectChange::Refused { message: format!("Plugin {name}: {reason}"), name },
        });
        changes
    }

    fn admit(&self, name: &str, manifest_digest: String, text: &str) -> Result<Files, String> {
        let manifest = Manifest::of_object(text, &self.ceilings).map_err(|error| error.to_string())?;
        self.allowed.check(&manifest)?;
        self.allowed.check_clusters(&manifest, false)?;
        let is_absent = |name: &&String| *name != HOME_CLUSTER && !self.clusters.contains(*name);
        if let Some(absent) = manifest.clusters.iter().find(is_absent) {
            return Err(no_cluster(absent, self.clusters.iter().map(String::as_str)));
        }
        let (namespace, _) = name.split_once('/').unwrap_or_default();
        // A manifest of an object has both.
        let digest = manifest.source.digest.clone().unwrap_or_default();
        let place = manifest.source.remote.as_ref().map(pilothouse_plugin::RemoteComponent::place);
        Ok(Files {
            name: name.to_owned(),
            wasm_path: self.store.path(namespace, &digest),
            digest,
            places: Places {
                component: format!("Plugin {name}, {}", place.unwrap_or_default()),
                manifest: Some(format!("Plugin {name}")),
            },
            manifest_digest,
            manifest: Arc::new(manifest),
        })
    }
}

impl PluginTable {
    /// A Plugin as it is now.
    pub(crate) fn object(&self, key: &ObjectKey) -> Option<Object> {
        let mut leases = self.0.leases.iter().filter(|lease| lease.id().covers(key));
        leases.find_map(|lease| lease.indexer().get(key))
    }

    /// What was decided about all Plugins, by their names.
    pub(crate) fn admissions(&self) -> Vec<(String, Admission)> {
        let admissions = self.0.admissions.lock();
        admissions.iter().map(|(name, admission)| (name.clone(), admission.clone())).collect()
    }

    /// Why the Plugins have not been listed yet; none once they have.
    pub(crate) fn why_unlisted(&self) -> Option<String> {
        let lease = self.0.leases.iter().find(|lease| !lease.has_synced())?;
        self.why_refused().or_else(|| {
            Some(match lease.status().reflector.last_error {
                Some(error) => format!("the Plugins of the cluster cannot be listed: {error}"),
                None => "listing the Plugins of the cluster".to_owned(),
            })
        })
    }

    /// Why the API server refuses to list Plugins that have not been listed yet, with the remedy; none where it does not.
    pub(crate) fn why_refused(&self) -> Option<String> {
        let unlisted = self.0.leases.iter().filter(|lease| !lease.has_synced());
        let mut errors = unlisted.filter_map(|lease| lease.status().reflector.last_error);
        errors.find_map(|error| match error {
            error if error.is_not_found() => Some(
                "the cluster has no kind Plugin of pilothouse.dev; run `pilothouse crd --plugins | kubectl apply -f -`"
                    .to_owned(),
            ),
            error if error.is_forbidden() => {
                Some(format!("{error}; grant what `pilothouse rbac --plugins-from-cluster` prints"))
            }
            _ => None,
        })
    }
}

/// `metadata.generation` of a Plugin, and the text of the manifest that it stands for.
fn version_of(key: &ObjectKey, object: &Object) -> (i64, String) {
    #[derive(Deserialize)]
    struct Version<'a> {
        metadata: Metadata,
        #[serde(borrow)]
        spec: Option<&'a RawValue>,
    }
    #[derive(Default, Deserialize)]
    struct Metadata {
        #[serde(default)]
        generation: i64,
    }
    // The cache has JSON from the API server. What is not JSON is refused as a manifest.
    let version: Result<Version<'_>, _> = serde_json::from_slice(object.bytes());
    let (generation, spec) = version.map_or((0, None), |version| (version.metadata.generation, version.spec));
    (generation, Manifest::text_of_object(key.namespace().unwrap_or_default(), key.name(), spec))
}

/// The Plugins that changed since they were looked at.
#[derive(Default)]
struct ChangedKeys {
    keys: Mutex<HashSet<ObjectKey>>,
    notify: Notify,
}

impl ChangedKeys {
    fn add(&self, key: ObjectKey) {
        self.keys.lock().insert(key);
        self.notify.notify_one();
    }
}

impl Listener for ChangedKeys {
    fn on_add(&self, object: &Object, _is_in_initial_list: bool) {
        self.add(object.key().clone());
    }

    fn on_update(&self, _old: &Object, new: &Object, _is_sync: bool) {
        self.add(new.key().clone());
    }

    fn on_delete(&self, key: &ObjectKey, _object: Option<&Object>, _final_state_unknown: bool) {
        self.add(key.clone());
    }
}

#[cfg(test)]
mod tests;
