//! __name__: reconciles the key of each object that changed.

mod greet;

use pilothouse_sdk::prelude::*;

struct __Type__;

#[pilothouse_sdk::reconciler]
impl Reconciler for __Type__ {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(greet::descriptor())
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self)
    }

    fn reconcile(&mut self, request: &Request) -> Result<Outcome, Failure> {
        match cache::get(&greet::KIND, &request.key)? {
            Some(object) => greet::greet(&object)?,
            None => info!("{} is gone", request.key),
        }
        Ok(Outcome::Done)
    }
}
