//! An argument that the attribute does not take, and a state that is none.

use pilothouse_sdk::prelude::*;

struct Guest;

#[pilothouse_sdk::batch_reconciler(sate)]
impl BatchReconciler for Guest {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("a"))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self)
    }

    fn reconcile_many(&mut self, _ctx: &Context, _requests: &[Request]) -> Vec<Result<Outcome, Failure>> {
        Vec::new()
    }
}

struct Other;

#[pilothouse_sdk::reconciler(state)]
impl Reconciler for Other {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("a"))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self)
    }

    fn reconcile(&mut self, _ctx: &Context, _request: &Request) -> Result<Outcome, Failure> {
        Ok(Outcome::Done)
    }
}

fn main() {}
