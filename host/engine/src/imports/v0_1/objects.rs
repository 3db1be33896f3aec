//! The `objects` interface: reads single fields of an object without copying the rest.

use std::borrow::Cow;
use std::sync::Arc;

use pilothouse_object::Object;
use wasmtime::component::Resource;

use super::{wit_key, wit_kind};
use crate::bindings::v0_1::pilothouse::controller::objects::{
    Gvk, Host, HostObject, ObjectKey, OwnerReference,
};
use crate::error::OverLimit;
use crate::imports::{Answer, ImportCall};

/// The JSON text at a pointer. The whole text of a partial object contains the partial annotation.
fn at<'a>(object: &'a Object, pointer: &str) -> Option<Cow<'a, str>> {
    match pointer {
        "" => Some(object.marked_json()),
        pointer => object.get(pointer).map(Cow::Borrowed),
    }
}

impl Host for ImportCall<'_> {}

fn pairs<'a, S: AsRef<str> + 'a>(map: impl IntoIterator<Item = (S, S)>) -> Vec<(String, String)> {
    map.into_iter().map(|(k, v)| (k.as_ref().to_owned(), v.as_ref().to_owned())).collect()
}

impl HostObject for ImportCall<'_> {
    fn key(&mut self, this: Resource<Object>) -> wasmtime::Result<ObjectKey> {
        Ok(wit_key(self.handles.object(&this)?.key()))
    }

    fn kind(&mut self, this: Resource<Object>) -> wasmtime::Result<Gvk> {
        Ok(wit_kind(&self.handles.object(&this)?.gvk()))
    }

    fn uid(&mut self, this: Resource<Object>) -> wasmtime::Result<String> {
        Ok(self.handles.object(&this)?.uid().to_owned())
    }

    fn resource_version(&mut self, this: Resource<Object>) -> wasmtime::Result<String> {
        Ok(self.handles.object(&this)?.resource_version().to_owned())
    }

    fn generation(&mut self, this: Resource<Object>) -> wasmtime::Result<Option<i64>> {
        Ok(self.handles.object(&this)?.generation())
    }

    fn labels(&mut self, this: Resource<Object>) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(pairs(self.handles.object(&this)?.labels()))
    }

    fn annotations(&mut self, this: Resource<Object>) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(pairs(self.readable(&this)?.annotations()))
    }

    fn owner_references(&mut self, this: Resource<Object>) -> wasmtime::Result<Vec<OwnerReference>> {
        let owners = self.handles.object(&this)?.owner_references().into_iter();
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
        Ok(self.handles.object(&this)?.deletion_timestamp().map(str::to_owned))
    }

    fn get(&mut self, this: Resource<Object>, pointer: String) -> wasmtime::Result<Option<String>> {
        let mut room = Answer::new("get", self.limits.answer_bytes);
        let value = at(self.readable(&this)?, &pointer);
        room.add(value.as_ref().map_or(0, |value| value.len()))?;
        Ok(value.map(Cow::into_owned))
    }

    fn get_many(
        &mut self,
        this: Resource<Object>,
        pointers: Vec<String>,
    ) -> wasmtime::Result<Vec<Option<String>>> {
        let most = self.limits.get_many_pointers;
        if pointers.len() > most {
            return Err(OverLimit::new(format_args!(
                "get-many was called with {} pointers, at most {most} are allowed (limits.getManyPointers): make \
                 several calls, or raise the limit",
                pointers.len()
            ))
            .into());
        }
        if pointers.iter().any(String::is_empty) {
            return Err(OverLimit::new(
                "get-many was called with the empty pointer, which is the whole object: use `bytes`",
            )
            .into());
        }
        let budget = Arc::clone(&self.budget);
        let mut room = Answer::new("get-many", self.limits.answer_bytes);
        let object = self.readable(&this)?;
        let mut values = Vec::with_capacity(pointers.len());
        for pointer in &pointers {
            let value = object.get(pointer);
            room.add(value.map_or(0, str::len))?;
            values.push(value.map(str::to_owned));
            budget.check()?;
        }
        Ok(values)
    }

    fn bytes(&mut self, this: Resource<Object>) -> wasmtime::Result<Vec<u8>> {
        let mut room = Answer::new("bytes", self.limits.answer_bytes);
        let json = self.readable(&this)?.marked_json();
        room.add(json.len())?;
        Ok(json.into_owned().into_bytes())
    }

    fn is_partial(&mut self, this: Resource<Object>) -> wasmtime::Result<bool> {
        Ok(self.handles.object(&this)?.is_partial())
    }

    fn drop(&mut self, this: Resource<Object>) -> wasmtime::Result<()> {
        self.handles.delete(&this);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
