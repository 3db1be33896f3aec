//! __name__: reconciles the key of each object that changed.

mod greet;
#[cfg(test)]
mod tests;

use pilothouse_sdk::prelude::*;

use greet::__kind__;

struct Plugin;

#[pilothouse_sdk::reconciler]
impl Reconciler for Plugin {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(greet::descriptor())
    }

    fn reconcile(&mut self, ctx: &Context, request: &Request) -> Result<Outcome, Failure> {
        match ctx.get::<__kind__>(&request.key)? {
            Some(object) => greet::greet(ctx, &object)?,
            None => info!("{} is gone", request.key),
        }
        Ok(Outcome::Done)
    }
}
