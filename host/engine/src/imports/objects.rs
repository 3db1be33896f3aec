//! The `objects` interface: reading fields of an object without copying the rest.

use pilothouse_object::Object;
use wasmtime::component::Resource;

use crate::bindings::pilothouse::controller::objects::{Gvk, Host, HostObject, ObjectKey, OwnerReference};
use crate::instance::{wit_key, wit_kind};
use crate::state::State;

impl State {
    fn object(&self, handle: &Resource<Object>) -> wasmtime::Result<&Object> {
        self.handles.get(handle).map_err(|_| {
            wasmtime::Error::msg(
                "an object handle was used after the call that got it; handles must not be kept",
            )
        })
    }
}

impl Host for State {}

fn pairs<'a, S: AsRef<str> + 'a>(map: impl IntoIterator<Item = (S, S)>) -> Vec<(String, String)> {
    map.into_iter().map(|(k, v)| (k.as_ref().to_owned(), v.as_ref().to_owned())).collect()
}

impl HostObject for State {
    fn key(&mut self, this: Resource<Object>) -> wasmtime::Result<ObjectKey> {
        Ok(wit_key(self.object(&this)?.key()))
    }

    fn kind(&mut self, this: Resource<Object>) -> wasmtime::Result<Gvk> {
        Ok(wit_kind(&self.object(&this)?.gvk()))
    }

    fn uid(&mut self, this: Resource<Object>) -> wasmtime::Result<String> {
        Ok(self.object(&this)?.uid().to_owned())
    }

    fn resource_version(&mut self, this: Resource<Object>) -> wasmtime::Result<String> {
        Ok(self.object(&this)?.resource_version().to_owned())
    }

    fn generation(&mut self, this: Resource<Object>) -> wasmtime::Result<Option<i64>> {
        Ok(self.object(&this)?.generation())
    }

    fn labels(&mut self, this: Resource<Object>) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(pairs(self.object(&this)?.labels()))
    }

    fn annotations(&mut self, this: Resource<Object>) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(pairs(self.object(&this)?.annotations()))
    }

    fn owner_references(&mut self, this: Resource<Object>) -> wasmtime::Result<Vec<OwnerReference>> {
        let owners = self.object(&this)?.owner_references().into_iter();
        Ok(owners
            .map(|o| OwnerReference {
                api_version: o.api_version.into_owned(),
                kind: o.kind.into_owned(),
                name: o.name.into_owned(),
                uid: o.uid.into_owned(),
                controller: o.controller.unwrap_or_default(),
            })
            .collect())
    }

    fn deletion_timestamp(&mut self, this: Resource<Object>) -> wasmtime::Result<Option<String>> {
        Ok(self.object(&this)?.deletion_timestamp().map(str::to_owned))
    }

    fn get(&mut self, this: Resource<Object>, pointer: String) -> wasmtime::Result<Option<String>> {
        Ok(self.object(&this)?.get(&pointer).map(str::to_owned))
    }

    fn get_many(
        &mut self,
        this: Resource<Object>,
        pointers: Vec<String>,
    ) -> wasmtime::Result<Vec<Option<String>>> {
        let object = self.object(&this)?;
        Ok(pointers.iter().map(|p| object.get(p).map(str::to_owned)).collect())
    }

    fn bytes(&mut self, this: Resource<Object>) -> wasmtime::Result<Vec<u8>> {
        Ok(self.object(&this)?.marked_json().into_owned().into_bytes())
    }

    fn is_partial(&mut self, this: Resource<Object>) -> wasmtime::Result<bool> {
        Ok(self.object(&this)?.is_partial())
    }

    fn drop(&mut self, this: Resource<Object>) -> wasmtime::Result<()> {
        // A handle from an earlier call is gone already.
        let _ = self.handles.delete(this);
        Ok(())
    }
}
