//! An event handler: each event logs one line, `add KEY`, `update KEY` or `delete KEY`, with the object's
//! resourceVersion. Tests of the world `event-handler` use it.

use pilothouse_sdk::prelude::*;

struct EventsOnly;

#[pilothouse_sdk::event_handler]
impl EventHandler for EventsOnly {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("events-only").watch(Watch::new(Kind::core("v1", "ConfigMap"))))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self)
    }

    fn on_add(&mut self, object: &Object, initial: bool) {
        info!("add {}", object.key(), resource_version = object.resource_version(), initial = initial);
    }

    fn on_update(&mut self, old: Option<&Object>, new: &Object) {
        let old = old.map_or_else(|| "unknown".to_owned(), Object::resource_version);
        info!("update {}", new.key(), resource_version = new.resource_version(), old = old);
    }

    fn on_delete(&mut self, deleted: &Deleted<'_>) {
        let last = deleted.object.map_or_else(|| "unknown".to_owned(), Object::resource_version);
        info!(
            "delete {}",
            deleted.key,
            resource_version = last,
            final_state_unknown = deleted.final_state_unknown
        );
    }
}
