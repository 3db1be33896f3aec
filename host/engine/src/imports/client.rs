//! The `client` interface: live calls to the API server. The guest's fiber is suspended meanwhile, so no thread blocks,
//! and the wait is not charged to its CPU budget. Reading options and bodies, and decoding answers, is charged.
//!
//! A write that the server has done is always answered as done: the limit of handles is looked at before it is sent, and
//! its answer may exceed it.

use pilothouse_object::{Object, ObjectKey as Key};
use wasmtime::component::Resource;

use super::{ImportCall, gvk, key};
use crate::bindings::pilothouse::controller::client::{ApiError, Gvk, Host, ObjectKey, Page};
use crate::host::{ClientAnswer, ClientCall, ClientVerb};
use crate::state::StoreState;

impl From<crate::host::ApiError> for ApiError {
    fn from(e: crate::host::ApiError) -> Self {
        Self {
            code: e.code,
            reason: e.reason,
            message: e.message,
            retry_after_seconds: e.retry_after_seconds,
        }
    }
}

/// An error of the host itself, without a response of the server.
fn local(reason: &str, message: String) -> ApiError {
    ApiError { code: 0, reason: reason.to_owned(), message, retry_after_seconds: None }
}

fn checked(k: &ObjectKey) -> Result<Key, ApiError> {
    key(k).map_err(|e| local("invalid", e.to_string()))
}

impl StoreState {
    async fn call(&mut self, kind: Gvk, verb: ClientVerb, options: String) -> Result<ClientAnswer, ApiError> {
        let max_bytes = self.handles.free_bytes();
        let call = ClientCall { kind: gvk(kind), verb, options, max_bytes, context: self.call.get() };
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
            ClientVerb::Get(_) | ClientVerb::List | ClientVerb::Delete(_) => None,
        };
        sent.map_or(Ok(()), |body| self.handles.check_room_for_write(body))?;
        Ok(match self.call(kind, verb, options).await {
            Ok(ClientAnswer::Object(object)) => Ok(match sent {
                Some(_) => self.handles.push_written(object)?,
                None => self.handles.push_live(object)?,
            }),
            Ok(other) => Err(local("invalid", format!("the server answered no object: {other:?}"))),
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
            Ok(ClientAnswer::Page { items, continue_token, resource_version }) => {
                let items: wasmtime::Result<Vec<_>> =
                    items.into_iter().map(|object| self.handles.push_live(object)).collect();
                Ok(Page { items: items?, continue_token, resource_version })
            }
            Ok(other) => Err(local("invalid", format!("the server answered no list: {other:?}"))),
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
        match checked(&k) {
            Ok(key) => self.call_for_object(kind, ClientVerb::Patch { key, patch_type, body }, options).await,
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
