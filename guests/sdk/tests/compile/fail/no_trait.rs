//! An attribute on an inherent block, and on something else.

use pilothouse_sdk::prelude::*;

struct Guest;

#[pilothouse_sdk::controller]
impl Guest {
    fn on_add(&mut self, _event: &Added<'_>) {}
}

#[pilothouse_sdk::event_handler]
struct Other;

fn main() {}
