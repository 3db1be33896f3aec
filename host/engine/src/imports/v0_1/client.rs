//! The `client` interface: live calls to the API server. The guest's fiber is suspended meanwhile, so no thread blocks,
//! and the wait is not charged to its CPU budget. Reading options and bodies, and decoding answers, is charged.
//!
//! A write that the server has done is always answered as done: the limit of handles is looked at before it is sent, and
//! its answer may exceed it.

use pilothouse_object::{Object, ObjectKey as Key};
use serde::Deserialize;
use wasmtime::component::Resource;

use super::{gvk, json, key, reason};
use crate::bindings::v0_1::pilothouse::controller::client::{ApiError, Gvk, Host, ObjectKey, Page};
use crate::host::{
    CallOptions, CallPreconditions, ClientAnswer, ClientCall, ClientError, ClientVerb, Dependents, PatchKind,
    Refusal,
};
use crate::imports::ImportCall;
use crate::state::StoreState;

/// The parameter `options`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Options {
    subresource: Option<String>,
    dry_run: bool,
    field_manager: Option<String>,
    field_validation: Option<String>,
    force: bool,
    preconditions: Option<Conditions>,
    propagation_policy: Option<Policy>,
    grace_period_seconds: Option<u32>,
    namespace: Option<String>,
    label_selector: String,
    field_selector: String,
    limit: u32,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
    resource_version: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Conditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

#[derive(Deserialize, Clone, Copy)]
enum Policy {
    Orphan,
    Background,
    Foreground,
}

impl From<Options> for CallOptions {
    fn from(options: Options) -> Self {
        let preconditions = options
            .preconditions
            .map(|Conditions { uid, resource_version }| CallPreconditions { uid, resource_version });
        Self {
            subresource: options.subresource,
            dry_run: options.dry_run,
            field_manager: options.field_manager,
            field_validation: options.field_validation,
            force: options.force,
            preconditions,
            propagation: options.propagation_policy.map(|policy| match policy {
                Policy::Orphan => Dependents::Orphan,
                Policy::Background => Dependents::Background,
                Policy::Foreground => Dependents::Foreground,
            }),
            grace_period_seconds: options.grace_period_seconds,
            namespace: options.namespace,
            label_selector: options.label_selector,
            field_selector: options.field_selector,
            limit: options.limit,
            continue_token: options.continue_token,
            resource_version: options.resource_version,
            ..Self::default()
        }
    }
}

impl From<ClientError> for ApiError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(refusal) => Self {
                code: 0,
                reason: reason(refusal.reason).to_owned(),
                message: refusal.message,
                retry_after_seconds: None,
            },
            ClientError::Api(status) => Self {
                code: status.code,
                reason: status.reason,
                message: status.message,
                retry_after_seconds: status.retry_after.and_then(|time| u32::try_from(time.as_secs()).ok()),
            },
        }
    }
}

fn invalid(message: impl std::fmt::Display) -> ApiError {
    ClientError::from(Refusal::invalid(message)).into()
}

fn checked(k: &ObjectKey) -> Result<Key, ApiError> {
    key(k).map_err(invalid)
}

fn patch_kind(name: &str) -> Result<PatchKind, ApiError> {
    Ok(match name {
        "json" => PatchKind::Json,
        "merge" => PatchKind::Merge,
        "strategic" => PatchKind::Strategic,
        "apply" => PatchKind::Apply,
        other => {
            return Err(invalid(format_args!("patch type {other:?}: use json, merge, strategic or apply")));
        }
    })
}

impl StoreState {
    async fn call(&mut self, kind: Gvk, verb: ClientVerb, options: String) -> Result<ClientAnswer, ApiError> {
        let max_bytes = self.handles.free_bytes();
        let options: Options = json("options", &options).map_err(ClientError::from)?;
        let context = self.call.get();
        let call =
            ClientCall { cluster: 0, kind: gvk(kind), verb, options: options.into(), max_bytes, context };
        self.host.client(call).await.map_err(ApiError::from)
    }

    async fn call_for_object(
        &mut self,
        kind: Gvk,
        verb: ClientVerb,
        options: String,
    ) -> wasmtime::Result<Result<Resource<Object>, ApiError>> {
        let sent = match &verb {
            ClientVerb::Create(body) | ClientVerb::Update(body) | ClientVerb::Patch { body, .. } => {
                Some(body.len())
            }
            _ => None,
        };
        sent.map_or(Ok(()), |body| self.handles.check_room_for_write(body))?;
        Ok(match self.call(kind, verb, options).await {
            Ok(ClientAnswer::Object(object)) => Ok(match sent {
                Some(_) => self.handles.push_written(object, 0)?,
                None => self.handles.push_live(object, 0)?,
            }),
            Ok(other) => Err(invalid(format_args!("the server answered no object: {other:?}"))),
            Err(error) => Err(error),
        })
    }
}

impl Host for ImportCall<'_> {
    async fn get(
        &mut self,
        kind: Gvk,
        k: ObjectKey,
        options: String,
    ) -> wasmtime::Result<Result<Resource<Object>, ApiError>> {
        match checked(&k) {
            Ok(k) => self.call_for_object(kind, ClientVerb::Get(k), options).await,
            Err(error) => Ok(Err(error)),
        }
    }

    async fn list(&mut self, kind: Gvk, options: String) -> wasmtime::Result<Result<Page, ApiError>> {
        Ok(match self.call(kind, ClientVerb::List, options).await {
            Ok(ClientAnswer::Page { items, continue_token, resource_version, remaining_items: _ }) => {
                let items: wasmtime::Result<Vec<_>> =
                    items.into_iter().map(|object| Ok(self.handles.push_live(object, 0)?)).collect();
                Ok(Page { items: items?, continue_token, resource_version })
            }
            Ok(other) => Err(invalid(format_args!("the server answered no list: {other:?}"))),
            Err(error) => Err(error),
        })
    }

    async fn create(
        &mut self,
        kind: Gvk,
        body: Vec<u8>,
        options: String,
    ) -> wasmtime::Result<Result<Resource<Object>, ApiError>> {
        self.call_for_object(kind, ClientVerb::Create(body), options).await
    }

    async fn update(
        &mut self,
        kind: Gvk,
        body: Vec<u8>,
        options: String,
    ) -> wasmtime::Result<Result<Resource<Object>, ApiError>> {
        self.call_for_object(kind, ClientVerb::Update(body), options).await
    }

    async fn patch(
        &mut self,
        kind: Gvk,
        k: ObjectKey,
        patch_type: String,
        body: Vec<u8>,
        options: String,
    ) -> wasmtime::Result<Result<Resource<Object>, ApiError>> {
        let verb =
            checked(&k).and_then(|key| Ok(ClientVerb::Patch { key, kind: patch_kind(&patch_type)?, body }));
        match verb {
            Ok(verb) => self.call_for_object(kind, verb, options).await,
            Err(error) => Ok(Err(error)),
        }
    }

    async fn delete(
        &mut self,
        kind: Gvk,
        k: ObjectKey,
        options: String,
    ) -> wasmtime::Result<Result<(), ApiError>> {
        Ok(match checked(&k) {
            Ok(k) => self.call(kind, ClientVerb::Delete(k), options).await.map(drop),
            Err(error) => Err(error),
        })
    }
}
