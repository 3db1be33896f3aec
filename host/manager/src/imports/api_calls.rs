//! [`ApiCalls`]: a plugin's live calls to the API server.
//!
//! A call is checked against the plugin's grants before anything is sent. Requests carry the plugin's own User-Agent, field
//! manager and, where the manifest names a service account, identity. A write runs on the host's network runtime: when the
//! guest's call is cut meanwhile, the write goes on and its outcome is logged. While the server refuses connections a call
//! fails at once, because the caches already retry. Only the leader writes.

mod body;

use std::sync::Arc;

use pilothouse_cache::{Availability, Permit};
use pilothouse_client::{
    ApiResource, Client, DeleteParams, Error, ListParams, PAGE_SIZE, Patch, Preconditions, Propagation,
    Status, WriteParams,
};
use pilothouse_engine::{
    ApiStatus, CallOptions, ClientAnswer, ClientCall, ClientError, ClientFuture, ClientVerb, Dependents,
    HANDLE_BYTES, PatchKind, Refusal, StatusCause,
};
use pilothouse_object::{Object, ObjectKey};
use pilothouse_plugin::{Access, Grants, Place};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use self::body::{Body, BodyMeta};
use crate::dispatch::writes::{Writes, Written};
use crate::leader_election::LeaderElection;
use crate::observe::denials::{Denials, Denied};

/// Maximum number of causes in an error for a guest.
const MAX_CAUSES: usize = 100;

/// The API client of one plugin; a cheap clone.
#[derive(Clone)]
pub(crate) struct ApiCalls {
    pub(crate) plugin: Arc<str>,
    /// Records denied calls.
    pub(crate) denials: Arc<Denials>,
    pub(crate) grants: Grants,
    /// Sends requests with the plugin's identity.
    pub(crate) client: Client,
    /// Whether the server accepts connections; shared with all informers and plugins.
    pub(crate) availability: Arc<Availability>,
    /// Where writes are sent from.
    pub(crate) work: Handle,
    /// Counts writes in progress among the plugin's tasks: a write may outlive its call, and the plugin ends after it.
    pub(crate) tasks: TaskTracker,
    /// Records the writes that the caches must show before the next reconcile.
    pub(crate) writes: Arc<Writes>,
    /// Whether the host may write.
    pub(crate) election: LeaderElection,
}

/// Refuses options that the verb would not scope: one that is silently dropped could turn a call on a subresource, which
/// the grants allow, into one on the whole object, which they may not.
fn check_options(options: &CallOptions, verb: &ClientVerb) -> Result<(), Refusal> {
    let list = matches!(verb, ClientVerb::List);
    let delete = matches!(verb, ClientVerb::Delete(_));
    let apply = matches!(verb, ClientVerb::Patch { kind: PatchKind::Apply, .. });
    let body = matches!(verb, ClientVerb::Create(_) | ClientVerb::Update(_) | ClientVerb::Patch { .. });
    let on_object = matches!(verb, ClientVerb::Get(_) | ClientVerb::Update(_) | ClientVerb::Patch { .. });
    let selects = options.namespace.is_some()
        || !options.label_selector.is_empty()
        || !options.field_selector.is_empty()
        || options.limit != 0
        || options.continue_token.is_some()
        || options.resource_version.is_some();
    let foreign = [
        ("subresource", options.subresource.is_some() && !on_object),
        ("dryRun", options.dry_run && !body && !delete),
        ("fieldManager", options.field_manager.is_some() && !body),
        ("fieldValidation", options.field_validation.is_some() && !body),
        ("force", options.force && !apply),
        ("preconditions", options.preconditions.is_some() && !delete),
        ("propagationPolicy", options.propagation.is_some() && !delete),
        ("gracePeriodSeconds", options.grace_period_seconds.is_some() && !delete),
        ("namespace, labelSelector, fieldSelector, limit, continue and resourceVersion", selects && !list),
    ];
    match foreign.iter().find(|(_, given)| *given) {
        Some((name, _)) => {
            Err(Refusal::invalid(format_args!("options: {name} has no meaning for {}", verb_name(verb))))
        }
        None => Ok(()),
    }
}

fn api_error(error: &Error) -> ClientError {
    match error.status() {
        Some(status) => ClientError::Api(ApiStatus {
            code: status.code,
            reason: status.reason.clone(),
            message: error.to_string(),
            causes: causes(status),
            retry_after: error.retry_after(),
        }),
        None if matches!(error, Error::Request(_)) => Refusal::invalid(error).into(),
        None => Refusal::unavailable(error).into(),
    }
}

/// The causes of a Status, up to the maximum.
fn causes(status: &Status) -> Vec<StatusCause> {
    let causes = status.details.iter().flat_map(|details| &details.causes).take(MAX_CAUSES);
    let cause = |cause: &pilothouse_client::StatusCause| StatusCause {
        reason: cause.reason.clone(),
        message: cause.message.clone(),
        field: cause.field.clone(),
    };
    causes.map(cause).collect()
}

/// The error of a call while the server refuses connections.
fn away() -> Refusal {
    Refusal::unavailable("the API server refuses connections; the host retries in the background")
}

/// The error of a write while another host is the leader.
fn standing_by() -> Refusal {
    Refusal::unavailable("this host is not the leader (--leader-elect): only the leader writes")
}

/// Reports the result of a request to the shared availability. A request that was neither answered nor refused says nothing
/// about the server.
fn settle<T>(permit: Permit, outcome: &Result<T, Error>) {
    match outcome {
        Ok(_) | Err(Error::Api(_) | Error::Protocol { .. }) => permit.settle(false),
        Err(error) if error.is_connection_refused() => permit.settle(true),
        Err(_) => drop(permit),
    }
}

/// The object of a call, for the check of grants.
struct Target {
    namespace: Option<String>,
    name: Option<String>,
}

impl ApiCalls {
    pub(crate) fn call(&self, call: ClientCall) -> ClientFuture {
        let live = self.clone();
        Box::pin(async move {
            check_options(&call.options, &call.verb)?;
            body::refuse_partial(&call.verb)?;
            let target = target(&call.verb, &call.options)?;
            let (resource, permit) = live.permitted(&call, &target).await?;
            match call.verb {
                ClientVerb::Get(_) | ClientVerb::List => live.read(&resource, call, permit).await,
                _ => live.write(resource, call, target, permit).await,
            }
        })
    }

    /// The resource of the call's kind, if the grants allow the call and the server accepts connections.
    async fn permitted(
        &self,
        call: &ClientCall,
        target: &Target,
    ) -> Result<(ApiResource, Permit), ClientError> {
        let verb = verb_name(&call.verb);
        let check = |verb: &str, plural: &str, place: Place<'_>| {
            let access = Access {
                verb,
                group: &call.kind.group,
                resource: plural,
                subresource: call.options.subresource.as_deref(),
                place,
                name: target.name.as_deref(),
            };
            let refusal = |missing| {
                let message = format!("plugin {}: {missing}", self.plugin);
                self.denials.record(Denied::Live, &message);
                Refusal::forbidden(message)
            };
            self.grants.check(&access).map_err(refusal)
        };
        let namespace = target.namespace.as_deref();
        // A group that no rule names is refused without even asking the server how its resources are called.
        if !self.grants.mentions_group(verb, &call.kind.group) {
            check(verb, &guess_plural(&call.kind.kind), Place::of_object(namespace))?;
        }
        let permit = self.availability.try_enter().ok_or_else(away)?;
        let resource = match self.client.discover_charged(&call.kind).await {
            Ok(resource) => resource,
            Err(error) => {
                // An answer from the client's memory says nothing about the server; a refused connection does.
                if error.is_connection_refused() {
                    permit.settle(true);
                }
                return Err(api_error(&error));
            }
        };
        let place = match namespace {
            _ if !resource.namespaced => Place::Cluster,
            Some(namespace) => Place::Namespace(namespace),
            None => Place::AllNamespaces,
        };
        check(verb, &resource.plural, place)?;
        if matches!(call.verb, ClientVerb::Patch { kind: PatchKind::Apply, .. }) {
            // An apply creates a missing object; the API server checks both verbs as well.
            check("create", &resource.plural, place)?;
        }
        if let ClientVerb::Update(body) = &call.verb
            && call.options.subresource.is_none()
            && body::update_creates(&resource, body)
        {
            check("create", &resource.plural, place)?;
        }
        Ok((resource, permit))
    }

    async fn read(
        &self,
        resource: &ApiResource,
        call: ClientCall,
        permit: Permit,
    ) -> Result<ClientAnswer, ClientError> {
        let ClientCall { verb, options, max_bytes, .. } = call;
        if let ClientVerb::Get(key) = verb {
            let object = self.client.get(resource, &key, options.subresource.as_deref()).await;
            settle(permit, &object);
            return object.map(ClientAnswer::Object).map_err(|e| api_error(&e));
        }
        let params = ListParams {
            label_selector: options.label_selector,
            field_selector: options.field_selector,
            resource_version: options.resource_version,
            limit: if options.limit == 0 { PAGE_SIZE } else { options.limit.min(PAGE_SIZE) },
            continue_token: options.continue_token,
            ..ListParams::default()
        };
        let mut items = Vec::new();
        let mut room = max_bytes;
        // Servers ignore the limit of a list from version "0", and answer with all objects.
        let mut keep = |object: Object| match room.checked_sub(object.json().len() + HANDLE_BYTES) {
            Some(left) => {
                room = left;
                items.push(object);
                Ok(())
            }
            // The rest is not downloaded.
            None => Err(Error::Request(format!(
                "the page exceeds the {max_bytes} bytes that the call has left for objects (limits.handleBytes): ask for \
                 smaller pages with a limit and without a resourceVersion, drop objects, or read the cache"
            ))),
        };
        let page =
            self.client.list_page_until(resource, options.namespace.as_deref(), &params, &mut keep).await;
        settle(permit, &page);
        let meta = page.map_err(|e| api_error(&e))?;
        Ok(ClientAnswer::Page {
            items,
            continue_token: Some(meta.continue_token).filter(|token| !token.is_empty()),
            resource_version: meta.resource_version,
        })
    }

    async fn write(
        &self,
        resource: ApiResource,
        call: ClientCall,
        target: Target,
        permit: Permit,
    ) -> Result<ClientAnswer, ClientError> {
        let (answered, answer) = oneshot::channel();
        let live = self.clone();
        let write = async move {
            let verb = verb_name(&call.verb);
            let outcome = live.send(&resource, &call.verb, call.options, &target, permit).await;
            if let Err(outcome) = answered.send(outcome) {
                tracing::warn!(
                    event = "write_outlived_call", plugin = &*live.plugin,
                    key = call.context.key.as_ref().map(tracing::field::display),
                    call = call.context.call_id,
                    verb,
                    kind = %call.kind,
                    name = target.name,
                    outcome = outcome.map_or_else(|e| e.message().to_owned(), |_| "done".to_owned()),
                    "a write outlived the call that made it"
                );
            }
        };
        self.tasks.spawn_on(write, &self.work);
        answer.await.map_err(|_| Refusal::unavailable("the host is shutting down"))?
    }

    async fn send(
        &self,
        resource: &ApiResource,
        verb: &ClientVerb,
        options: CallOptions,
        target: &Target,
        permit: Permit,
    ) -> Result<ClientAnswer, ClientError> {
        // Right before the request: discovery may have taken long, and the process may have been stopped.
        if !self.election.is_leader() {
            return Err(standing_by().into());
        }
        let params = WriteParams {
            subresource: options.subresource,
            field_manager: options.field_manager,
            dry_run: options.dry_run,
            field_validation: options.field_validation,
        };
        let object = match verb {
            ClientVerb::Create(body) => {
                self.client.create(resource, target.namespace.as_deref(), body, &params).await
            }
            ClientVerb::Update(body) => {
                let name = target.name.as_deref().unwrap_or_default();
                let key = ObjectKey::new(target.namespace.as_deref(), name).map_err(Refusal::invalid)?;
                self.client.update(resource, &key, body, &params).await
            }
            ClientVerb::Patch { key, kind, body } => {
                let patch = match kind {
                    PatchKind::Json => Patch::Json(body),
                    PatchKind::Merge => Patch::Merge(body),
                    PatchKind::Strategic => Patch::Strategic(body),
                    PatchKind::Apply => Patch::Apply { body, force: options.force },
                };
                self.client.patch(resource, key, patch, &params).await
            }
            ClientVerb::Delete(key) => {
                let conditions = options.preconditions.unwrap_or_default();
                let params = DeleteParams {
                    preconditions: Preconditions {
                        uid: conditions.uid,
                        resource_version: conditions.resource_version,
                    },
                    propagation: options.propagation.map(|dependents| match dependents {
                        Dependents::Orphan => Propagation::Orphan,
                        Dependents::Background => Propagation::Background,
                        Dependents::Foreground => Propagation::Foreground,
                    }),
                    grace_period_seconds: options.grace_period_seconds,
                    dry_run: options.dry_run,
                };
                let deleted = self.client.delete(resource, key, &params).await;
                settle(permit, &deleted);
                if let (Ok(deleted), false) = (&deleted, params.dry_run) {
                    let written = Written::by_delete(deleted, key, params.preconditions.uid.as_deref());
                    written.into_iter().for_each(|written| self.note(resource, target, key.name(), written));
                }
                return deleted.map(|_| ClientAnswer::Deleted).map_err(|e| api_error(&e));
            }
            ClientVerb::Get(_) | ClientVerb::List => {
                return Err(Refusal::invalid("a read is no write").into());
            }
        };
        settle(permit, &object);
        if let (Ok(object), false) = (&object, params.dry_run) {
            self.note(resource, target, object.name(), Written::by_change(object));
        }
        object.map(ClientAnswer::Object).map_err(|e| api_error(&e))
    }

    /// Records a write before the guest has the answer: the next read of the guest must wait for it.
    fn note(&self, resource: &ApiResource, target: &Target, name: &str, written: Written<'_>) {
        let namespace = target.namespace.as_deref().filter(|_| resource.namespaced);
        self.writes.note(resource, namespace, name, written);
    }
}

fn verb_name(verb: &ClientVerb) -> &'static str {
    match verb {
        ClientVerb::Get(_) => "get",
        ClientVerb::List => "list",
        ClientVerb::Create(_) => "create",
        ClientVerb::Update(_) => "update",
        ClientVerb::Patch { .. } => "patch",
        ClientVerb::Delete(_) => "delete",
    }
}

fn target(verb: &ClientVerb, options: &CallOptions) -> Result<Target, Refusal> {
    Ok(match verb {
        ClientVerb::Get(key) | ClientVerb::Patch { key, .. } | ClientVerb::Delete(key) => {
            Target { namespace: key.namespace().map(str::to_owned), name: Some(key.name().to_owned()) }
        }
        ClientVerb::List => {
            Target { namespace: options.namespace.clone().filter(|ns| !ns.is_empty()), name: None }
        }
        ClientVerb::Create(body) | ClientVerb::Update(body) => {
            let body: Body =
                serde_json::from_slice(body).map_err(|e| Refusal::invalid(format_args!("body: {e}")))?;
            let BodyMeta { namespace, name, generate_name, .. } = body.metadata;
            let named = name.is_some() || (matches!(verb, ClientVerb::Create(_)) && generate_name.is_some());
            if !named {
                return Err(Refusal::invalid("body: metadata.name is missing"));
            }
            Target { namespace: namespace.filter(|ns| !ns.is_empty()), name }
        }
    })
}

/// How a kind's resource is most likely called, for the text of a refusal.
fn guess_plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.as_bytes() {
        [.., b's'] | [.., b'x'] | [.., b'c', b'h'] | [.., b's', b'h'] => format!("{kind}es"),
        [.., b'y'] => format!("{}ies", &kind[..kind.len() - 1]),
        _ => format!("{kind}s"),
    }
}

#[cfg(test)]
mod tests;
