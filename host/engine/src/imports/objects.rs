//! The `objects` interface: reads single fields of an object without copying the rest.

use pilothouse_object::Object;
use wasmtime::component::Resource;

use crate::bindings::pilothouse::controller::objects::{Gvk, Host, HostObject, ObjectKey, OwnerReference};
use crate::instance::{wit_key, wit_kind};
use crate::state::StoreState;

impl StoreState {
    /// The object behind a handle; an error (a trap) when the handle is from an earlier call.
    pub(super) fn object(&self, handle: &Resource<Object>) -> wasmtime::Result<&Object> {
        self.handles.get(handle).map_err(|_| {
            wasmtime::Error::msg(
                "an object handle was used after the call that got it; handles must not be kept",
            )
        })
    }
}

impl StoreState {
    /// The object behind a handle, for reading its text. A text unpacked through the handle would stay in the host's
    /// memory, outside the guest's limit, as long as the guest keeps the handle. Therefore the text is unpacked into
    /// `reading`, which keeps one object at a time.
    fn readable(&mut self, handle: &Resource<Object>) -> wasmtime::Result<&Object> {
        let object = self.object(handle)?;
        if !object.is_packed() {
            return self.object(handle);
        }
        if !self.reading.as_ref().is_some_and(|reading| reading.is_same(object)) {
            self.reading = Some(object.fresh());
        }
        Ok(self.reading.as_ref().expect("it was put there"))
    }
}

impl StoreState {
    /// Makes a handle of an object that the guest got by its key, and will most likely read next. The cache shares the
    /// unpacked text of such objects between reads, so `reading` keeps `object` with that text; the handle does not.
    pub(super) fn read_alone(&mut self, object: Object) -> wasmtime::Result<Resource<Object>> {
        let handle = self.handles.push(object.fresh())?;
        if object.is_packed() {
            self.reading = Some(object);
        }
        Ok(handle)
    }
}

/// The JSON text at a pointer. The whole text of a partial object contains the partial annotation.
fn at(object: &Object, pointer: &str) -> Option<String> {
    match pointer {
        "" => Some(object.marked_json().into_owned()),
        pointer => object.get(pointer).map(str::to_owned),
    }
}

impl Host for StoreState {}

fn pairs<'a, S: AsRef<str> + 'a>(map: impl IntoIterator<Item = (S, S)>) -> Vec<(String, String)> {
    map.into_iter().map(|(k, v)| (k.as_ref().to_owned(), v.as_ref().to_owned())).collect()
}

impl HostObject for StoreState {
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
        Ok(pairs(self.readable(&this)?.annotations()))
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
        Ok(at(self.readable(&this)?, &pointer))
    }

    fn get_many(
        &mut self,
        this: Resource<Object>,
        pointers: Vec<String>,
    ) -> wasmtime::Result<Vec<Option<String>>> {
        let object = self.readable(&this)?;
        Ok(pointers.iter().map(|pointer| at(object, pointer)).collect())
    }

    fn bytes(&mut self, this: Resource<Object>) -> wasmtime::Result<Vec<u8>> {
        Ok(self.readable(&this)?.marked_json().into_owned().into_bytes())
    }

    fn is_partial(&mut self, this: Resource<Object>) -> wasmtime::Result<bool> {
        Ok(self.object(&this)?.is_partial())
    }

    fn drop(&mut self, this: Resource<Object>) -> wasmtime::Result<()> {
        // A handle from an earlier call was dropped at its end.
        let _ = self.handles.delete(this);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
