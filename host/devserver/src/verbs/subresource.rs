//! Requests on a part of an object, or on something that is done to it.

use http::StatusCode;
use pilothouse_object::LabelSelector;
use serde_json::{Value, json};

use super::delete::{DeleteOptions, success};
use super::{Answer, Core, ObjectPart, Outcome, Rendering, ResourceRequest, Write, containers, identity};
use crate::api::{About, ApiError, Cause, Metadata, Timestamp};
use crate::printing::selector;
use crate::store::{Query, Stored};

impl Core {
    pub(super) fn on_subresource(&self, part: &str, verb: &str, request: &ResourceRequest) -> Outcome {
        // Behind `proxy` stands a path of its own.
        let name = part.split('/').next().unwrap_or_default();
        let known = request.resource.subresource(name).ok_or_else(|| match request.resource.is_custom() {
            true => ApiError::not_found(request.about()),
            false => ApiError::no_path(),
        })?;
        if !known.verbs.iter().any(|v| v == verb) {
            return Err(ApiError::method_not_allowed());
        }
        match (name, verb) {
            ("scale", _) => self.scale(verb, request),
            ("status" | "approval" | "ephemeralcontainers" | "resize", "get") => self.get(request),
            ("status" | "approval", "update") => self.update_part(request, ObjectPart::Status),
            ("status" | "approval", "patch") => self.patch_part(request, ObjectPart::Status),
            ("ephemeralcontainers", "update") => {
                self.update_part(request, ObjectPart::Spec("ephemeralContainers"))
            }
            ("ephemeralcontainers", "patch") => {
                self.patch_part(request, ObjectPart::Spec("ephemeralContainers"))
            }
            ("resize", "update") => self.update_part(request, ObjectPart::Spec("containers")),
            ("resize", "patch") => self.patch_part(request, ObjectPart::Spec("containers")),
            ("finalize", _) => self.finalize(request),
            ("binding", _) => self.bind(request),
            ("eviction", _) => self.evict(request),
            ("token", _) => self.token(request),
            _ => {
                self.current(&request.write()?)?;
                Err(containers::refused(&request.resource, request.name(), name))
            }
        }
    }

    /// `namespaces/finalize`: the finalizers in a namespace's spec.
    fn finalize(&self, request: &ResourceRequest) -> Outcome {
        let write = request.write()?;
        let asked = request.object(&write)?;
        let stored = self.change(&write, |current, old| {
            identity::check(&write, current, &mut asked.clone())?;
            let mut next = old.clone();
            match asked.get("spec") {
                Some(spec) => next.insert("spec".to_owned(), spec.clone()),
                None => next.remove("spec"),
            };
            Ok(Some(next))
        })?;
        Ok(Answer::Whole { code: StatusCode::OK, body: Rendering::of(request)?.object(&stored) })
    }

    /// `pods/binding`, and `bindings`, whose objects are named as the pod.
    pub(super) fn bind(&self, request: &ResourceRequest) -> Outcome {
        let binding = request.json_body()?;
        let named = binding.get("metadata").and_then(|m| m["name"].as_str()).unwrap_or_default();
        let name = request.target.name.as_deref().unwrap_or(named);
        if !named.is_empty() && named != name {
            return Err(ApiError::bad_request(format!(
                "the name of the binding ({named}) does not match the name on the URL ({name})"
            )));
        }
        let target = binding.get("target").cloned().unwrap_or_default();
        let node = target["name"].as_str().unwrap_or_default().to_owned();
        if node.is_empty() {
            // As a real server has it: what is wrong with a binding is a fault of the server.
            let why = "target.name: Required value";
            return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", why));
        }
        let pods = self.registry.now().get("", "v1", "pods").cloned().ok_or_else(ApiError::no_path)?;
        let on_pod = request.write()?.beside(pods, name);
        let bound = About::new("", "pods/binding", name);
        let annotations = binding.get("metadata").and_then(|m| m["annotations"].as_object());
        self.change_unowned(&on_pod, |current, pod| {
            let mut pod = pod.clone();
            if current.object.deletion_timestamp().is_some() {
                let why = format!("pod {name} is being deleted, cannot be assigned to a host");
                return Err(ApiError::conflict(bound.clone(), &why));
            }
            if let Some(taken) = current.object.get_string("/spec/nodeName").filter(|n| !n.is_empty()) {
                let why = format!("pod {name} is already assigned to node {taken:?}");
                return Err(ApiError::conflict(bound.clone(), &why));
            }
            let gates = pod.get("spec").and_then(|spec| spec["schedulingGates"].as_array());
            if gates.is_some_and(|gates| !gates.is_empty()) {
                let why = format!("pod {name} has non-empty .spec.schedulingGates");
                return Err(ApiError::conflict(bound.clone(), &why));
            }
            put(&mut pod, "spec", "nodeName", node.as_str().into());
            let mut metadata = Metadata::of(&mut pod)?;
            for (key, value) in annotations.into_iter().flatten() {
                metadata.set_annotation(key, value.as_str().unwrap_or_default());
            }
            let earlier = pod.get("status").and_then(|s| s["conditions"].as_array()).cloned();
            let mut conditions = earlier.unwrap_or_default();
            let since = Timestamp::now().seconds();
            let scheduled = json!({
                "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": since,
            });
            match conditions.iter_mut().find(|condition| condition["type"] == "PodScheduled") {
                Some(condition) => *condition = scheduled,
                None => conditions.push(scheduled),
            }
            put(&mut pod, "status", "conditions", conditions.into());
            Ok(Some(pod))
        })?;
        Ok(Answer::json(StatusCode::CREATED, &created()))
    }

    /// `pods/eviction`: a deletion that disruption budgets may refuse.
    fn evict(&self, request: &ResourceRequest) -> Outcome {
        let body = request.json_body()?;
        let named = body.get("metadata").and_then(|m| m["name"].as_str()).unwrap_or_default();
        if named != request.name() {
            return Err(ApiError::bad_request(format!(
                "name in URL ({}) does not match name in Eviction object ({named})",
                request.name()
            )));
        }
        let write = request.write()?;
        let pod = self.current(&write)?;
        let options = body.get("deleteOptions").filter(|o| !o.is_null()).cloned();
        let options = DeleteOptions::read(options.unwrap_or_else(|| json!({})))?.or_dry(&request.params)?;
        // What will not happen costs no budget.
        options.check(&write, &pod)?;
        self.spend_budget(&write, &pod, options.is_dry())?;
        if !options.is_dry() {
            self.change_unowned(&write, |_, pod| Ok(Some(evicted(pod.clone()))))?;
        }
        self.delete_object(&write, &options.any_version())?;
        Ok(Answer::json(StatusCode::CREATED, &created()))
    }

    /// Takes one disruption from each budget that the pod counts for.
    fn spend_budget(&self, write: &Write, pod: &Stored, dry: bool) -> Result<(), ApiError> {
        let ended = matches!(
            pod.object.get_string("/status/phase").as_deref(),
            Some("Succeeded" | "Failed" | "Pending")
        );
        if ended || pod.object.deletion_timestamp().is_some() {
            return Ok(());
        }
        let Some(budgets) = self.registry.now().get("policy", "v1", "poddisruptionbudgets").cloned() else {
            return Ok(());
        };
        let prefix = format!("{}/", write.namespace());
        let query = Query {
            table: &budgets.storage,
            prefix: &prefix,
            after: None,
            revision: None,
            limit: 0,
            wanted: &|budget| selects(budget, pod),
        };
        let found = self.store.list(&query).map(|s| s.objects).unwrap_or_default();
        if found.len() > 1 {
            return Err(ApiError::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        for budget in found {
            let on_budget = write.beside(budgets.clone(), budget.object.name());
            self.change(&on_budget, |current, object| {
                // Nobody has counted what it may lose: no controller for budgets runs here.
                if current.object.get("/status/observedGeneration").is_none() {
                    return Ok(None);
                }
                let mut object = object.clone();
                let allowed: i64 = current
                    .object
                    .get("/status/disruptionsAllowed")
                    .and_then(|n| n.parse().ok())
                    .unwrap_or(0);
                if allowed <= 0 {
                    return Err(would_disrupt(current.object.name()));
                }
                put(&mut object, "status", "disruptionsAllowed", (allowed - 1).into());
                Ok(Some(object).filter(|_| !dry))
            })?;
        }
        Ok(())
    }

    /// `serviceaccounts/token`: a token that this server takes, as it takes any.
    fn token(&self, request: &ResourceRequest) -> Outcome {
        let mut answer = request.json_body()?;
        self.current(&request.write()?)?;
        let seconds = answer.get("spec").and_then(|s| s["expirationSeconds"].as_i64()).unwrap_or(3600);
        let token = format!("dev.{}", identity::new_uid());
        let expires = Timestamp::now().plus_seconds(seconds).seconds();
        answer.insert("status".to_owned(), json!({"token": token, "expirationTimestamp": expires}));
        answer.insert("kind".to_owned(), "TokenRequest".into());
        answer.insert("apiVersion".to_owned(), "authentication.k8s.io/v1".into());
        Ok(Answer::json(StatusCode::CREATED, &answer.into()))
    }
}

/// A pod with the condition that it goes because of an eviction.
fn evicted(mut pod: crate::api::JsonMap) -> crate::api::JsonMap {
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastProbeTime": null,
        "lastTransitionTime": Timestamp::now().seconds(),
    });
    let conditions = pod.get("status").and_then(|status| status["conditions"].as_array()).cloned();
    let mut conditions = conditions.unwrap_or_default();
    match conditions.iter_mut().find(|other| other["type"] == "DisruptionTarget") {
        Some(other) => *other = condition,
        None => conditions.push(condition),
    }
    put(&mut pod, "status", "conditions", conditions.into());
    pod
}

/// Sets `object[part][field]`.
fn put(object: &mut super::JsonMap, part: &str, field: &str, value: Value) {
    if let Value::Object(part) = object.entry(part).or_insert_with(|| json!({})) {
        part.insert(field.to_owned(), value);
    }
}

fn created() -> Value {
    let mut status = success(&json!({}));
    status["code"] = 201.into();
    if let Some(status) = status.as_object_mut() {
        status.remove("details");
    }
    status
}

/// Whether a budget's selector takes a pod; an invalid one takes none.
fn selects(budget: &Stored, pod: &Stored) -> bool {
    let text = selector(&Value::Object(budget.value()), "/spec/selector");
    text.and_then(|text| text.parse::<LabelSelector>().ok())
        .is_some_and(|selector| selector.matches(&pod.object))
}

fn would_disrupt(budget: &str) -> ApiError {
    let mut error = ApiError::new(
        StatusCode::TOO_MANY_REQUESTS,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    );
    error.causes.push(Cause {
        reason: "DisruptionBudget",
        message: format!("The disruption budget {budget} allows no disruption now"),
        field: String::new(),
    });
    error.about(About::default())
}
