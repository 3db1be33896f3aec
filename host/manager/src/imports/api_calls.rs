//! [`ApiCalls`]: a plugin's live calls to the API server.
//!
//! A call is checked against the plugin's grants before anything is sent. Requests carry the plugin's own User-Agent, field
//! manager and, where the manifest names a service account, identity. A write runs on the host's network runtime: when the
//! guest's call is cut meanwhile, the write goes on and its outcome is logged. While the server refuses connections a call
//! fails at once, because the caches already retry. Only the leader writes.

mod body;
mod observed;
mod operation;
mod review;
mod write_room;

use std::sync::Arc;

use pilothouse_cache::{Availability, Permit};
use pilothouse_client::{
    ApiResource, Client, DeleteParams, Deleted, Error, ListParams, LogParams, PAGE_SIZE, Patch,
    Preconditions, Propagation, ResourceVersionMatch, Status, WriteParams,
};
use pilothouse_engine::{
    ApiStatus, CallOptions, ClientAnswer, ClientCall, ClientError, ClientFuture, ClientVerb, Dependents,
    HANDLE_BYTES, PatchKind, Refusal, StatusCause, VersionMatch,
};
use pilothouse_object::{Gvk, Object, ObjectKey};
use pilothouse_plugin::{Access, Grants, Missing, Place, guess_plural};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, Span};

use self::observed::span;
use self::operation::{Target, check_options, target, verb_name};
pub(crate) use self::write_room::WriteRoom;
use crate::dispatch::writes::{Writes, Written};
use crate::leader_election::LeaderElection;
use crate::observe::denials::{Denials, Denied};
use crate::observe::metrics::PluginMetrics;

/// Maximum number of causes in an error for a guest.
const MAX_CAUSES: usize = 100;

/// The API client of one plugin; a cheap clone.
#[derive(Clone)]
pub(crate) struct ApiCalls {
    pub(crate) plugin: Arc<str>,
    /// The name of the remote cluster that the calls go to; none: they go to the cluster of the run.
    pub(crate) remote_cluster: Option<Arc<str>>,
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
    /// Bounds the writes in progress, for all clusters together.
    pub(crate) write_room: WriteRoom,
    /// Whether the host may write. The client asks again when it sends.
    pub(crate) election: LeaderElection,
    pub(crate) metrics: Arc<PluginMetrics>,
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

/// Whether a request that ended so may have been carried out.
fn may_be_done<T>(outcome: &Result<T, Error>) -> bool {
    !matches!(outcome, Err(Error::Transport { unsent: true, .. } | Error::Config(_) | Error::Request(_)))
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

impl ApiCalls {
    /// The error of a call while the server refuses connections.
    pub(crate) fn away(&self) -> Refusal {
        match &self.remote_cluster {
            None => {
                Refusal::unavailable("the API server refuses connections; the host retries in the background")
            }
            Some(name) => Refusal::unavailable(format_args!(
                "cluster {name:?}: the API server refuses connections; call again later, the host tries with the next calls"
            )),
        }
    }

    /// Makes a call.
    pub(crate) fn call(&self, call: ClientCall) -> ClientFuture {
        let live = self.clone();
        Box::pin(async move {
            check_options(&call.options, &call.verb)?;
            body::refuse_partial(&call.verb)?;
            let target = target(&call.verb, &call.options)?;
            if matches!(call.verb, ClientVerb::May { .. }) {
                return live.may(&call, &target).await;
            }
            let (resource, permit) = live.permitted(&call, &target).await?;
            match call.verb {
                ClientVerb::Get(_) | ClientVerb::List | ClientVerb::PodLog(_) => {
                    live.read(&resource, call, permit).await
                }
                _ => {
                    // Before the term is looked at, which may end during the wait.
                    let room = live.write_room.enter(&call.verb).await;
                    live.write(resource, call, target, permit, room).await
                }
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
        let subresource = match call.verb {
            ClientVerb::PodLog(_) => Some("log"),
            _ => call.options.subresource.as_deref(),
        };
        let check = |verb: &str, plural: &str, place: Place<'_>| {
            let access = Access {
                verb,
                group: &call.kind.group,
                resource: plural,
                subresource,
                place,
                name: target.name.as_deref(),
            };
            let refusal = |missing: Missing| {
                let missing = match &self.remote_cluster {
                    Some(name) => missing.in_remote_cluster(name),
                    None => missing,
                };
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
        let (resource, permit) = self.discovered(&call.kind).await?;
        let place = place(&resource, namespace);
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

    /// The resource of a kind, if the server accepts connections.
    async fn discovered(&self, kind: &Gvk) -> Result<(ApiResource, Permit), ClientError> {
        let permit = self.availability.try_enter().ok_or_else(|| self.away())?;
        match self.client.discover_charged(kind).await {
            Ok(resource) => Ok((resource, permit)),
            Err(error) => {
                // An answer from the client's memory says nothing about the server; a refused connection does.
                if error.is_connection_refused() {
                    permit.settle(true);
                }
                Err(api_error(&error))
            }
        }
    }

    async fn read(
        &self,
        resource: &ApiResource,
        call: ClientCall,
        permit: Permit,
    ) -> Result<ClientAnswer, ClientError> {
        let ClientCall { verb, options, max_bytes, .. } = call;
        if let ClientVerb::Get(key) = verb {
            let object = match &options.resource_version {
                Some(version) => {
                    let subresource = options.subresource.as_deref();
                    self.client.get_not_older(resource, &key, subresource, version).await
                }
                None => self.client.get(resource, &key, options.subresource.as_deref()).await,
            };
            settle(permit, &object);
            return object.map(ClientAnswer::Object).map_err(|e| api_error(&e));
        }
        if let ClientVerb::PodLog(key) = verb {
            let CallOptions { container, tail_lines, previous, .. } = options;
            let params = LogParams { container, tail_lines, previous, limit_bytes: max_bytes };
            let log = self.client.pod_log(&key, &params).await;
            settle(permit, &log);
            return log.map(ClientAnswer::Log).map_err(|e| api_error(&e));
        }
        let params = ListParams {
            label_selector: options.label_selector,
            field_selector: options.field_selector,
            resource_version: options.resource_version,
            resource_version_match: options.version_match.map(|of| match of {
                VersionMatch::Exact => ResourceVersionMatch::Exact,
                VersionMatch::NotOlderThan => ResourceVersionMatch::NotOlderThan,
            }),
            limit: if options.limit == 0 { PAGE_SIZE } else { options.limit.min(PAGE_SIZE) },
            continue_token: options.continue_token,
            ..ListParams::default()
        };
        let mut items = Vec::new();
        let mut room = max_bytes;
        let mut has_room = true;
        // Servers ignore the limit of a list from version "0", and answer with all objects.
        let mut keep = |object: Object| match room.checked_sub(object.json().len() + HANDLE_BYTES) {
            Some(left) => {
                room = left;
                items.push(object);
                Ok(())
            }
            // The rest is not downloaded.
            None => {
                has_room = false;
                Err(Error::Request(format!(
                    "the page exceeds the {max_bytes} bytes that the call has left for objects (limits.handleBytes): ask \
                     for smaller pages with a limit and without a resourceVersion, drop objects, or read the cache"
                )))
            }
        };
        let page =
            self.client.list_page_until(resource, options.namespace.as_deref(), &params, &mut keep).await;
        settle(permit, &page);
        let meta = page.map_err(|e| if has_room { api_error(&e) } else { Refusal::over_limit(e).into() })?;
        Ok(ClientAnswer::Page {
            items,
            continue_token: Some(meta.continue_token).filter(|token| !token.is_empty()),
            resource_version: meta.resource_version,
            remaining_items: meta.remaining_item_count,
        })
    }

    /// Makes a write in the span of its call. Keeps the room until it is over.
    async fn write(
        &self,
        resource: ApiResource,
        call: ClientCall,
        target: Target,
        permit: Permit,
        room: Option<OwnedSemaphorePermit>,
    ) -> Result<ClientAnswer, ClientError> {
        let (answered, answer) = oneshot::channel();
        let (live, within) = (self.clone(), Span::current());
        let write = async move {
            let _room = room;
            let verb = verb_name(&call.verb);
            let outcome = live.send(&resource, &call, &target, permit, within).await;
            if let Err(outcome) = answered.send(outcome) {
                tracing::warn!(
                    event = "write_outlived_call", plugin = &*live.plugin,
                    key = call.context.key.as_ref().map(tracing::field::display),
                    call = call.context.call_id,
                    remote_cluster = live.remote_cluster.as_deref(),
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
        call: &ClientCall,
        target: &Target,
        permit: Permit,
        within: Span,
    ) -> Result<ClientAnswer, ClientError> {
        // A clear refusal before any wait; the client's gate asks again right before the request.
        if !self.election.is_leader() {
            if self.election.was_elected() {
                self.metrics.late_writes.inc();
            }
            return Err(Refusal::unavailable(self.election.why_not("writes")).into());
        }
        let write = self.as_write(resource, call, target);
        let span = span(&within, &write);
        // It ends with the call, whatever is left to do here.
        drop(within);
        let outcome =
            self.request(resource, &call.verb, &call.options, target).instrument(span.clone()).await;
        settle(permit, &outcome);
        // Others may have begun to work while it was under way. One that was not sent is counted by the client's gate.
        if may_be_done(&outcome) && !self.election.is_leader() {
            self.metrics.outlived_writes.inc();
        }
        self.observe(&span, &write, call, &outcome);
        outcome.map_err(|error| api_error(&error))
    }

    /// Sends a write, and records what the caches must show of it.
    async fn request(
        &self,
        resource: &ApiResource,
        verb: &ClientVerb,
        options: &CallOptions,
        target: &Target,
    ) -> Result<ClientAnswer, Error> {
        let params = WriteParams {
            subresource: options.subresource.clone(),
            field_manager: options.field_manager.clone(),
            dry_run: options.dry_run,
            field_validation: options.field_validation.clone(),
        };
        let object = match verb {
            ClientVerb::Create(body) if let Some(key) = &options.target => {
                // It is no object of its own. What it does to its object is not known, and is not waited for.
                let created = self.client.create_subresource(resource, key, body, &params).await;
                return created.map(ClientAnswer::Object);
            }
            ClientVerb::Create(body) => {
                self.client.create(resource, target.namespace.as_deref(), body, &params).await
            }
            ClientVerb::Update(body) => {
                let name = target.name.as_deref().unwrap_or_default();
                let key = ObjectKey::new(target.namespace.as_deref(), name)
                    .map_err(|error| Error::Request(error.to_string()))?;
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
                let params = delete_params(options);
                let deleted = self.client.delete(resource, key, &params).await?;
                if !params.dry_run {
                    let written = Written::by_delete(&deleted, key, params.preconditions.uid.as_deref());
                    written.into_iter().for_each(|written| self.note(resource, target, key.name(), written));
                }
                return Ok(ClientAnswer::Deleted(match deleted {
                    Deleted::Object(object) => Some(object),
                    Deleted::Status(_) => None,
                }));
            }
            ClientVerb::DeleteCollection => {
                let of = ListParams {
                    label_selector: options.label_selector.clone(),
                    field_selector: options.field_selector.clone(),
                    ..ListParams::default()
                };
                let namespace = target.namespace.as_deref();
                let params = delete_params(options);
                self.client.delete_collection(resource, namespace, &params, &of).await?;
                return Ok(ClientAnswer::Deleted(None));
            }
            ClientVerb::Get(_) | ClientVerb::List | ClientVerb::PodLog(_) | ClientVerb::May { .. } => {
                return Err(Error::Request("a read is no write".to_owned()));
            }
        };
        let object = object?;
        if !params.dry_run {
            self.note(resource, target, object.name(), Written::by_change(&object));
        }
        Ok(ClientAnswer::Object(object))
    }

    /// Records a write before the guest has the answer: the next read of the guest must wait for it.
    fn note(&self, resource: &ApiResource, target: &Target, name: &str, written: Written<'_>) {
        let namespace = target.namespace.as_deref().filter(|_| resource.namespaced);
        self.writes.note(resource, namespace, name, written);
    }
}

fn delete_params(options: &CallOptions) -> DeleteParams {
    let conditions = options.preconditions.clone().unwrap_or_default();
    DeleteParams {
        preconditions: Preconditions { uid: conditions.uid, resource_version: conditions.resource_version },
        propagation: options.propagation.map(|dependents| match dependents {
            Dependents::Orphan => Propagation::Orphan,
            Dependents::Background => Propagation::Background,
            Dependents::Foreground => Propagation::Foreground,
        }),
        grace_period_seconds: options.grace_period_seconds,
        dry_run: options.dry_run,
    }
}

/// Where a call on objects of a resource is.
fn place<'a>(resource: &ApiResource, namespace: Option<&'a str>) -> Place<'a> {
    match namespace {
        _ if !resource.namespaced => Place::Cluster,
        Some(namespace) => Place::Namespace(namespace),
        None => Place::AllNamespaces,
    }
}

#[cfg(test)]
pub(super) mod tests;
