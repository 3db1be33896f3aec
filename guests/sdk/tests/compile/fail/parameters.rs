//! A block with a parameter: which type would the component be of?

use pilothouse_sdk::prelude::*;

struct Guest<T>(T);

#[pilothouse_sdk::reconciler]
impl<T: Default + 'static> Reconciler for Guest<T> {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("a"))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self(T::default()))
    }

    fn reconcile(&mut self, _ctx: &Context, _request: &Request) -> Result<Outcome, Failure> {
        Ok(Outcome::Done)
    }
}

fn main() {}
