//! The steps of a load between the description and the switch: resolve the watched kinds, lease their informers, build the
//! indexes, wait for the first lists.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use pilothouse_cache::{IndexFn, InformerLease};
use pilothouse_client::ApiResource;
use pilothouse_object::{Gvk, Projection};
use pilothouse_plugin::{Access, Description, Grants, IndexSource, IndexSpec, Place, Scope};

use crate::imports::plugin_imports::KindView;
use crate::lifecycle::config_sources::MergedConfig;
use crate::lifecycle::load::Loader;
use crate::lifecycle::plugin::Plugin;

/// First and longest wait before the API server is asked again.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How often a load that waits for a first list updates the reason in the status.
const WAITING_REASON_PERIOD: Duration = Duration::from_millis(500);

impl Loader {
    /// Asks the server for the resources of the watched kinds, until it answers for all.
    pub(super) async fn resolve_kinds(
        &self,
        plugin: &Plugin,
        description: &Description,
        config: &MergedConfig,
    ) -> HashMap<Gvk, ApiResource> {
        let mut resources = HashMap::new();
        for watch in &description.watches {
            let mut wait = RETRY.0;
            while !resources.contains_key(&watch.kind) {
                let permit = self.factory.availability().enter().await;
                let answer = self.client.discover(&watch.kind).await;
                permit.settle(answer.as_ref().is_err_and(pilothouse_client::Error::is_connection_refused));
                match answer {
                    Ok(resource) => {
                        resources.insert(watch.kind.clone(), resource);
                    }
                    Err(error) => {
                        let message = config.hide(format!("cannot watch {}: {error}; retrying", watch.kind));
                        tracing::warn!(event = "plugin_waiting", plugin = &**plugin.name(), "{message}");
                        plugin.set_error(Some(message));
                        tokio::time::sleep(wait.mul_f64(rand::random_range(0.8..1.2))).await;
                        wait = (wait * 2).min(RETRY.1);
                    }
                }
            }
        }
        resources
    }

    /// Leases the informers that the watches need, and builds their indexes.
    pub(crate) fn lease_informers(
        &self,
        plugin: &Plugin,
        number: u64,
        description: &Description,
        resources: &HashMap<Gvk, ApiResource>,
        grants: &Grants,
    ) -> Result<HashMap<Gvk, KindView>, String> {
        let mut kinds = HashMap::new();
        for (kind, resource) in resources {
            let lease = self.lease_informer(kind, resource, description, grants)?;
            kinds.insert(kind.clone(), KindView::new(lease, grants));
        }
        for index in &description.indexes {
            // The description was refused otherwise.
            let Some(view) = kinds.get_mut(&index.kind) else { continue };
            // Private to this generation: the next one may use the name for another function.
            let name = format!("{}@{number}/{}", plugin.name(), index.name);
            view.lease.indexer().add_indexer(&name, index_function(index)).map_err(|e| e.to_string())?;
            view.indexes.insert(index.name.clone(), name);
        }
        Ok(kinds)
    }

    fn lease_informer(
        &self,
        kind: &Gvk,
        resource: &ApiResource,
        description: &Description,
        grants: &Grants,
    ) -> Result<InformerLease, String> {
        let mut namespaces = BTreeSet::new();
        for watch in description.watches.iter().filter(|watch| watch.kind == *kind) {
            namespaces.extend(watched_namespaces(
                grants,
                resource,
                watch.namespaces.as_deref().unwrap_or_default(),
            )?);
        }
        let namespace = match namespaces.iter().collect::<Vec<_>>().as_slice() {
            [Some(namespace)] => Some(namespace.as_str()),
            // Several: one watch of all namespaces, filtered on the way to the plugin.
            _ => None,
        };
        Ok(match description.kept_fields(kind) {
            Some(fields) => self.factory.projected_informer(resource, namespace, &Projection::of(fields)),
            None => self.factory.informer(resource, namespace),
        })
    }
}

/// Waits until all caches have their first list, and shows the reason while it takes long. `false` when the host shuts down.
pub(super) async fn wait_for_caches<'a>(plugin: &Plugin, kinds: impl Iterator<Item = &'a KindView>) -> bool {
    for view in kinds {
        loop {
            tokio::select! {
                synced = view.lease.wait_synced() => {
                    if !synced {
                        return false;
                    }
                    break;
                }
                () = tokio::time::sleep(WAITING_REASON_PERIOD) => {
                    let resource = view.lease.resource().gvr();
                    let error = view.lease.status().reflector.last_error;
                    let why = error.map_or_else(|| "still listing".to_owned(), |e| e.to_string());
                    plugin.set_error(Some(format!("waiting for the first list of {resource}: {why}")));
                }
            }
        }
    }
    true
}

fn index_function(index: &IndexSpec) -> IndexFn {
    let mut function = match &index.source {
        IndexSource::Path(path) => IndexFn::path(path.clone()),
        IndexSource::Label(name) => IndexFn::label(name),
        IndexSource::Owner => IndexFn::owner_uid(),
    };
    if let Some(path) = &index.only_where {
        function = function.where_present(path.clone());
    }
    if let Some(separator) = &index.split {
        function = function.split(separator);
    }
    function
}

/// The namespaces that a watch covers (`None`: all of them, or the cluster), if the grants allow it.
fn watched_namespaces(
    grants: &Grants,
    resource: &ApiResource,
    wanted: &[String],
) -> Result<Vec<Option<String>>, String> {
    let (group, plural) = (resource.gvk.group.as_str(), resource.plural.as_str());
    let mut covered: Option<Vec<Option<String>>> = None;
    for verb in ["list", "watch"] {
        let refuse = |place| {
            let access = Access { verb, group, resource: plural, subresource: None, place, name: None };
            grants.check(&access).err().map_or_else(String::new, |missing| missing.to_string())
        };
        let scope = match grants.scope(verb, group, plural, resource.namespaced) {
            Scope::All => wanted.iter().cloned().map(Some).collect(),
            Scope::None => {
                let everywhere = if resource.namespaced { Place::AllNamespaces } else { Place::Cluster };
                return Err(refuse(wanted.first().map_or(everywhere, |ns| Place::Namespace(ns))));
            }
            Scope::Some(namespaces) if wanted.is_empty() => namespaces.into_iter().map(Some).collect(),
            Scope::Some(namespaces) => {
                if let Some(outside) = wanted.iter().find(|ns| !namespaces.contains(ns)) {
                    return Err(refuse(Place::Namespace(outside)));
                }
                wanted.iter().cloned().map(Some).collect::<Vec<_>>()
            }
        };
        let scope = if scope.is_empty() { vec![None] } else { scope };
        covered = Some(match covered {
            // The scope of `list` counts, unless it is everything.
            Some(listed) if listed != [None] => listed,
            _ => scope,
        });
    }
    Ok(covered.unwrap_or_default())
}

#[cfg(test)]
mod tests;
