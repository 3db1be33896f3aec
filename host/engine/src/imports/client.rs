//! The `client` interface: live calls to the API server. The guest's fiber is suspended meanwhile, so no thread blocks,
//! and the wait is not charged to its CPU budget. Reading bodies and decoding answers is charged.
//!
//! A write that the server has done is always answered as done: the limit of handles is looked at before it is sent, and
//! its answer may exceed it.

use pilothouse_object::{Gvk, Object};
use wasmtime::component::Resource;

use super::builders::{Builder, built, bytes_of, set_text};
use super::{CallFailed, MAX_TEXT, Refused, check_text, key};
use crate::bindings::pilothouse::controller::client::{
    FieldValidation, Host, HostOptions, HostPage, PatchKind as WitPatch, Propagation,
    VersionMatch as WitMatch,
};
use crate::handles::{Entry, HANDLE_BYTES};
use crate::host::{
    CallOptions, CallPreconditions, ClientAnswer, ClientCall, ClientVerb, Dependents, PatchKind, Refusal,
    VersionMatch,
};
use crate::imports::{ImportCall, Kind, Options, Page};
use crate::state::StoreState;

/// Maximum length in bytes of a body.
const MAX_BODY: usize = 3 << 20;

type OptionsHandle = Option<Resource<Options>>;

impl StoreState {
    async fn live_call(
        &mut self,
        kind: Kind,
        verb: ClientVerb,
        options: OptionsHandle,
    ) -> Result<ClientAnswer, CallFailed> {
        let Kind { cluster, kind } = kind;
        let options = match options {
            Some(handle) => built(&mut self.handles, &handle)?.options.clone(),
            None => CallOptions::default(),
        };
        let sent = match &verb {
            ClientVerb::Create(body) | ClientVerb::Update(body) | ClientVerb::Patch { body, .. } => {
                body.len()
            }
            // The server may answer with the object.
            ClientVerb::Delete(_) => 0,
            _ => {
                let max_bytes = match verb {
                    ClientVerb::PodLog(_) => self.limits.answer_bytes,
                    _ => self.handles.free_bytes(),
                };
                let context = self.call.get();
                return self.send(ClientCall { cluster, kind, verb, options, max_bytes, context }).await;
            }
        };
        if sent > MAX_BODY {
            return Err(Refusal::over_limit(format_args!(
                "the body has {sent} bytes, at most {MAX_BODY} are allowed, as of the API server"
            ))
            .into());
        }
        self.handles.check_room_for_write(sent)?;
        let max_bytes = self.handles.free_bytes();
        let context = self.call.get();
        self.send(ClientCall { cluster, kind, verb, options, max_bytes, context }).await
    }

    async fn send(&mut self, call: ClientCall) -> Result<ClientAnswer, CallFailed> {
        self.host.client(call).await.map_err(CallFailed::Error)
    }

    async fn write(
        &mut self,
        kind: Kind,
        verb: ClientVerb,
        options: OptionsHandle,
    ) -> Result<Resource<Object>, CallFailed> {
        let cluster = kind.cluster;
        match self.live_call(kind, verb, options).await? {
            ClientAnswer::Object(object) => Ok(self.handles.push_written(object, cluster)?),
            other => Err(other_answer("an object", &other)),
        }
    }
}

fn other_answer(wanted: &str, answer: &ClientAnswer) -> CallFailed {
    let answer = match answer {
        ClientAnswer::Object(_) => "an object",
        ClientAnswer::Page { .. } => "a list",
        ClientAnswer::Deleted(_) => "a delete",
        ClientAnswer::Log(_) => "a log",
        ClientAnswer::May(_) => "a review",
    };
    Refusal::unavailable(format_args!("the host answered {answer} instead of {wanted}")).into()
}

impl Host for ImportCall<'_> {
    async fn get(
        &mut self,
        kind: Resource<Kind>,
        namespace: String,
        name: String,
        options: OptionsHandle,
    ) -> Result<Resource<Object>, CallFailed> {
        let verb = ClientVerb::Get(key(&namespace, &name)?);
        let kind = self.kind(&kind)?.clone();
        let cluster = kind.cluster;
        match self.live_call(kind, verb, options).await? {
            ClientAnswer::Object(object) => Ok(self.handles.push_live(object, cluster)?),
            other => Err(other_answer("an object", &other)),
        }
    }

    async fn list(
        &mut self,
        kind: Resource<Kind>,
        options: OptionsHandle,
    ) -> Result<Resource<Page>, CallFailed> {
        let kind = self.kind(&kind)?.clone();
        let cluster = kind.cluster;
        match self.live_call(kind, ClientVerb::List, options).await? {
            ClientAnswer::Page { items, continue_token, resource_version, remaining_items } => {
                let held = items.iter().map(|object| object.json().len() + HANDLE_BYTES).sum();
                let page = Page { cluster, items, continue_token, resource_version, remaining_items };
                Ok(self.handles.push(Entry::Page(page), held)?)
            }
            other => Err(other_answer("a list", &other)),
        }
    }

    async fn create(
        &mut self,
        kind: Resource<Kind>,
        body: Vec<u8>,
        options: OptionsHandle,
    ) -> Result<Resource<Object>, CallFailed> {
        let kind = self.kind(&kind)?.clone();
        self.write(kind, ClientVerb::Create(body), options).await
    }

    async fn update(
        &mut self,
        kind: Resource<Kind>,
        body: Vec<u8>,
        options: OptionsHandle,
    ) -> Result<Resource<Object>, CallFailed> {
        let kind = self.kind(&kind)?.clone();
        self.write(kind, ClientVerb::Update(body), options).await
    }

    async fn patch(
        &mut self,
        kind: Resource<Kind>,
        namespace: String,
        name: String,
        patch: WitPatch,
        body: Vec<u8>,
        options: OptionsHandle,
    ) -> Result<Resource<Object>, CallFailed> {
        let key = key(&namespace, &name)?;
        let of = match patch {
            WitPatch::Json => PatchKind::Json,
            WitPatch::Merge => PatchKind::Merge,
            WitPatch::Strategic => PatchKind::Strategic,
            WitPatch::Apply => PatchKind::Apply,
        };
        let kind = self.kind(&kind)?.clone();
        self.write(kind, ClientVerb::Patch { key, kind: of, body }, options).await
    }

    async fn delete(
        &mut self,
        kind: Resource<Kind>,
        namespace: String,
        name: String,
        options: OptionsHandle,
    ) -> Result<Option<Resource<Object>>, CallFailed> {
        let verb = ClientVerb::Delete(key(&namespace, &name)?);
        let kind = self.kind(&kind)?.clone();
        let cluster = kind.cluster;
        match self.live_call(kind, verb, options).await? {
            ClientAnswer::Deleted(object) => {
                Ok(object.map(|object| self.handles.push_written(object, cluster)).transpose()?)
            }
            other => Err(other_answer("that it was deleted", &other)),
        }
    }

    async fn delete_collection(
        &mut self,
        kind: Resource<Kind>,
        options: OptionsHandle,
    ) -> Result<(), CallFailed> {
        let kind = self.kind(&kind)?.clone();
        match self.live_call(kind, ClientVerb::DeleteCollection, options).await? {
            ClientAnswer::Deleted(_) => Ok(()),
            other => Err(other_answer("that they were deleted", &other)),
        }
    }

    async fn pod_log(
        &mut self,
        cluster: u32,
        namespace: String,
        name: String,
        options: OptionsHandle,
    ) -> Result<Vec<u8>, CallFailed> {
        self.check_accessed(cluster)?;
        let verb = ClientVerb::PodLog(key(&namespace, &name)?);
        let kind = Kind { cluster, kind: Gvk::new("", "v1", "Pod") };
        match self.live_call(kind, verb, options).await? {
            ClientAnswer::Log(log) => Ok(log),
            other => Err(other_answer("a log", &other)),
        }
    }

    async fn may(
        &mut self,
        kind: Resource<Kind>,
        verb: String,
        subresource: String,
        namespace: String,
        name: String,
    ) -> Result<bool, CallFailed> {
        for (what, text) in
            [("verb", &verb), ("subresource", &subresource), ("namespace", &namespace), ("name", &name)]
        {
            check_text(what, text, MAX_TEXT)?;
        }
        let kind = self.kind(&kind)?.clone();
        match self.live_call(kind, ClientVerb::May { verb, subresource, namespace, name }, None).await? {
            ClientAnswer::May(may) => Ok(may),
            other => Err(other_answer("a review", &other)),
        }
    }
}

impl Builder for Options {
    fn held(&self) -> usize {
        // The others are no texts of the guest.
        let CallOptions {
            subresource,
            field_manager,
            preconditions,
            namespace,
            label_selector,
            field_selector,
            continue_token,
            resource_version,
            target,
            container,
            ..
        } = &self.options;
        let preconditions = preconditions
            .as_ref()
            .map_or(0, |conditions| bytes_of([&conditions.uid, &conditions.resource_version]));
        let texts = [subresource, field_manager, namespace, continue_token, resource_version, container];
        let target = target.as_ref().map_or(0, |key| key.as_str().len());
        bytes_of(texts) + preconditions + label_selector.len() + field_selector.len() + target
    }

    fn clear(&mut self) {
        self.options = CallOptions::default();
    }

    fn refusal(&mut self) -> &mut Option<Refusal> {
        &mut self.refusal
    }
}

impl StoreState {
    fn option_text<T: From<String>>(
        &mut self,
        this: &Resource<Options>,
        what: &str,
        text: String,
        slot: impl FnOnce(&mut CallOptions) -> &mut T,
    ) -> wasmtime::Result<()> {
        self.build(this, |options| set_text(slot(&mut options.options), what, text, MAX_TEXT))
    }

    fn set(&mut self, this: &Resource<Options>, set: impl FnOnce(&mut CallOptions)) -> wasmtime::Result<()> {
        set(&mut self.handles.get(this)?.options);
        Ok(())
    }
}

fn preconditions(options: &mut CallOptions) -> &mut CallPreconditions {
    options.preconditions.get_or_insert_default()
}

impl HostOptions for ImportCall<'_> {
    fn new(&mut self) -> Result<Resource<Options>, Refused> {
        Ok(self.handles.push_builder(Entry::Options(Box::default()), 0)?)
    }

    fn subresource(&mut self, this: Resource<Options>, name: String) -> wasmtime::Result<()> {
        self.option_text(&this, "subresource", name, |options| &mut options.subresource)
    }

    fn name(&mut self, this: Resource<Options>, namespace: String, name: String) -> wasmtime::Result<()> {
        self.build(&this, |options| {
            options.options.target = Some(key(&namespace, &name)?);
            Ok(())
        })
    }

    fn field_manager(&mut self, this: Resource<Options>, name: String) -> wasmtime::Result<()> {
        self.option_text(&this, "field-manager", name, |options| &mut options.field_manager)
    }

    fn field_validation(&mut self, this: Resource<Options>, mode: FieldValidation) -> wasmtime::Result<()> {
        let mode = match mode {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        };
        self.set(&this, |options| options.field_validation = Some(mode.to_owned()))
    }

    fn dry_run(&mut self, this: Resource<Options>) -> wasmtime::Result<()> {
        self.set(&this, |options| options.dry_run = true)
    }

    fn force(&mut self, this: Resource<Options>) -> wasmtime::Result<()> {
        self.set(&this, |options| options.force = true)
    }

    fn precondition_uid(&mut self, this: Resource<Options>, uid: String) -> wasmtime::Result<()> {
        self.option_text(&this, "precondition-uid", uid, |options| &mut preconditions(options).uid)
    }

    fn precondition_resource_version(
        &mut self,
        this: Resource<Options>,
        version: String,
    ) -> wasmtime::Result<()> {
        self.option_text(&this, "precondition-resource-version", version, |options| {
            &mut preconditions(options).resource_version
        })
    }

    fn propagation(&mut self, this: Resource<Options>, policy: Propagation) -> wasmtime::Result<()> {
        let policy = match policy {
            Propagation::Background => Dependents::Background,
            Propagation::Foreground => Dependents::Foreground,
            Propagation::Orphan => Dependents::Orphan,
        };
        self.set(&this, |options| options.propagation = Some(policy))
    }

    fn grace_period_seconds(&mut self, this: Resource<Options>, seconds: u32) -> wasmtime::Result<()> {
        self.set(&this, |options| options.grace_period_seconds = Some(seconds))
    }

    fn namespace(&mut self, this: Resource<Options>, name: String) -> wasmtime::Result<()> {
        self.option_text(&this, "namespace", name, |options| &mut options.namespace)
    }

    fn label_selector(&mut self, this: Resource<Options>, selector: String) -> wasmtime::Result<()> {
        self.option_text(&this, "label-selector", selector, |options| &mut options.label_selector)
    }

    fn field_selector(&mut self, this: Resource<Options>, selector: String) -> wasmtime::Result<()> {
        self.option_text(&this, "field-selector", selector, |options| &mut options.field_selector)
    }

    fn limit(&mut self, this: Resource<Options>, objects: u32) -> wasmtime::Result<()> {
        self.set(&this, |options| options.limit = objects)
    }

    fn continue_token(&mut self, this: Resource<Options>, token: String) -> wasmtime::Result<()> {
        self.option_text(&this, "continue-token", token, |options| &mut options.continue_token)
    }

    fn resource_version(
        &mut self,
        this: Resource<Options>,
        version: String,
        meaning: Option<WitMatch>,
    ) -> wasmtime::Result<()> {
        self.option_text(&this, "resource-version", version, |options| {
            options.version_match = meaning.map(|meaning| match meaning {
                WitMatch::Exact => VersionMatch::Exact,
                WitMatch::NotOlderThan => VersionMatch::NotOlderThan,
            });
            &mut options.resource_version
        })
    }

    fn container(&mut self, this: Resource<Options>, name: String) -> wasmtime::Result<()> {
        self.option_text(&this, "container", name, |options| &mut options.container)
    }

    fn tail_lines(&mut self, this: Resource<Options>, lines: u32) -> wasmtime::Result<()> {
        self.set(&this, |options| options.tail_lines = Some(lines))
    }

    fn previous(&mut self, this: Resource<Options>) -> wasmtime::Result<()> {
        self.set(&this, |options| options.previous = true)
    }

    fn drop(&mut self, this: Resource<Options>) -> wasmtime::Result<()> {
        self.handles.delete(&this);
        Ok(())
    }
}

impl HostPage for ImportCall<'_> {
    fn items(&mut self, this: Resource<Page>) -> wasmtime::Result<Vec<Resource<Object>>> {
        let page = self.handles.get(&this)?;
        let (items, cluster) = (std::mem::take(&mut page.items), page.cluster);
        // They had their room as a part of the page.
        self.handles.release(&this);
        let handles = items.into_iter().map(|object| Ok(self.handles.push_live(object, cluster)?));
        handles.collect()
    }

    fn continue_token(&mut self, this: Resource<Page>) -> wasmtime::Result<Option<String>> {
        Ok(self.handles.get(&this)?.continue_token.clone())
    }

    fn resource_version(&mut self, this: Resource<Page>) -> wasmtime::Result<String> {
        Ok(self.handles.get(&this)?.resource_version.clone())
    }

    fn remaining_items(&mut self, this: Resource<Page>) -> wasmtime::Result<Option<u64>> {
        Ok(self.handles.get(&this)?.remaining_items)
    }

    fn drop(&mut self, this: Resource<Page>) -> wasmtime::Result<()> {
        self.handles.delete(&this);
        Ok(())
    }
}
