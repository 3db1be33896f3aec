//! The `objects` interface: reads single fields of an object without copying the rest.

use std::borrow::Cow;
use std::sync::Arc;

use pilothouse_object::{Object, Pointer, json_string};
use wasmtime::component::Resource;

use super::{Refused, wit_key};
use crate::bindings::pilothouse::controller::objects::{Host, HostObject, ObjectKey, OwnerReference};
use crate::error::OverLimit;
use crate::host::Refusal;
use crate::imports::{Answer, ImportCall};

/// Maximum length in bytes of a pointer.
const MAX_POINTER: usize = 4 << 10;

/// The JSON text at a pointer. The whole text of a partial object contains the partial annotation.
fn at<'a>(object: &'a Object, pointer: &str, room: &mut Answer) -> Result<Option<Cow<'a, str>>, Refused> {
    if pointer.is_empty() {
        let json = object.marked_json();
        room.add(json.len())?;
        return Ok(Some(json));
    }
    check_length(pointer)?;
    if !pointer.contains("[*]") {
        check_pointer(pointer)?;
        let value = object.get(pointer);
        room.add(value.map_or(0, str::len))?;
        return Ok(value.map(Cow::Borrowed));
    }
    let pointer: Pointer = pointer.parse().map_err(Refusal::invalid)?;
    let mut list = "[".to_owned();
    let mut added = Ok(());
    object.select(&pointer, |value| {
        added = added.as_ref().map_err(|_| ()).and_then(|()| room.add(value.len() + 1).map_err(|_| ()));
        if added.is_ok() {
            if list.len() > 1 {
                list.push(',');
            }
            list.push_str(value);
        }
    });
    if added.is_err() {
        room.add(0)?;
    }
    list.push(']');
    Ok(Some(Cow::Owned(list)))
}

fn check_length(pointer: &str) -> Result<(), OverLimit> {
    if pointer.len() <= MAX_POINTER {
        return Ok(());
    }
    Err(OverLimit::new(format_args!(
        "a pointer has {} bytes, at most {MAX_POINTER} are allowed",
        pointer.len()
    )))
}

/// Refuses text that is no RFC 6901 pointer.
fn check_pointer(pointer: &str) -> Result<(), Refusal> {
    if !pointer.starts_with('/') {
        return Err(Refusal::invalid(format_args!(
            "{pointer:?} is no JSON pointer: it must begin with \"/\""
        )));
    }
    let mut escapes = pointer.split('~').skip(1);
    if escapes.any(|rest| !rest.starts_with(['0', '1'])) {
        return Err(Refusal::invalid(format_args!(
            "{pointer:?} is no JSON pointer: \"~\" must be followed by 0 or 1"
        )));
    }
    Ok(())
}

/// The value at a pointer, read by `read`; none if there is no value or `null`.
fn typed<T>(
    call: &mut ImportCall<'_>,
    this: &Resource<Object>,
    pointer: &str,
    what: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Refused> {
    let mut room = Answer::new("a getter", call.limits.answer_bytes);
    let value = at(call.readable(this)?, pointer, &mut room)?;
    let Some(value) = value.filter(|value| value != "null") else { return Ok(None) };
    match read(&value) {
        Some(value) => Ok(Some(value)),
        None => {
            Err(Refusal::invalid(format_args!("the value at {pointer:?} is no {what}: {}", shown(&value)))
                .into())
        }
    }
}

/// The beginning of a value, for a message.
fn shown(value: &str) -> Cow<'_, str> {
    match value.floor_char_boundary(64) {
        end if end == value.len() => value.into(),
        end => format!("{}…", &value[..end]).into(),
    }
}

fn pairs<'a, S: AsRef<str> + 'a>(map: impl IntoIterator<Item = (S, S)>) -> Vec<(String, String)> {
    map.into_iter().map(|(k, v)| (k.as_ref().to_owned(), v.as_ref().to_owned())).collect()
}

impl Host for ImportCall<'_> {}

impl HostObject for ImportCall<'_> {
    fn cluster(&mut self, this: Resource<Object>) -> wasmtime::Result<u32> {
        self.handles.object_and_cluster(&this).map(|(_, cluster)| cluster)
    }

    fn key(&mut self, this: Resource<Object>) -> wasmtime::Result<ObjectKey> {
        Ok(wit_key(self.handles.object(&this)?.key()))
    }

    fn name(&mut self, this: Resource<Object>) -> wasmtime::Result<String> {
        Ok(self.handles.object(&this)?.name().to_owned())
    }

    fn namespace(&mut self, this: Resource<Object>) -> wasmtime::Result<String> {
        Ok(self.handles.object(&this)?.namespace().unwrap_or_default().to_owned())
    }

    fn api_version(&mut self, this: Resource<Object>) -> wasmtime::Result<String> {
        Ok(self.handles.object(&this)?.api_version().to_owned())
    }

    fn kind(&mut self, this: Resource<Object>) -> wasmtime::Result<String> {
        Ok(self.handles.object(&this)?.kind().to_owned())
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

    fn creation_timestamp(&mut self, this: Resource<Object>) -> wasmtime::Result<Option<String>> {
        Ok(self.readable(&this)?.get_string("/metadata/creationTimestamp").map(Cow::into_owned))
    }

    fn deletion_timestamp(&mut self, this: Resource<Object>) -> wasmtime::Result<Option<String>> {
        Ok(self.handles.object(&this)?.deletion_timestamp().map(str::to_owned))
    }

    fn label(&mut self, this: Resource<Object>, name: String) -> wasmtime::Result<Option<String>> {
        Ok(self.handles.object(&this)?.label(&name).map(Cow::into_owned))
    }

    fn labels(&mut self, this: Resource<Object>) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(pairs(self.handles.object(&this)?.labels()))
    }

    fn annotation(&mut self, this: Resource<Object>, name: String) -> wasmtime::Result<Option<String>> {
        Ok(self.readable(&this)?.annotation(&name).map(Cow::into_owned))
    }

    fn annotations(&mut self, this: Resource<Object>) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(pairs(self.readable(&this)?.annotations()))
    }

    fn owner_references(&mut self, this: Resource<Object>) -> wasmtime::Result<Vec<OwnerReference>> {
        let owners = self.handles.object(&this)?.owner_references().into_iter();
        Ok(owners
            .map(|owner| OwnerReference {
                api_version: owner.api_version.into_owned(),
                kind: owner.kind.into_owned(),
                name: owner.name.into_owned(),
                uid: owner.uid.into_owned(),
                controller: owner.controller.unwrap_or_default(),
                block_owner_deletion: owner.block_owner_deletion.unwrap_or_default(),
            })
            .collect())
    }

    fn finalizers(&mut self, this: Resource<Object>) -> wasmtime::Result<Vec<String>> {
        let finalizers = self.readable(&this)?.get("/metadata/finalizers");
        Ok(finalizers.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default())
    }

    fn exists(&mut self, this: Resource<Object>, pointer: String) -> Result<bool, Refused> {
        let object = self.readable(&this)?;
        if pointer.contains("[*]") {
            // The first of them is enough.
            check_length(&pointer)?;
            let pointer: Pointer = pointer.parse().map_err(Refusal::invalid)?;
            return Ok(pointer.first(object.json()).is_some());
        }
        let mut room = Answer::new("exists", usize::MAX);
        Ok(at(object, &pointer, &mut room)?.is_some())
    }

    fn get_string(&mut self, this: Resource<Object>, pointer: String) -> Result<Option<String>, Refused> {
        typed(self, &this, &pointer, "string", |value| json_string(value).map(Cow::into_owned))
    }

    fn get_int(&mut self, this: Resource<Object>, pointer: String) -> Result<Option<i64>, Refused> {
        typed(self, &this, &pointer, "integer of 64 bits", |value| value.parse().ok())
    }

    fn get_bool(&mut self, this: Resource<Object>, pointer: String) -> Result<Option<bool>, Refused> {
        typed(self, &this, &pointer, "boolean", |value| value.parse().ok())
    }

    fn get(&mut self, this: Resource<Object>, pointer: String) -> Result<Option<String>, Refused> {
        let mut room = Answer::new("get", self.limits.answer_bytes);
        Ok(at(self.readable(&this)?, &pointer, &mut room)?.map(Cow::into_owned))
    }

    fn get_many(
        &mut self,
        this: Resource<Object>,
        pointers: Vec<String>,
    ) -> Result<Vec<Option<String>>, Refused> {
        let most = self.limits.get_many_pointers;
        if pointers.len() > most {
            return Err(OverLimit::new(format_args!(
                "get-many was called with {} pointers, at most {most} are allowed (limits.getManyPointers): make several \
                 calls, or raise the limit",
                pointers.len()
            ))
            .into());
        }
        if pointers.iter().any(String::is_empty) {
            return Err(Refusal::invalid(
                "get-many was called with the empty pointer, which is the whole object: use `bytes`",
            )
            .into());
        }
        let budget = Arc::clone(&self.budget);
        let mut room = Answer::new("get-many", self.limits.answer_bytes);
        let object = self.readable(&this)?;
        let mut values = Vec::with_capacity(pointers.len());
        for pointer in &pointers {
            values.push(at(object, pointer, &mut room)?.map(Cow::into_owned));
            budget.check()?;
        }
        Ok(values)
    }

    fn bytes(&mut self, this: Resource<Object>) -> Result<Vec<u8>, Refused> {
        let mut room = Answer::new("bytes", self.limits.answer_bytes);
        let json = at(self.readable(&this)?, "", &mut room)?;
        Ok(json.map_or_else(Vec::new, |json| json.into_owned().into_bytes()))
    }

    fn is_partial(&mut self, this: Resource<Object>) -> wasmtime::Result<bool> {
        Ok(self.handles.object(&this)?.is_partial())
    }

    fn drop(&mut self, this: Resource<Object>) -> wasmtime::Result<()> {
        self.handles.delete(&this);
        Ok(())
    }
}
