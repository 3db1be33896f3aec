//! `delete` and `deletecollection`: preconditions, grace, finalizers.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::render::ListMeta;
use super::selection::Selection;
use super::{Answer, Call, Core, JsonMap, Outcome, Rendering, TRIES, is_finished, namespaces};
use crate::api::{About, ApiError, Cause, Metadata};
use crate::kinds;
use crate::store::{Raced, Stored};

/// What is to hold for a deletion to happen.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// How dependents may be treated. There is no garbage collection yet, so all come to the same.
const POLICIES: [&str; 3] = ["Foreground", "Background", "Orphan"];

/// The options of a deletion.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeleteOptions {
    grace_period_seconds: Option<i64>,
    preconditions: Option<Preconditions>,
    propagation_policy: Option<String>,
    #[serde(default)]
    dry_run: Vec<String>,
}

impl DeleteOptions {
    /// From the body, or from the parameters where there is none.
    pub(super) fn of(call: &Call) -> Result<Self, ApiError> {
        let mut options = if call.body.trim_ascii().is_empty() { Self::default() } else { Self::read(call)? };
        if options.grace_period_seconds.is_none() {
            options.grace_period_seconds = call.params.grace()?;
        }
        if options.propagation_policy.is_none() {
            options.propagation_policy = call.params.filled("propagationPolicy").map(str::to_owned);
        }
        if let Some(policy) =
            options.propagation_policy.as_deref().filter(|policy| !POLICIES.contains(policy))
        {
            let about = About::new("meta.k8s.io", "DeleteOptions", "");
            return Err(ApiError::invalid(
                about,
                vec![Cause::not_supported("propagationPolicy", policy, &POLICIES)],
            ));
        }
        if let Some(wrong) = options.dry_run.iter().find(|stage| *stage != "All") {
            let about = About::new("meta.k8s.io", "DeleteOptions", "");
            return Err(ApiError::invalid(about, vec![Cause::not_supported("dryRun", wrong, &["All"])]));
        }
        if call.params.dry_run()? {
            options.dry_run.push("All".to_owned());
        }
        // As the API has it: a negative period is the shortest there is.
        options.grace_period_seconds = options.grace_period_seconds.map(|s| if s < 0 { 1 } else { s });
        Ok(options)
    }

    fn read(call: &Call) -> Result<Self, ApiError> {
        serde_json::from_value(call.json_body()?.into())
            .map_err(|e| ApiError::bad_request(format!("the body is not DeleteOptions: {e}")))
    }

    pub(super) fn is_dry(&self) -> bool {
        !self.dry_run.is_empty()
    }

    pub(super) fn check(&self, call: &Call, current: &Stored) -> Result<(), ApiError> {
        let Some(wanted) = &self.preconditions else { return Ok(()) };
        let object = &current.object;
        if let Some(uid) = wanted.uid.as_deref().filter(|uid| *uid != object.uid()) {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                object.uid()
            );
            return Err(ApiError::conflict(call.about_kind(object.name()), &why));
        }
        if let Some(version) = wanted.resource_version.as_deref().filter(|v| *v != object.resource_version())
        {
            let why = format!(
                "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {}",
                object.resource_version()
            );
            return Err(ApiError::conflict(call.about_kind(object.name()), &why));
        }
        Ok(())
    }
}

/// What became of an object that was to be deleted.
struct Deleted {
    last: Arc<Stored>,
    gone: bool,
}

impl Core {
    pub(super) fn delete(self: &Arc<Self>, call: &Call) -> Outcome {
        let options = DeleteOptions::of(call)?;
        if call.resource.is("", "namespaces") && namespaces::is_needed(call.name()) {
            return Err(ApiError::forbidden(call.about(), "this namespace may not be deleted"));
        }
        let deleted = self.delete_object(call, &call.key(), &options)?;
        if !deleted.gone || kinds::answers_deleted(&call.resource) {
            return Ok(Answer::Whole {
                code: StatusCode::OK,
                body: Rendering::of(call)?.object(&deleted.last),
            });
        }
        let mut details = json!({
            "name": call.name(), "kind": call.resource.name, "uid": deleted.last.object.uid(),
        });
        if !call.resource.group.is_empty() {
            details["group"] = call.resource.group.as_str().into();
        }
        Ok(Answer::json(StatusCode::OK, &success(&details)))
    }

    pub(super) fn delete_collection(self: &Arc<Self>, call: &Call) -> Outcome {
        let options = DeleteOptions::of(call)?;
        let rendering = Rendering::of(call)?;
        let selection = Selection::of(call)?;
        let snapshot = self
            .select(call, &selection, None, None, 0)
            .map_err(|_| ApiError::internal("the current state is always known"))?;
        let mut deleted = Vec::with_capacity(snapshot.objects.len());
        for stored in snapshot.objects {
            match self.delete_object(call, stored.object.key().as_str(), &options) {
                // As they were before.
                Ok(_) => deleted.push(stored),
                // Somebody else was faster.
                Err(error) if error.code == StatusCode::NOT_FOUND => {}
                Err(error) => return Err(error),
            }
        }
        let metadata =
            ListMeta { resource_version: self.store.revision().to_string(), ..ListMeta::default() };
        Ok(Answer::Whole { code: StatusCode::OK, body: rendering.list(&metadata, &deleted) })
    }

    fn delete_object(
        self: &Arc<Self>,
        call: &Call,
        key: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, ApiError> {
        let table = &call.resource.storage;
        for _ in 0..TRIES {
            let Some(current) = self.store.get(table, key) else {
                let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
                return Err(ApiError::not_found(call.about_name(name)));
            };
            options.check(call, &current)?;
            let marked = self.mark(call, &current, options)?;
            let gone = is_finished(&call.resource, &marked) && !self.has_content(call, &current);
            if options.is_dry() {
                return Ok(Deleted { last: current, gone });
            }
            let outcome = if gone {
                self.store.remove(table, key, &current)
            } else {
                self.put(call, key, &current, marked)
            };
            match outcome {
                Ok(last) => {
                    // What was marked already has set everything in motion.
                    if last.revision != current.revision {
                        self.after_delete(call, &last, gone);
                    }
                    return Ok(Deleted { last, gone });
                }
                Err(Raced::Changed) => {}
                Err(raced) => return Err(call.raced(&raced)),
            }
        }
        Err(ApiError::stale(call.about()))
    }

    /// The object with the marks of its deletion.
    fn mark(&self, call: &Call, current: &Stored, options: &DeleteOptions) -> Result<JsonMap, ApiError> {
        let mut object = current.value();
        let default = kinds::grace(&call.resource, &Value::Object(object.clone()));
        let grace = match (default, options.grace_period_seconds) {
            (None | Some(0), _) => 0,
            (Some(_), Some(asked)) => asked,
            (Some(default), None) => default,
        };
        let keeps_generation = kinds::keeps_generation(&call.resource);
        let has_content = self.has_content(call, current);
        let mut metadata = Metadata::of(&mut object)?;
        let earlier = metadata.grace();
        if earlier.is_none_or(|earlier| grace < earlier) {
            metadata.set("deletionTimestamp", call.now().plus_seconds(grace).seconds());
            // Not told of what goes by steps of its own.
            if !kinds::empties_itself(&call.resource) {
                metadata.set("deletionGracePeriodSeconds", grace);
            }
        }
        if earlier.is_none() && keeps_generation && metadata.generation() > 0 {
            let generation = metadata.generation();
            metadata.set("generation", generation + 1);
        }
        if has_content {
            metadata.add_finalizer(namespaces::CLEANUP);
        }
        if call.resource.is("", "namespaces") {
            object.insert("status".to_owned(), json!({"phase": "Terminating"}));
        }
        Ok(object)
    }

    /// What a deletion sets in motion.
    fn after_delete(self: &Arc<Self>, call: &Call, last: &Arc<Stored>, gone: bool) {
        if gone {
            self.after_end(call, last);
            return;
        }
        if call.resource.is("", "namespaces") {
            self.empty_namespace(last.object.name());
        } else if call.resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
            self.empty_definition(last);
        } else if call.resource.is("", "pods") {
            self.end_in_time(call, last);
        }
    }

    /// Ends a pod when its grace is over: a real cluster's kubelet would.
    fn end_in_time(self: &Arc<Self>, call: &Call, pod: &Arc<Stored>) {
        let seconds: u64 =
            pod.object.get("/metadata/deletionGracePeriodSeconds").and_then(|s| s.parse().ok()).unwrap_or(0);
        // One that waits for finalizers alone is not waited for.
        if seconds == 0 {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        // It must not keep the server alive.
        let (core, call, pod) = (Arc::downgrade(self), call.on(pod), pod.clone());
        runtime.spawn(async move {
            tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
            if let Some(core) = core.upgrade() {
                let uid = Some(pod.object.uid().to_owned());
                let preconditions = Some(Preconditions { uid, resource_version: None });
                let options = DeleteOptions {
                    grace_period_seconds: Some(0),
                    preconditions,
                    ..DeleteOptions::default()
                };
                // Whoever removed it already has done the same.
                let _ = core.delete_object(&call, pod.object.key().as_str(), &options);
            }
        });
    }

    /// Deletes an object for the server's own reasons; one that is gone already is well.
    pub(super) fn delete_silently(self: &Arc<Self>, call: &Call, key: &str) {
        if let Err(error) = self.delete_object(call, key, &DeleteOptions::default())
            && error.code != StatusCode::NOT_FOUND
        {
            tracing::warn!(key, "an object could not be deleted with what it is in: {}", error.message);
        }
    }
}

/// A `Status` of success.
pub(super) fn success(details: &Value) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
