//! The `cache` interface: reads from the host's stores, within the plugin's grants.
//!
//! Reads run on the guest's thread and are charged to its CPU budget. Only the wait for writes is not charged.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_object::Object;
use serde::Deserialize;
use wasmtime::component::Resource;

use super::{gvk, json, key, reason, wit_key};
use crate::bindings::v0_1::pilothouse::controller::cache::{CacheError, Gvk, Host, HostCursor, ObjectKey};
use crate::handles::Entry;
use crate::host::{CacheQuery, ObjectCursor, Refusal};
use crate::imports::scan::{Scan, portion, remaining};
use crate::imports::{Answer, Cursor, ImportCall};
use crate::state::StoreState;

/// The cost of a text in an answer: its bytes, and its pointer and length in the guest.
fn text_bytes(text: &str) -> usize {
    text.len() + 8
}

impl From<Refusal> for CacheError {
    fn from(refusal: Refusal) -> Self {
        Self { reason: reason(refusal.reason).to_owned(), message: refusal.message }
    }
}

/// The parameter `query`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Query {
    namespace: Option<String>,
    label_selector: String,
}

impl StoreState {
    fn listed(&self, kind: Gvk, query: &str) -> Result<Box<dyn ObjectCursor>, Refusal> {
        let query: Query = json("query", query)?;
        let namespace = query.namespace.as_deref().unwrap_or_default();
        self.host.cache_list(
            &gvk(kind),
            CacheQuery { namespace, label_selector: &query.label_selector, index: None },
        )
    }

    fn cursor(
        &mut self,
        objects: Result<Box<dyn ObjectCursor>, Refusal>,
    ) -> wasmtime::Result<Result<Resource<Cursor>, CacheError>> {
        Ok(match objects {
            Ok(objects) => Ok(self.handles.push(Entry::Cursor(Cursor(objects)), 0)?),
            Err(refusal) => Err(refusal.into()),
        })
    }
}

impl Host for ImportCall<'_> {
    fn get(
        &mut self,
        kind: Gvk,
        k: ObjectKey,
    ) -> wasmtime::Result<Result<Option<Resource<Object>>, CacheError>> {
        let k = match key(&k) {
            Ok(k) => k,
            Err(error) => return Ok(Err(Refusal::invalid(error).into())),
        };
        Ok(match self.host.cache_get(&gvk(kind), &k) {
            Ok(object) => Ok(object.map(|object| self.read_alone(object)).transpose()?),
            Err(refusal) => Err(refusal.into()),
        })
    }

    fn list(&mut self, kind: Gvk, query: String) -> wasmtime::Result<Result<Resource<Cursor>, CacheError>> {
        let objects = self.listed(kind, &query);
        self.cursor(objects)
    }

    fn keys(&mut self, kind: Gvk, query: String) -> wasmtime::Result<Result<Vec<ObjectKey>, CacheError>> {
        let mut objects = match self.listed(kind, &query) {
            Ok(objects) => objects,
            Err(refusal) => return Ok(Err(refusal.into())),
        };
        let mut room = Answer::new("keys", self.limits.answer_bytes);
        let mut keys = Vec::new();
        let mut added = Ok(());
        let mut scan = Scan::new(&self.budget);
        objects.visit_keys(&mut |key| {
            if let Some(key) = key {
                let (namespace, name) = (key.namespace().unwrap_or_default(), key.name());
                added = room.add(text_bytes(namespace) + text_bytes(name));
                if added.is_err() {
                    return ControlFlow::Break(());
                }
                keys.push(wit_key(key));
            }
            scan.look()
        });
        scan.end()?;
        added?;
        Ok(Ok(keys))
    }

    fn by_index(
        &mut self,
        kind: Gvk,
        index: String,
        value: String,
    ) -> wasmtime::Result<Result<Resource<Cursor>, CacheError>> {
        let query = CacheQuery { index: Some((&index, &value)), ..CacheQuery::default() };
        let objects = self.host.cache_list(&gvk(kind), query);
        self.cursor(objects)
    }

    fn index_values(
        &mut self,
        kind: Gvk,
        index: String,
    ) -> wasmtime::Result<Result<Vec<String>, CacheError>> {
        let mut room = Answer::new("index-values", self.limits.answer_bytes);
        let mut values = Vec::new();
        let mut added = Ok(());
        let mut scan = Scan::new(&self.budget);
        let listed = self.host.cache_index_values(&gvk(kind), &index, &mut |value| {
            if let Some(value) = value {
                added = room.add(text_bytes(value));
                if added.is_err() {
                    return ControlFlow::Break(());
                }
                values.push(value.to_owned());
            }
            scan.look()
        });
        scan.end()?;
        added?;
        Ok(listed.map(|()| values).map_err(Into::into))
    }

    async fn wait_for_writes(&mut self, milliseconds: u32) -> wasmtime::Result<bool> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        // A tenth of the remaining time is left for the guest to act on the result.
        let limit = Duration::from_millis(milliseconds.into()).min(left - left / 10);
        let wait = self.host.cache_wait_for_writes(limit);
        Ok(wait.await)
    }
}

impl HostCursor for ImportCall<'_> {
    fn next(&mut self, this: Resource<Cursor>, max: u32) -> wasmtime::Result<Vec<Resource<Object>>> {
        let most = (max as usize).min(self.limits.page_objects);
        let budget = Arc::clone(&self.budget);
        let Cursor(objects) = self.handles.get(&this)?;
        let objects = portion(most, &budget, |visit| objects.visit(visit))?;
        objects.into_iter().map(|object| Ok(self.handles.push_cached(object)?)).collect()
    }

    fn remaining(&mut self, this: Resource<Cursor>) -> wasmtime::Result<u32> {
        let budget = Arc::clone(&self.budget);
        let left = remaining(&*self.handles.get(&this)?.0, &budget)?;
        Ok(u32::try_from(left).unwrap_or(u32::MAX))
    }

    fn drop(&mut self, this: Resource<Cursor>) -> wasmtime::Result<()> {
        self.handles.delete(&this);
        Ok(())
    }
}
