//! `delete` and `deletecollection`: preconditions, grace, finalizers.

use std::sync::Arc;

use http::StatusCode;
use pilothouse_object::Object;
use serde::Deserialize;
use serde_json::{Value, json};

use super::definitions::CLEANUP;
use super::pipeline::{TRIES, is_finished};
use super::render::ListMeta;
use super::selection::Selection;
use super::{Answer, Core, JsonMap, Outcome, Rendering, ResourceRequest, Write};
use crate::api::{About, ApiError, Cause, Metadata, Params, Timestamp};
use crate::kinds::{Content, Dependents, Generation, Strategy};
use crate::store::{Raced, Stored};

/// What is to hold for a deletion to happen.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// What is to become of the dependents of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They go first.
    Foreground,
    /// They go later.
    Background,
    /// They stay.
    Orphan,
}

const POLICIES: [&str; 3] = ["Foreground", "Background", "Orphan"];
/// The same as messages name them.
const NAMED_POLICIES: [&str; 4] = ["Foreground", "Background", "Orphan", "nil"];
/// What an object waits for whose dependents go first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// What an object waits for whose dependents stay.
pub(crate) const ORPHAN: &str = "orphan";

/// The options of a deletion.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeleteOptions {
    grace_period_seconds: Option<i64>,
    preconditions: Option<Preconditions>,
    propagation_policy: Option<String>,
    /// The older form of the policy.
    orphan_dependents: Option<bool>,
    #[serde(default)]
    dry_run: Vec<String>,
}

impl DeleteOptions {
    /// From the body, or from the parameters where there is none: with a body they do not count.
    pub(super) fn of(request: &ResourceRequest) -> Result<Self, ApiError> {
        if request.body.trim_ascii().is_empty() {
            return Self::of_params(&request.params)?.checked();
        }
        Self::read(request.json_body()?.into())
    }

    /// From the options that a client sent.
    pub(super) fn read(sent: Value) -> Result<Self, ApiError> {
        serde_json::from_value::<Self>(sent)
            .map_err(|e| ApiError::bad_request(format!("the body is not DeleteOptions: {e}")))?
            .checked()
    }

    fn of_params(params: &Params) -> Result<Self, ApiError> {
        let dry_run = if params.dry_run()? { vec!["All".to_owned()] } else { Vec::new() };
        Ok(Self {
            grace_period_seconds: params.grace()?,
            propagation_policy: params.filled("propagationPolicy").map(str::to_owned),
            orphan_dependents: params.filled("orphanDependents").map(|_| params.is_on("orphanDependents")),
            dry_run,
            preconditions: None,
        })
    }

    fn checked(mut self) -> Result<Self, ApiError> {
        let options = &mut self;
        if let Some(policy) =
            options.propagation_policy.as_deref().filter(|policy| !POLICIES.contains(policy))
        {
            let about = About::new("meta.k8s.io", "DeleteOptions", "");
            return Err(ApiError::invalid(
                about,
                vec![Cause::not_supported("propagationPolicy", policy, &NAMED_POLICIES)],
            ));
        }
        if options.orphan_dependents.is_some() && options.propagation_policy.is_some() {
            let about = About::new("meta.k8s.io", "DeleteOptions", "");
            let why = "orphanDependents and deletionPropagation cannot be both set";
            let policy = options.propagation_policy.as_deref().unwrap_or_default();
            return Err(ApiError::invalid(about, vec![Cause::invalid("propagationPolicy", policy, why)]));
        }
        if let Some(wrong) = options.dry_run.iter().find(|stage| *stage != "All") {
            let about = About::new("meta.k8s.io", "DeleteOptions", "");
            return Err(ApiError::invalid(about, vec![Cause::not_supported("dryRun", wrong, &["All"])]));
        }
        // As the API has it: a negative period is the shortest there is.
        options.grace_period_seconds = options.grace_period_seconds.map(|s| if s < 0 { 1 } else { s });
        Ok(self)
    }

    /// The same, for a request that is a dry-run by its own parameters.
    pub(super) fn or_dry(mut self, params: &Params) -> Result<Self, ApiError> {
        if params.dry_run()? {
            self.dry_run.push("All".to_owned());
        }
        Ok(self)
    }

    /// With a policy, if the object is still the one of this UID.
    pub(crate) fn of_policy(uid: &str, policy: Propagation) -> Self {
        Self { propagation_policy: Some(format!("{policy:?}")), ..Self::of_uid(uid) }
    }

    /// With a policy, if the object is still in this state.
    pub(crate) fn of_version(object: &Object, policy: Propagation) -> Self {
        let mut options = Self::of_policy(object.uid(), policy);
        if let Some(preconditions) = &mut options.preconditions {
            preconditions.resource_version = Some(object.resource_version().to_owned());
        }
        options
    }

    /// At once, if the object is still the one of this UID.
    pub(crate) fn now(uid: &str) -> Self {
        Self { grace_period_seconds: Some(0), ..Self::of_uid(uid) }
    }

    /// If the object is still the one of this UID.
    pub(crate) fn of_uid(uid: &str) -> Self {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        Self { preconditions: Some(preconditions), ..Self::default() }
    }

    /// The finalizer by which an object waits until its dependents are treated as asked.
    fn finalizer(&self, strategy: &Strategy, metadata: &Metadata<'_>) -> Option<&'static str> {
        let has = |name: &str| metadata.finalizers().any(|f| f == name);
        match (self.orphan_dependents, self.propagation_policy.as_deref()) {
            _ if strategy.dependents == Dependents::Ignored => None,
            (Some(true), _) | (None, Some("Orphan")) => Some(ORPHAN),
            (None, Some("Foreground")) => Some(FOREGROUND),
            (Some(false), _) | (None, Some(_)) => None,
            (None, None) if has(ORPHAN) => Some(ORPHAN),
            (None, None) if has(FOREGROUND) => Some(FOREGROUND),
            (None, None) => (strategy.dependents == Dependents::Orphaned).then_some(ORPHAN),
        }
    }

    /// The same for an object that was changed just now.
    pub(super) fn any_version(mut self) -> Self {
        if let Some(preconditions) = &mut self.preconditions {
            preconditions.resource_version = None;
        }
        self
    }

    pub(super) fn is_dry(&self) -> bool {
        !self.dry_run.is_empty()
    }

    pub(super) fn check(&self, write: &Write, current: &Stored) -> Result<(), ApiError> {
        let Some(wanted) = &self.preconditions else { return Ok(()) };
        let object = &current.object;
        if let Some(uid) = wanted.uid.as_deref().filter(|uid| *uid != object.uid()) {
            let why = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
                 deleted and then recreated",
                object.uid()
            );
            return Err(ApiError::conflict(write.about_kind(object.name()), &why));
        }
        if let Some(version) = wanted.resource_version.as_deref().filter(|v| *v != object.resource_version())
        {
            let why = format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The \
                 object might have been modified",
                object.resource_version()
            );
            return Err(ApiError::conflict(write.about_kind(object.name()), &why));
        }
        Ok(())
    }
}

/// What became of an object that was to be deleted.
pub(crate) struct Deleted {
    pub(super) last: Arc<Stored>,
    gone: bool,
}

impl Core {
    pub(super) fn delete(&self, request: &ResourceRequest) -> Outcome {
        let options = DeleteOptions::of(request)?;
        let is_unsaid = options.propagation_policy.is_none() && options.orphan_dependents.is_none();
        if is_unsaid && request.resource.strategy.warns_of_orphans {
            request.warnings.add(Some(
                "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or \
                 set propagationPolicy=Orphan to suppress this warning"
                    .to_owned(),
            ));
        }
        let deleted = self.delete_object(&request.write()?, &options)?;
        let resource = &request.resource;
        if !deleted.gone || resource.strategy.answers_deleted {
            // Only the older form of the option has a code for it.
            let code = match options.orphan_dependents {
                Some(false) if !deleted.gone => StatusCode::ACCEPTED,
                _ => StatusCode::OK,
            };
            let rendering = Rendering::of(request)?;
            // What goes on for a while is shown as it is stored.
            return Ok(Answer::Whole { code, body: rendering.object(&deleted.last) });
        }
        let mut details = json!({
            "name": request.name(), "kind": resource.name, "uid": deleted.last.object.uid(),
        });
        if !resource.group.is_empty() {
            details["group"] = resource.group.as_str().into();
        }
        Ok(Answer::json(StatusCode::OK, &success(&details)))
    }

    pub(super) fn delete_collection(&self, request: &ResourceRequest) -> Outcome {
        let options = DeleteOptions::of(request)?;
        let rendering = Rendering::of(request)?;
        let selection = Selection::of(request)?;
        let write = request.write()?;
        let snapshot = self
            .select(request, &selection, None, None, 0)
            .map_err(|_| ApiError::internal("the current state is always known"))?;
        let mut deleted = Vec::with_capacity(snapshot.objects.len());
        for stored in snapshot.objects {
            match self.delete_object(&write.on(&stored), &options) {
                // As they were before.
                Ok(_) => deleted.push(stored),
                // Somebody else was faster.
                Err(error) if error.code == StatusCode::NOT_FOUND => {}
                Err(error) => return Err(error),
            }
        }
        let metadata =
            ListMeta { resource_version: self.store.revision().to_string(), ..ListMeta::default() };
        Ok(match rendering.list(&metadata, &deleted) {
            Ok(body) => Answer::Whole { code: StatusCode::OK, body },
            // The list is too large; the objects are deleted nevertheless.
            Err(_) => Answer::json(StatusCode::OK, &success(&json!({"kind": request.resource.name}))),
        })
    }

    /// Deletes an object, or marks it as being deleted if it waits for something.
    pub(crate) fn delete_object(&self, write: &Write, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        if write.resource.strategy.kept.contains(&write.name.as_str()) {
            return Err(ApiError::forbidden(write.about(), "this namespace may not be deleted"));
        }
        let (table, key) = (&write.resource.storage, write.key());
        for _ in 0..TRIES {
            let current = self.current(write)?;
            options.check(write, &current)?;
            let old = current.value();
            let has_content = self.has_content(write, &old);
            let marked = mark(write, &old, has_content, options)?;
            let gone = is_finished(&write.resource, &marked) && !has_content;
            // What goes by steps is shown as it was marked.
            let is_graceful = write.resource.strategy.grace.is_some();
            if options.is_dry() {
                // The first deletion of a namespace always marks it.
                let is_marked = is_graceful || write.resource.strategy.content == Content::Namespaced;
                let last = match gone && !is_marked {
                    true => current,
                    false => {
                        write.imagine(marked, current.managed.clone(), current.object.resource_version())?
                    }
                };
                return Ok(Deleted { last, gone });
            }
            let outcome = if gone {
                let removed = self.store.remove(table, &key, &current).inspect(|_| self.after_change(write));
                match removed {
                    Ok(last) if is_graceful => {
                        let version = last.object.resource_version().to_owned();
                        write.imagined(marked, current.managed.clone(), &version)
                    }
                    other => other,
                }
            } else {
                self.put(write, &key, &current, &old, marked, current.managed.clone())
            };
            match outcome {
                Ok(last) => {
                    if gone && write.resource.strategy.allocates {
                        self.delete_endpoints(write);
                    }
                    return Ok(Deleted { last, gone });
                }
                Err(Raced::Changed) => {}
                Err(raced) => return Err(write.raced(&raced)),
            }
        }
        Err(ApiError::stale(write.about()))
    }
}

impl Core {
    /// The Endpoints of a Service go with it.
    pub(super) fn delete_endpoints(&self, service: &Write) {
        let Some(endpoints) = self.own_write("/endpoints", service.namespace.as_deref(), &service.name)
        else {
            return;
        };
        // There need not be any.
        let _ = self.delete_object(&endpoints, &DeleteOptions::default());
    }
}

/// The object with the marks of its deletion.
fn mark(
    write: &Write,
    old: &JsonMap,
    has_content: bool,
    options: &DeleteOptions,
) -> Result<JsonMap, ApiError> {
    let strategy = write.resource.strategy;
    let mut object = old.clone();
    let default = strategy.grace.map_or(0, |grace| grace(old));
    let mut metadata = Metadata::of(&mut object)?;
    let waits_for = options.finalizer(strategy, &metadata);
    let (earlier, now) = (metadata.grace(), Timestamp::now());
    let shortens = |earlier: i64| options.grace_period_seconds.is_some_and(|asked| asked < earlier);
    let is_ending = metadata.get("deletionTimestamp").is_some();
    let spec = old.get("spec").unwrap_or(&Value::Null);
    if strategy.content == Content::Namespaced
        && is_ending
        && spec["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
    {
        // It has been told, and its content goes first.
        return Ok(object);
    }
    if strategy.grace.is_some() && earlier.is_some_and(|earlier| earlier > 0 && !shortens(earlier)) {
        // A graceful deletion that has begun is only changed by a shorter period; one whose time is over waits for finalizers.
        return Ok(object);
    }
    let end = match (earlier, options.grace_period_seconds) {
        (None, asked) => {
            // What goes at once goes at once, whatever was asked for.
            let grace = if default == 0 { 0 } else { asked.unwrap_or(default) };
            Some((grace, now.plus_seconds(grace)))
        }
        // A deletion under way can only be shortened, and counts from its beginning.
        (Some(earlier), Some(asked)) if asked < earlier => {
            let deleted_at = metadata.text("deletionTimestamp").parse().ok().map(Timestamp);
            let end = deleted_at.map_or(now, |at| at.plus_seconds(asked - earlier));
            Some(if end.0 < now.0 { (asked.min(1), now) } else { (asked, end) })
        }
        (Some(_), _) => None,
    };
    if let Some((grace, end)) = end {
        metadata.set("deletionTimestamp", end.seconds());
        // Not told of what goes by steps of its own.
        if strategy.content == Content::None {
            metadata.set("deletionGracePeriodSeconds", grace);
        }
    }
    if earlier.is_none() && strategy.generation != Generation::None && metadata.generation() > 0 {
        let generation = metadata.generation();
        metadata.set("generation", generation + 1);
    }
    for finalizer in [FOREGROUND, ORPHAN] {
        if Some(finalizer) == waits_for {
            metadata.add_finalizer(finalizer);
        } else {
            metadata.remove_finalizer(finalizer);
        }
    }
    if has_content {
        metadata.add_finalizer(CLEANUP);
    }
    if strategy.content == Content::Namespaced && !is_ending {
        let status = object.entry("status").or_insert_with(|| json!({}));
        if let Value::Object(status) = status {
            status.insert("phase".to_owned(), "Terminating".into());
        }
    }
    Ok(object)
}

/// A `Status` of success.
pub(super) fn success(details: &Value) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
