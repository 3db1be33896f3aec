//! A reconciler that does nothing: benchmarks measure with it what the host alone costs.

use pilothouse_sdk::prelude::*;

struct Noop;

#[pilothouse_sdk::reconciler]
impl Reconciler for Noop {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("noop").watch(Watch::new(Kind::core("v1", "ConfigMap"))))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self)
    }

    fn reconcile(&mut self, _request: &Request) -> Result<Outcome, Failure> {
        Ok(Outcome::Done)
    }
}
