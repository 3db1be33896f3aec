//! The `cache` interface: reads from the host's stores, within the plugin's grants.
//!
//! Reads run on the guest's thread and are charged to its CPU budget. Only the wait for writes is not charged.

use std::time::{Duration, Instant};

use pilothouse_object::Object;
use wasmtime::component::Resource;

use super::{Cursor, gvk, key};
use crate::bindings::pilothouse::controller::cache::{CacheError, Gvk, Host, HostCursor, ObjectKey};
use crate::host::{ObjectCursor, Refusal};
use crate::instance::wit_key;
use crate::state::StoreState;

impl From<Refusal> for CacheError {
    fn from(refusal: Refusal) -> Self {
        Self { reason: refusal.reason.to_owned(), message: refusal.message }
    }
}

fn invalid(error: &dyn std::fmt::Display) -> CacheError {
    Refusal { reason: "invalid", message: error.to_string() }.into()
}

impl StoreState {
    fn cursor(
        &mut self,
        objects: Result<Box<dyn ObjectCursor>, Refusal>,
    ) -> wasmtime::Result<Result<Resource<Cursor>, CacheError>> {
        Ok(match objects {
            Ok(objects) => Ok(self.handles.push(Cursor(objects))?),
            Err(refusal) => Err(refusal.into()),
        })
    }
}

impl Host for StoreState {
    fn get(
        &mut self,
        kind: Gvk,
        k: ObjectKey,
    ) -> wasmtime::Result<Result<Option<Resource<Object>>, CacheError>> {
        let k = match key(&k) {
            Ok(k) => k,
            Err(error) => return Ok(Err(invalid(&error))),
        };
        Ok(match self.host.cache_get(&gvk(kind), &k) {
            Ok(object) => Ok(object.map(|object| self.read_alone(object)).transpose()?),
            Err(refusal) => Err(refusal.into()),
        })
    }

    fn list(&mut self, kind: Gvk, query: String) -> wasmtime::Result<Result<Resource<Cursor>, CacheError>> {
        let objects = self.host.cache_list(&gvk(kind), &query);
        self.cursor(objects)
    }

    fn keys(&mut self, kind: Gvk, query: String) -> wasmtime::Result<Result<Vec<ObjectKey>, CacheError>> {
        let objects = self.host.cache_list(&gvk(kind), &query);
        Ok(objects.map(|objects| objects.map(|o| wit_key(o.key())).collect()).map_err(Into::into))
    }

    fn by_index(
        &mut self,
        kind: Gvk,
        index: String,
        value: String,
    ) -> wasmtime::Result<Result<Resource<Cursor>, CacheError>> {
        let objects = self.host.cache_by_index(&gvk(kind), &index, &value);
        self.cursor(objects)
    }

    fn index_values(
        &mut self,
        kind: Gvk,
        index: String,
    ) -> wasmtime::Result<Result<Vec<String>, CacheError>> {
        Ok(self.host.cache_index_values(&gvk(kind), &index).map_err(Into::into))
    }

    async fn wait_for_writes(&mut self, milliseconds: u32) -> wasmtime::Result<bool> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        // A tenth of the remaining time is left for the guest to act on the result.
        let limit = Duration::from_millis(milliseconds.into()).min(left - left / 10);
        let wait = self.host.cache_wait_for_writes(limit);
        self.budget.wait();
        let seen = wait.await;
        self.budget.resume();
        Ok(seen)
    }
}

impl HostCursor for StoreState {
    fn next(&mut self, this: Resource<Cursor>, max: u32) -> wasmtime::Result<Vec<Resource<Object>>> {
        let cursor = self.handles.get_mut(&this)?;
        let portion: Vec<Object> = cursor.0.by_ref().take(max as usize).collect();
        portion.into_iter().map(|object| Ok(self.handles.push(object)?)).collect()
    }

    fn remaining(&mut self, this: Resource<Cursor>) -> wasmtime::Result<u32> {
        Ok(u32::try_from(self.handles.get(&this)?.0.remaining()).unwrap_or(u32::MAX))
    }

    fn drop(&mut self, this: Resource<Cursor>) -> wasmtime::Result<()> {
        // A cursor from an earlier call was dropped at its end.
        let _ = self.handles.delete(this);
        Ok(())
    }
}
