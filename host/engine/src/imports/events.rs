//! The `events` interface: Kubernetes Events that the guest records.

use std::collections::BTreeMap;

use pilothouse_object::Object;
use wasmtime::component::Resource;

use super::builders::{Builder, built, bytes_of, set_text};
use super::{Refused, cut, key};
use crate::bindings::pilothouse::controller::events::{EventType, Host, HostEvent, ObjectKey};
use crate::handles::Entry;
use crate::host::{EventOptions, EventTarget, GuestEvent, Refusal};
use crate::imports::{ImportCall, Kind, NewEvent};
use crate::state::StoreState;

/// Most annotations of an Event, and their bytes in all.
const MAX_ANNOTATIONS: usize = 32;
const MAX_ANNOTATION_BYTES: usize = 8 << 10;

/// Reason, action and note are cut after so many bytes, and to what an Event may have when it is recorded.
const MAX_CUT: usize = 4 << 10;

/// Maximum length in bytes of a field path and of a time.
const MAX_PATH: usize = 1 << 10;

/// Maximum length in bytes of a UID.
const MAX_UID: usize = 128;

impl Builder for NewEvent {
    fn held(&self) -> usize {
        let target = |target: &EventTarget| {
            let EventTarget { kind, key, uid, resource_version } = target;
            let kind = kind.group.len() + kind.version.len() + kind.kind.len();
            kind + key.as_str().len() + uid.len() + resource_version.len()
        };
        let EventOptions { annotations, field_path, timestamp } = &self.options;
        let options = annotation_bytes(annotations) + field_path.len() + bytes_of([timestamp]);
        let texts = self.reason.len() + self.action.len() + self.note.len();
        target(&self.regarding) + self.related.as_ref().map_or(0, target) + options + texts
    }

    fn clear(&mut self) {
        self.related = None;
        self.options = EventOptions::default();
        for text in [&mut self.reason, &mut self.action, &mut self.note] {
            *text = String::new();
        }
    }

    fn refusal(&mut self) -> &mut Option<Refusal> {
        &mut self.refusal
    }
}

fn annotation_bytes(annotations: &BTreeMap<String, String>) -> usize {
    annotations.iter().map(|(name, value)| name.len() + value.len()).sum()
}

impl StoreState {
    /// Events are of the cluster that the plugin runs in.
    fn check_events_of(&self, cluster: u32) -> Result<(), Refusal> {
        if cluster == 0 {
            return Ok(());
        }
        Err(Refusal::unsupported(format_args!(
            "Events are recorded in the cluster that the plugin runs in, and this object is in cluster {:?}: create an Event there \
             with a live call",
            self.cluster_name(cluster)
        )))
    }

    fn event_target(&self, handle: &Resource<Object>) -> Result<EventTarget, Refused> {
        let (object, cluster) = self.handles.object_and_cluster(handle)?;
        self.check_events_of(cluster)?;
        Ok(EventTarget::from(object))
    }

    fn target_key(&self, kind: &Resource<Kind>, k: &ObjectKey, uid: String) -> Result<EventTarget, Refused> {
        super::check_text("the uid", &uid, MAX_UID)?;
        let Kind { cluster, kind } = self.kind(kind)?;
        self.check_events_of(*cluster)?;
        Ok(EventTarget {
            kind: kind.clone(),
            key: key(&k.namespace, &k.name)?,
            uid,
            resource_version: String::new(),
        })
    }

    fn set_related(
        &mut self,
        this: &Resource<NewEvent>,
        related: Result<EventTarget, Refused>,
    ) -> wasmtime::Result<()> {
        let related = match related {
            Ok(related) => Ok(related),
            Err(Refused::Refusal(why)) => Err(why),
            Err(Refused::Trap(trap)) => return Err(trap),
        };
        self.build(this, |event| {
            event.related = Some(related?);
            Ok(())
        })
    }

    fn new_event(
        &mut self,
        regarding: EventTarget,
        event_type: EventType,
        reason: String,
        note: String,
    ) -> Result<Resource<NewEvent>, Refused> {
        let event = NewEvent {
            regarding,
            related: None,
            is_warning: event_type == EventType::Warning,
            reason: cut(reason, MAX_CUT),
            action: String::new(),
            note: cut(note, MAX_CUT),
            options: EventOptions::default(),
            refusal: None,
            is_recorded: false,
        };
        let held = event.held();
        Ok(self.handles.push_builder(Entry::Event(Box::new(event)), held)?)
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
        let regarding = self.event_target(&object)?;
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
        self.build(&this, |event| {
            event.action = cut(action, MAX_CUT);
            Ok(())
        })
    }

    fn related(&mut self, this: Resource<NewEvent>, object: Resource<Object>) -> wasmtime::Result<()> {
        let related = self.event_target(&object);
        self.set_related(&this, related)
    }

    fn related_key(
        &mut self,
        this: Resource<NewEvent>,
        kind: Resource<Kind>,
        k: ObjectKey,
        uid: String,
    ) -> wasmtime::Result<()> {
        let related = self.target_key(&kind, &k, uid);
        self.set_related(&this, related)
    }

    fn field_path(&mut self, this: Resource<NewEvent>, path: String) -> wasmtime::Result<()> {
        self.build(&this, |event| set_text(&mut event.options.field_path, "the field path", path, MAX_PATH))
    }

    fn annotation(&mut self, this: Resource<NewEvent>, name: String, value: String) -> wasmtime::Result<()> {
        self.build(&this, |event| {
            let annotations = &mut event.options.annotations;
            annotations.insert(name, value);
            let bytes = annotation_bytes(annotations);
            if annotations.len() <= MAX_ANNOTATIONS && bytes <= MAX_ANNOTATION_BYTES {
                return Ok(());
            }
            Err(Refusal::invalid(format_args!(
                "the Event has {} annotations with {bytes} bytes, and may have {MAX_ANNOTATIONS} with {MAX_ANNOTATION_BYTES} \
                 bytes in all",
                annotations.len()
            )))
        })
    }

    fn timestamp(&mut self, this: Resource<NewEvent>, time: String) -> wasmtime::Result<()> {
        self.build(&this, |event| set_text(&mut event.options.timestamp, "the timestamp", time, MAX_PATH))
    }

    fn record(&mut self, this: Resource<NewEvent>) -> Result<(), Refused> {
        let event = built(&mut self.handles, &this)?;
        if event.is_recorded {
            return Err(Refusal::invalid("the Event is recorded already: make another one").into());
        }
        // A copy: an Event that is refused may be recorded later.
        let recorded = GuestEvent {
            regarding: event.regarding.clone(),
            related: event.related.clone(),
            is_warning: event.is_warning,
            reason: event.reason.clone(),
            action: event.action.clone(),
            note: event.note.clone(),
            options: event.options.clone(),
        };
        self.host.record_event(&self.call.get(), recorded)?;
        let event = self.handles.get(&this)?;
        event.is_recorded = true;
        event.clear();
        let held = event.held();
        Ok(self.handles.hold(&this, held)?)
    }

    fn drop(&mut self, this: Resource<NewEvent>) -> wasmtime::Result<()> {
        self.handles.delete(&this);
        Ok(())
    }
}
