//! The `events` interface: Kubernetes Events that the guest records.

use pilothouse_object::Object;
use wasmtime::component::Resource;

use super::{MAX_TEXT, Refused, key, set_text};
use crate::bindings::v0_2::pilothouse::controller::events::{EventType, Host, HostEvent, ObjectKey};
use crate::handles::Entry;
use crate::host::{EventOptions, EventTarget, GuestEvent, Refusal};
use crate::imports::{ImportCall, Kind, NewEvent};
use crate::state::StoreState;

/// Most annotations of an Event, and their bytes in all that are kept until it is recorded: then the host has a narrower bound.
const MAX_ANNOTATIONS: usize = 32;
const MAX_ANNOTATION_BYTES: usize = MAX_TEXT;

/// Maximum length in bytes of a field path and of a time.
const MAX_PATH: usize = 1 << 10;

/// Maximum length in bytes of a UID.
const MAX_UID: usize = 128;

impl StoreState {
    fn target_object(&self, handle: &Resource<Object>) -> wasmtime::Result<EventTarget> {
        Ok(EventTarget::Object(Object::clone(self.handles.object(handle)?)))
    }

    fn target_key(&self, kind: &Resource<Kind>, k: &ObjectKey, uid: String) -> Result<EventTarget, Refused> {
        super::check_text("the uid", &uid, MAX_UID)?;
        Ok(EventTarget::Reference {
            kind: self.kind(kind)?.clone(),
            key: key(&k.namespace, &k.name)?,
            uid,
            resource_version: String::new(),
        })
    }

    fn new_event(
        &mut self,
        regarding: EventTarget,
        event_type: EventType,
        reason: String,
        note: String,
    ) -> Result<Resource<NewEvent>, Refused> {
        let mut event = NewEvent {
            regarding,
            related: None,
            is_warning: event_type == EventType::Warning,
            reason: String::new(),
            action: String::new(),
            note: String::new(),
            options: EventOptions::default(),
            annotation_bytes: 0,
            refusal: None,
            is_recorded: false,
        };
        set_text(&mut event.reason, &mut event.refusal, "the reason", reason, MAX_TEXT);
        set_text(&mut event.note, &mut event.refusal, "the note", note, MAX_TEXT);
        Ok(self.handles.push_builder(Entry::Event(Box::new(event)))?)
    }
}

impl Host for ImportCall<'_> {}

impl HostEvent for ImportCall<'_> {
    fn about(
        &mut self,
        object: Resource<Object>,
        event_type: EventType,
        reason: String,
        note: String,
    ) -> Result<Resource<NewEvent>, Refused> {
        let regarding = self.target_object(&object)?;
        self.new_event(regarding, event_type, reason, note)
    }

    fn about_key(
        &mut self,
        kind: Resource<Kind>,
        k: ObjectKey,
        uid: String,
        event_type: EventType,
        reason: String,
        note: String,
    ) -> Result<Resource<NewEvent>, Refused> {
        let regarding = self.target_key(&kind, &k, uid)?;
        self.new_event(regarding, event_type, reason, note)
    }

    fn action(&mut self, this: Resource<NewEvent>, action: String) -> wasmtime::Result<()> {
        let event = self.handles.get(&this)?;
        set_text(&mut event.action, &mut event.refusal, "the action", action, MAX_TEXT);
        Ok(())
    }

    fn related(&mut self, this: Resource<NewEvent>, object: Resource<Object>) -> wasmtime::Result<()> {
        let related = self.target_object(&object)?;
        self.handles.get(&this)?.related = Some(related);
        Ok(())
    }

    fn related_key(
        &mut self,
        this: Resource<NewEvent>,
        kind: Resource<Kind>,
        k: ObjectKey,
        uid: String,
    ) -> wasmtime::Result<()> {
        let related = self.target_key(&kind, &k, uid);
        let event = self.handles.get(&this)?;
        match related {
            Ok(related) => event.related = Some(related),
            Err(Refused::Refusal(why)) => event.refusal = Some(why),
            Err(Refused::Trap(trap)) => return Err(trap),
        }
        Ok(())
    }

    fn field_path(&mut self, this: Resource<NewEvent>, path: String) -> wasmtime::Result<()> {
        let event = self.handles.get(&this)?;
        set_text(&mut event.options.field_path, &mut event.refusal, "the field path", path, MAX_PATH);
        Ok(())
    }

    fn annotation(&mut self, this: Resource<NewEvent>, name: String, value: String) -> wasmtime::Result<()> {
        let event = self.handles.get(&this)?;
        event.annotation_bytes = event.annotation_bytes.saturating_add(name.len() + value.len());
        let annotations = &mut event.options.annotations;
        if event.annotation_bytes > MAX_ANNOTATION_BYTES || annotations.len() == MAX_ANNOTATIONS {
            event.refusal = Some(Refusal::invalid(format_args!(
                "an Event may have {MAX_ANNOTATIONS} annotations with {MAX_ANNOTATION_BYTES} bytes in all"
            )));
        } else {
            annotations.insert(name, value);
        }
        Ok(())
    }

    fn timestamp(&mut self, this: Resource<NewEvent>, time: String) -> wasmtime::Result<()> {
        let event = self.handles.get(&this)?;
        set_text(&mut event.options.timestamp, &mut event.refusal, "the timestamp", time, MAX_PATH);
        Ok(())
    }

    fn record(&mut self, this: Resource<NewEvent>) -> Result<(), Refused> {
        let event = self.handles.get(&this)?;
        if event.is_recorded {
            return Err(Refusal::invalid("the Event is recorded already: make another one").into());
        }
        if let Some(refusal) = &event.refusal {
            return Err(refusal.clone().into());
        }
        let options = std::mem::take(&mut event.options);
        let text = |text: &mut String| std::mem::take(text);
        let event = GuestEvent {
            regarding: event.regarding.clone(),
            related: event.related.take(),
            event_type: if event.is_warning { "Warning" } else { "Normal" }.to_owned(),
            reason: text(&mut event.reason),
            action: text(&mut event.action),
            note: text(&mut event.note),
            options: Ok(options),
        };
        self.handles.get(&this)?.is_recorded = true;
        Ok(self.host.record_event(&self.call.get(), event)?)
    }

    fn drop(&mut self, this: Resource<NewEvent>) -> wasmtime::Result<()> {
        self.handles.delete(&this);
        Ok(())
    }
}
