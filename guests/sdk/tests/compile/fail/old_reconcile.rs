//! A reconcile without a context.

use pilothouse_sdk::prelude::*;

struct Guest;

#[pilothouse_sdk::reconciler]
impl Reconciler for Guest {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("a"))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self)
    }

    fn reconcile(&mut self, _request: &Request) -> Result<Outcome, Failure> {
        Ok(Outcome::Done)
    }
}

fn main() {}
