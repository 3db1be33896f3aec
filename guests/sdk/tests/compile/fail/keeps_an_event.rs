//! Nor can the object of an event.

use pilothouse_sdk::prelude::*;

struct Keeper {
    all: Vec<&'static Object<'static>>,
}

#[pilothouse_sdk::event_handler]
impl EventHandler for Keeper {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("keeper"))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self { all: Vec::new() })
    }

    fn on_add(&mut self, _ctx: &Context, event: &Added<'_>) -> Result<(), Failure> {
        self.all.push(&event.object);
        Ok(())
    }
}

fn main() {}
