//! The step of a load that waits until the plugin's ServiceAccount may read what the plugin watches.
//!
//! Nothing is listed for the plugin before: an account that may not read secrets brings no secret into the host's memory.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pilothouse_client::ApiResource;
use pilothouse_object::Gvk;
use pilothouse_plugin::{NamespacedName, WatchScope};

use crate::access::{Answer, KindRights, Question, Review, Rights, ScopeRight};
use crate::lifecycle::informers::Leasing;
use crate::lifecycle::load::{LoadFailure, Loader, Refused};
use crate::lifecycle::plugin::Plugin;
use crate::lifecycle::state::LoadWait;

impl Loader {
    /// Waits until the account may list and watch each kind wherever an informer of the plugin needs it, and the server has
    /// said whether it may get the objects.
    pub(crate) async fn await_rights(
        &self,
        plugin: &Plugin,
        account: &NamespacedName,
        leasing: &Leasing<'_>,
        resources: &HashMap<Gvk, ApiResource>,
    ) -> Result<HashMap<Gvk, KindRights>, LoadFailure> {
        let (mut needed, mut asked) = (Vec::new(), Vec::new());
        let mut rights = HashMap::new();
        for (kind, resource) in resources {
            let scopes = leasing.scopes(kind, resource).map_err(|e| Refused::manifest(e.to_string()))?;
            let review = |verb: &'static str, scope: &WatchScope| {
                self.reviews.review(Question {
                    account: account.clone(),
                    verb,
                    group: resource.gvk.group.clone(),
                    resource: resource.plural.clone(),
                    namespace: scope.namespace.clone(),
                    name: scope.name.clone(),
                })
            };
            let right = |scope: &WatchScope, verbs: &[&'static str]| ScopeRight {
                scope: scope.clone(),
                reviews: verbs.iter().map(|verb| review(verb, scope)).collect(),
            };
            let get = leasing.get_scopes(resource, &scopes);
            let get: Vec<ScopeRight> = get.iter().map(|scope| right(scope, &["get"])).collect();
            let list: Vec<ScopeRight> = scopes.iter().map(|scope| right(scope, &["list"])).collect();
            let watch: Vec<ScopeRight> =
                scopes.iter().map(|scope| right(scope, &["list", "watch"])).collect();
            needed.extend(watch.iter().flat_map(|right| right.reviews.iter().cloned()));
            asked.extend(get.iter().flat_map(|right| right.reviews.iter().cloned()));
            rights.insert(kind.clone(), (get, list, watch));
        }
        await_allowed(plugin, &needed).await;
        await_answers(&asked).await;
        for refusal in asked.iter().filter_map(|review| review.refusal()) {
            leasing.warnings.set(&refusal, format!("{refusal}; reads of these objects are refused"));
        }
        let mut rights: HashMap<Gvk, KindRights> = rights
            .into_iter()
            .map(|(kind, (get, list, watch))| {
                let [get, list, watch] = [get, list, watch].map(Rights::of);
                (kind, KindRights { get, list, watch })
            })
            .collect();
        loop {
            await_allowed(plugin, &needed).await;
            // Denials before this count for nothing, and those after it make the rights broken.
            rights.values_mut().for_each(|rights| rights.watch.count_from_now());
            if needed.iter().all(|review| review.is_allowed()) {
                return Ok(rights);
            }
        }
    }
}

impl Leasing<'_> {
    /// The scopes in which objects of these informers may be got, by the permissions of the manifest.
    fn get_scopes(&self, resource: &ApiResource, informers: &[WatchScope]) -> Vec<WatchScope> {
        let (group, plural, most) = (&resource.gvk.group, &resource.plural, self.data.informers);
        let Ok(granted) = self.grants.verb_scopes("get", group, plural, resource.namespaced, most) else {
            // Very many names: the account has to have them all.
            return informers.to_vec();
        };
        let meets = granted.iter().flat_map(|granted| informers.iter().filter_map(|held| held.meet(granted)));
        WatchScope::reduce(meets.collect::<BTreeSet<_>>())
    }
}

/// Waits until all reviews allow what they ask, and shows the reason meanwhile.
async fn await_allowed(plugin: &Plugin, reviews: &[Arc<Review>]) {
    let mut logged = None;
    while let Some(review) = reviews.iter().find(|review| !review.is_allowed()) {
        let mut answers = review.answers();
        if *answers.borrow_and_update() == Answer::Allowed {
            continue;
        }
        if let Some(reason) = review.known_refusal() {
            if logged.as_ref() != Some(&reason) {
                tracing::warn!(
                    event = "plugin_waiting",
                    plugin = &**plugin.name(),
                    "{reason}; the plugin waits for it"
                );
                logged = Some(reason.clone());
            }
            plugin.load_waits(Some(LoadWait { reason, may_be_long: true, next_try: None }));
        }
        // The sender is in the review.
        let _ = answers.changed().await;
    }
}

/// Waits until the server has answered all reviews.
async fn await_answers(reviews: &[Arc<Review>]) {
    for review in reviews {
        // The sender is in the review.
        let _ = review.answers().wait_for(|answer| !matches!(answer, Answer::Unknown(_))).await;
    }
}

#[cfg(test)]
mod tests;
