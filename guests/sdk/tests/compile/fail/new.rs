//! A type with fields and without `new`.

use pilothouse_sdk::prelude::*;

struct Guest {
    greeting: String,
}

#[pilothouse_sdk::reconciler]
impl Reconciler for Guest {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("a"))
    }

    fn reconcile(&mut self, _ctx: &Context, _request: &Request) -> Result<Outcome, Failure> {
        info!("{}", self.greeting);
        Ok(Outcome::Done)
    }
}

fn main() {}
