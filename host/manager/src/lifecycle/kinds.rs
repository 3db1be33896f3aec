//! The step of a load that finds the resources of the watched kinds, and waits for those that the server does not serve.
//!
//! A plugin may be installed before its CustomResourceDefinition. While a kind is missing, a watch on the names of
//! CustomResourceDefinitions tells of a new one at once; it is shared by all loads that wait, and ends with the last. Where
//! the host may not watch them, and for kinds of aggregated API servers, discovery is asked again after 30 seconds at most.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pilothouse_cache::{
    Backoff, InformerLease, Registration, ResourceEventHandlerFuncs, SharedInformerFactory,
};
use pilothouse_client::{ApiResource, Error};
use pilothouse_object::{Gvk, ObjectKey};
use pilothouse_plugin::Description;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::lifecycle::config_sources::MergedConfig;
use crate::lifecycle::load::Loader;
use crate::lifecycle::plugin::Plugin;
use crate::lifecycle::state::LoadWait;

/// First and longest pause before discovery is asked again; each is up to twice as long.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

impl Loader {
    /// Asks the server for the resources of the watched kinds, until it serves them all.
    pub(super) async fn resolve_kinds(
        &self,
        plugin: &Plugin,
        description: &Description,
        config: &MergedConfig,
    ) -> HashMap<Gvk, ApiResource> {
        let mut missing: BTreeSet<&Gvk> = description.watches.iter().map(|watch| &watch.kind).collect();
        let mut resources = HashMap::new();
        let mut backoff = pauses();
        let mut definitions: Option<DefinitionWatch> = None;
        let mut logged = None;
        loop {
            let answers = join_all(missing.iter().map(|kind| self.discover(kind))).await;
            let mut errors = Vec::new();
            for (kind, answer) in std::mem::take(&mut missing).into_iter().zip(answers) {
                match answer {
                    Ok(resource) => _ = resources.insert(kind.clone(), resource),
                    Err(error) => {
                        errors.push(error);
                        missing.insert(kind);
                    }
                }
            }
            let (Some(kind), Some(error)) = (missing.first(), errors.first()) else { return resources };
            let others = match missing.len() - 1 {
                0 => String::new(),
                others => format!(" (and {others} other kinds)"),
            };
            let reason = config.hide(format!("cannot watch {kind}{others}: {error}"));
            if logged.as_ref() != Some(&reason) {
                tracing::warn!(
                    event = "plugin_waiting",
                    plugin = &**plugin.name(),
                    "{reason}; the plugin waits for it"
                );
                logged = Some(reason.clone());
            }
            // A server that does not answer keeps the host from being ready, whatever its plugins are.
            let may_be_long = errors.iter().any(|error| error.status().is_some());
            if errors.iter().any(Error::is_not_found) {
                definitions.get_or_insert_with(|| {
                    DefinitionWatch::start(&self.factory, missing.iter().map(|kind| &kind.group))
                });
            }
            let next_try = Instant::now() + backoff.failure();
            plugin.load_waits(Some(LoadWait { reason, may_be_long, next_try: Some(next_try) }));
            tokio::select! {
                () = tokio::time::sleep_until(next_try) => {
                    definitions.iter_mut().for_each(DefinitionWatch::end_if_refused);
                }
                // It may be served a moment later.
                () = definition_changed(definitions.as_ref()) => backoff = pauses(),
            }
        }
    }

    async fn discover(&self, kind: &Gvk) -> Result<ApiResource, Error> {
        let permit = self.factory.availability().enter().await;
        let answer = self.client.discover(kind).await;
        permit.settle(answer.as_ref().is_err_and(Error::is_connection_refused));
        answer
    }
}

fn pauses() -> Backoff {
    Backoff::new(RETRY.0, RETRY.1, Duration::MAX)
}

/// A watch on the names of CustomResourceDefinitions of some API groups.
struct DefinitionWatch {
    changed: Arc<Notify>,
    /// None once the server refused the watch.
    informer: Option<(InformerLease, Option<Registration>)>,
}

impl DefinitionWatch {
    fn start<'a>(factory: &SharedInformerFactory, groups: impl Iterator<Item = &'a String>) -> Self {
        let changed = Arc::new(Notify::new());
        let groups: BTreeSet<String> = groups.filter(|group| !group.is_empty()).cloned().collect();
        if groups.is_empty() {
            return Self { changed, informer: None };
        }
        let (added, updated) = (Arc::clone(&changed), Arc::clone(&changed));
        let groups = Arc::new(groups);
        let groups_of_updated = Arc::clone(&groups);
        let listener = ResourceEventHandlerFuncs::new()
            .on_add(move |object, _| {
                if defines(object.key(), &groups) {
                    added.notify_one();
                }
            })
            .on_update(move |_, object| {
                if defines(object.key(), &groups_of_updated) {
                    updated.notify_one();
                }
            });
        let kind = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let resource = ApiResource::new(kind, "customresourcedefinitions", false);
        let lease = factory.metadata_informer(&resource, None);
        // Refused by a host that shuts down only.
        let registration = lease.add_listener(Arc::new(listener), None).ok();
        Self { changed, informer: Some((lease, registration)) }
    }

    /// Waits until a definition of one of the groups came or changed. Cancel-safe.
    async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Gives the watch up if the host may not watch definitions, so that the server is not asked again and again.
    fn end_if_refused(&mut self) {
        let refused = |lease: &InformerLease| {
            let error = lease.status().reflector.last_error;
            error.is_some_and(|error| error.is_forbidden() || error.is_not_found())
        };
        if self.informer.as_ref().is_some_and(|(lease, _)| refused(lease)) {
            self.informer = None;
        }
    }
}

/// Waits for a change that the watch tells, if there is one. Cancel-safe.
async fn definition_changed(watch: Option<&DefinitionWatch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

/// Whether a definition is of one of these groups: its name is `PLURAL.GROUP`.
fn defines(definition: &ObjectKey, groups: &BTreeSet<String>) -> bool {
    definition.name().split_once('.').is_some_and(|(_, group)| groups.contains(group))
}

#[cfg(test)]
mod tests;
