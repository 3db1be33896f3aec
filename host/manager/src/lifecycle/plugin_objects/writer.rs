//! [`StatusWriter`]: writes the status of the Plugins of the cluster with server-side apply.
//!
//! Invariants: only the host that runs a plugin writes its status; one request is under way at a time; a status is
//! written when it says something else, and at most once in [`SPACING`] for each Plugin. What the cache does not show
//! yet is not written again, and what has changed since it was looked at is not written to.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use pilothouse_client::{Client, Patch, WriteParams};
use pilothouse_object::{Object, ObjectKey};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::status::{PluginView, next_status};
use super::{PluginTable, plugins};
use crate::leader_election::LeaderElection;

/// How often the states of the plugins are looked at. A look costs microseconds for each.
const LOOK: Duration = Duration::from_secs(1);
/// Between two writes for one Plugin: one that is quarantined and released all the time costs the API server no more.
const SPACING: Duration = Duration::from_secs(2);
/// Between a write that failed and the next try.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
/// The field manager of the status.
const MANAGER: &str = "pilothouse";

/// The last write of one Plugin's status.
struct Written {
    /// The version of the object that the write was made from.
    based_on: String,
    not_before: Instant,
}

/// What takes statuses: the API server.
pub(crate) trait StatusSink: Send + Sync {
    /// Applies the status of the Plugin at this resource version; a conflict if it has another one by now.
    fn apply(
        &self,
        key: &ObjectKey,
        version: &str,
        status: &Value,
    ) -> impl Future<Output = pilothouse_client::Result<()>> + Send;
}

/// Writes statuses.
pub(crate) struct StatusWriter<S> {
    pub(crate) table: PluginTable,
    pub(crate) sink: S,
    pub(crate) election: LeaderElection,
}

impl<S: StatusSink> StatusWriter<S> {
    /// Writes until it is dropped. `view` says how the plugin of a name fares.
    pub(crate) async fn run(self, view: impl Fn(&str) -> PluginView + Send + Sync) {
        let mut written = HashMap::new();
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.look(&mut written, &view).await;
        }
    }

    async fn look(
        &self,
        written: &mut HashMap<String, Written>,
        view: &(impl Fn(&str) -> PluginView + Sync),
    ) {
        let admissions = self.table.admissions();
        for (name, admission) in &admissions {
            if !self.election.has(name) {
                continue;
            }
            let Ok(key) = name.parse::<ObjectKey>() else { continue };
            let Some(object) = self.table.object(&key) else { continue };
            let version = object.resource_version().to_owned();
            let waits = |last: &Written| last.based_on == version || Instant::now() < last.not_before;
            if written.get(name).is_some_and(waits) {
                continue;
            }
            let now = now();
            let Some(status) = next_status(&status_of(&object), admission, &view(name), &now) else {
                continue;
            };
            // The term may have ended since.
            if !self.election.has(name) {
                continue;
            }
            let last = match self.sink.apply(&key, &version, &status).await {
                Err(error) if !error.is_conflict() => {
                    // It is deleted: the cache shows it soon.
                    if !error.is_not_found() {
                        tracing::warn!(
                            event = "plugin_status_not_written",
                            plugin = name,
                            "the status of a Plugin is not written, trying again: {error}"
                        );
                    }
                    Written { based_on: String::new(), not_before: Instant::now() + AFTER_FAILURE }
                }
                // After a conflict there is another version, or another Plugin of the name, which the cache shows soon.
                Ok(()) | Err(_) => Written { based_on: version, not_before: Instant::now() + SPACING },
            };
            written.insert(name.clone(), last);
        }
        written.retain(|name, _| admissions.iter().any(|(other, _)| other == name));
    }
}

impl StatusSink for Client {
    async fn apply(&self, key: &ObjectKey, version: &str, status: &Value) -> pilothouse_client::Result<()> {
        let resource = plugins();
        // With the version: of the metadata that comes with a status, API servers do not compare the UID.
        let body = json!({
            "apiVersion": "pilothouse.dev/v1alpha1",
            "kind": "Plugin",
            "metadata": {"namespace": key.namespace(), "name": key.name(), "resourceVersion": version},
            "status": status,
        });
        let body = body.to_string();
        let patch = Patch::Apply { body: body.as_bytes(), force: true };
        let params = WriteParams {
            subresource: Some("status".to_owned()),
            field_manager: Some(MANAGER.to_owned()),
            ..WriteParams::default()
        };
        self.patch(&resource, key, patch, &params).await.map(drop)
    }
}

/// The time in whole seconds, as `metav1.Time` has it.
fn now() -> String {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// The status of a Plugin; null where it has none.
fn status_of(object: &Object) -> Value {
    #[derive(Deserialize)]
    struct Parts {
        #[serde(default)]
        status: Value,
    }
    // The cache has JSON from the API server; of anything else the server tells what is wrong with the write.
    serde_json::from_slice(object.bytes()).map_or(Value::Null, |parts: Parts| parts.status)
}

#[cfg(test)]
mod tests;
