//! A handle of a call cannot be kept beyond it.

use pilothouse_sdk::prelude::*;

struct Keeper {
    last: Option<Object<'static>>,
}

#[pilothouse_sdk::reconciler]
impl Reconciler for Keeper {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("keeper"))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self { last: None })
    }

    fn reconcile(&mut self, ctx: &Context, request: &Request) -> Result<Outcome, Failure> {
        self.last = ctx.cache().get(&Kind::core("v1", "Pod"), &request.key)?;
        Ok(Outcome::Done)
    }
}

fn main() {}
