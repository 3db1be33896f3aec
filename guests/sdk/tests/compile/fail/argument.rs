//! An argument that the attribute does not take.

use pilothouse_sdk::prelude::*;

struct Guest;

#[pilothouse_sdk::batch_reconciler(state)]
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

fn main() {}
