//! Reading the text of objects, of which the host's cache may keep a compressed form.

use pilothouse_object::Object;
use wasmtime::component::Resource;

use crate::error::OverLimit;
use crate::state::StoreState;

impl StoreState {
    /// The object behind a handle, for reading its text. A text unpacked through the handle would stay in the host's
    /// memory, outside the guest's limit, as long as the guest keeps the handle. Therefore the text is unpacked into
    /// `reading`, which keeps one object at a time.
    pub(super) fn readable(&mut self, handle: &Resource<Object>) -> wasmtime::Result<&Object> {
        let object = self.handles.object(handle)?;
        if !object.is_packed() {
            return self.handles.object(handle);
        }
        if !self.reading.as_ref().is_some_and(|reading| reading.is_same(object)) {
            self.reading = Some(object.fresh());
        }
        Ok(self.reading.as_ref().expect("it was put there"))
    }

    /// Makes a handle of an object that the guest got by its key, and will most likely read next. The cache shares the
    /// unpacked text of such objects between reads, so `reading` keeps `object` with that text; the handle does not.
    pub(super) fn read_alone(&mut self, object: Object) -> Result<Resource<Object>, OverLimit> {
        let handle = self.handles.push_cached(object.fresh())?;
        if object.is_packed() {
            self.reading = Some(object);
        }
        Ok(handle)
    }
}
