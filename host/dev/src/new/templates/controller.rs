//! __name__: event handlers put keys on the queue, and a reconcile takes them.

mod greet;
#[cfg(test)]
mod tests;

use pilothouse_sdk::prelude::*;

use greet::__kind__;

struct Plugin;

#[pilothouse_sdk::controller]
impl Controller for Plugin {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(greet::descriptor())
    }

    fn on_add(&mut self, ctx: &Context, event: &Added<'_>) -> Result<(), Failure> {
        Ok(ctx.queue().add(&event.key)?)
    }

    fn on_update(&mut self, ctx: &Context, event: &Updated<'_>) -> Result<(), Failure> {
        Ok(ctx.queue().add(&event.key)?)
    }

    fn on_delete(&mut self, ctx: &Context, event: &Deleted<'_>) -> Result<(), Failure> {
        Ok(ctx.queue().add(&event.key)?)
    }

    fn reconcile(&mut self, ctx: &Context, request: &Request) -> Result<Outcome, Failure> {
        match ctx.get::<__kind__>(&request.key)? {
            Some(object) => greet::greet(ctx, &object)?,
            None => info!("{} is gone", request.key),
        }
        Ok(Outcome::Done)
    }
}
