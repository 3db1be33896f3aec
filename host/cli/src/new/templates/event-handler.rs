//! __name__: handles the events of objects as they come.

mod greet;

use pilothouse_sdk::prelude::*;

struct __Type__;

#[pilothouse_sdk::event_handler]
impl EventHandler for __Type__ {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(greet::descriptor())
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self)
    }

    fn on_add(&mut self, object: &Object, _initial: bool) {
        greet(object);
    }

    fn on_update(&mut self, _old: Option<&Object>, new: &Object) {
        greet(new);
    }

    fn on_delete(&mut self, deleted: &Deleted<'_>) {
        info!("{} is gone", deleted.key);
    }
}

/// An event is not delivered again: what has to be retried belongs into a reconcile.
fn greet(object: &Object) {
    if let Err(failure) = greet::greet(object) {
        error!("{}: {failure}", object.key());
    }
}
