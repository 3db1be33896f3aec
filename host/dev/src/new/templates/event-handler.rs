//! __name__: handles the events of objects as they come.

mod greet;
#[cfg(test)]
mod tests;

use pilothouse_sdk::prelude::*;

use greet::__kind__;

struct Plugin;

#[pilothouse_sdk::event_handler]
impl EventHandler for Plugin {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(greet::descriptor())
    }

    fn on_add(&mut self, ctx: &Context, event: &Added<'_>) -> Result<(), Failure> {
        let object: __kind__ = event.object.parse()?;
        greet::greet(ctx, &object)
    }

    fn on_update(&mut self, ctx: &Context, event: &Updated<'_>) -> Result<(), Failure> {
        let object: __kind__ = event.object.parse()?;
        greet::greet(ctx, &object)
    }

    fn on_delete(&mut self, _ctx: &Context, event: &Deleted<'_>) -> Result<(), Failure> {
        info!("{} is gone", event.key);
        Ok(())
    }
}
