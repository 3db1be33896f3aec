//! An attribute on the block of another trait.

use pilothouse_sdk::prelude::*;

struct Guest;

#[pilothouse_sdk::reconciler]
impl EventHandler for Guest {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("a"))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self)
    }
}

fn main() {}
