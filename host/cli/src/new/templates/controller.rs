//! __name__: event handlers put keys on the queue, and a reconcile takes them.

mod greet;

use pilothouse_sdk::prelude::*;

struct __Type__;

#[pilothouse_sdk::controller]
impl Controller for __Type__ {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(greet::descriptor())
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self)
    }

    fn on_add(&mut self, object: &Object, _initial: bool) {
        queue::add(&object.key());
    }

    fn on_update(&mut self, _old: Option<&Object>, new: &Object) {
        queue::add(&new.key());
    }

    fn on_delete(&mut self, deleted: &Deleted<'_>) {
        queue::add(&deleted.key);
    }

    fn reconcile(&mut self, request: &Request) -> Result<Outcome, Failure> {
        match cache::get(&greet::KIND, &request.key)? {
            Some(object) => greet::greet(&object)?,
            None => info!("{} is gone", request.key),
        }
        Ok(Outcome::Done)
    }
}
