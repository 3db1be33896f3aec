//! The steps of a load between the resolved kinds and the switch: lease the informers, build the indexes, wait for the
//! first lists.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_client::ApiResource;
use pilothouse_object::{Gvk, Projection};
use pilothouse_plugin::{DataLimits, Description, Grants, Unwatchable, WatchScope};

use crate::access::KindRights;
use crate::imports::plugin_imports::{KindView, PluginImports};
use crate::lifecycle::load::Loader;
use crate::lifecycle::plugin::Plugin;
use crate::lifecycle::shared_indexes::IndexUser;
use crate::lifecycle::state::LoadWait;
use crate::observe::warnings::Warnings;

/// How often a load that waits for a first list updates the reason in the status.
const WAITING_REASON_PERIOD: Duration = Duration::from_millis(500);

impl Loader {
    /// Leases the informers that the watches need, and builds their indexes.
    pub(crate) async fn lease_informers(
        &self,
        plugin: &Plugin,
        load: &Leasing<'_>,
        resources: &HashMap<Gvk, ApiResource>,
    ) -> Result<HashMap<Gvk, KindView>, String> {
        let mut kinds = HashMap::new();
        let mut informers = 0;
        for (kind, resource) in resources {
            let scopes = load.scopes(kind, resource).map_err(|e| e.to_string())?;
            informers += scopes.len();
            if informers > load.data.informers {
                return Err(Unwatchable::TooMany { count: informers, most: load.data.informers }.to_string());
            }
            let projection = load.description.kept_fields(kind).map_or_else(Projection::full, Projection::of);
            let leases = scopes.iter().map(|scope| {
                let namespace = scope.namespace.as_deref();
                match &scope.name {
                    Some(name) => self.factory.named_informer(resource, namespace, name, &projection),
                    None => self.factory.projected_informer(resource, namespace, &projection),
                }
            });
            let rights = load.rights.get(kind).cloned().unwrap_or_default();
            kinds.insert(kind.clone(), KindView::new(leases.collect(), load.grants, rights));
        }
        for index in &load.description.indexes {
            // The description was refused otherwise.
            let Some(view) = kinds.get_mut(&index.kind) else { continue };
            let user = Arc::new(IndexUser {
                account: plugin.metrics().host_time.clone(),
                warnings: Arc::clone(load.warnings),
                subject: format!("index {} of {}", index.name, index.kind),
                limits: load.data,
            });
            let mut leases = Vec::with_capacity(view.leases.len());
            for informer in &view.leases {
                let lease = self.indexes.lease(informer.indexer(), index, &user).await;
                leases.push(lease.map_err(|e| e.to_string())?);
            }
            view.indexes.insert(index.name.clone(), leases);
        }
        Ok(kinds)
    }
}

/// The generation for which informers are leased.
pub(crate) struct Leasing<'a> {
    pub(crate) description: &'a Description,
    pub(crate) grants: &'a Grants,
    pub(crate) data: DataLimits,
    pub(crate) warnings: &'a Arc<Warnings>,
    /// What the ServiceAccount of the plugin may do, by kind; everything without one.
    pub(crate) rights: HashMap<Gvk, KindRights>,
}

impl Leasing<'_> {
    /// The scopes of the informers of a kind.
    pub(super) fn scopes(&self, kind: &Gvk, resource: &ApiResource) -> Result<Vec<WatchScope>, Unwatchable> {
        let ApiResource { plural, namespaced, .. } = resource;
        self.description.watch_scopes(kind, plural, *namespaced, self.grants, self.data.informers)
    }
}

/// Waits until all caches have their first list, and shows the reason while it takes long. `false` when the host shuts down.
pub(super) async fn wait_for_caches<'a>(plugin: &Plugin, kinds: impl Iterator<Item = &'a KindView>) -> bool {
    for lease in kinds.flat_map(|view| &view.leases) {
        loop {
            tokio::select! {
                synced = lease.wait_synced() => {
                    if !synced {
                        return false;
                    }
                    break;
                }
                () = tokio::time::sleep(WAITING_REASON_PERIOD) => {
                    let resource = lease.resource().gvr();
                    let error = lease.status().reflector.last_error;
                    // It may take long until somebody grants a permission, or installs the kind.
                    let may_be_long = error.as_ref().is_some_and(|e| e.is_forbidden() || e.is_not_found());
                    let why = error.map_or_else(|| "still listing".to_owned(), |e| e.to_string());
                    let reason = format!("waiting for the first list of {resource}: {why}");
                    plugin.load_waits(Some(LoadWait { reason, may_be_long, next_try: None }));
                }
            }
        }
    }
    true
}

/// Why the server refuses a watch of a running generation: a permission of the host or of the plugin's ServiceAccount was
/// revoked, or the kind removed.
pub(super) fn refused_watch(imports: &PluginImports) -> Option<String> {
    let views = || imports.kinds.get().into_iter().flatten();
    if let Some(why) = views().find_map(|(_, view)| view.watch_rights().refusal(None)) {
        return Some(why);
    }
    views().flat_map(|(_, view)| &view.leases).find_map(|lease| {
        let error = lease.status().reflector.last_error?;
        let refused = error.is_forbidden() || error.is_not_found();
        refused.then(|| format!("cannot watch {}: {error}", lease.resource().gvr()))
    })
}

#[cfg(test)]
mod tests;
