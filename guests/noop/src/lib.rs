//! A reconciler that does nothing: benchmarks measure with it what the host alone costs.
//!
//! Configuration: `{"again": true}` asks for each key again at once, so that the road from queue to outcome never rests.

use std::time::Duration;

use pilothouse_sdk::prelude::*;

#[derive(Deserialize, Default)]
#[serde(crate = "pilothouse_sdk::serde", deny_unknown_fields, default)]
struct Settings {
    again: bool,
}

struct Noop {
    again: bool,
}

#[pilothouse_sdk::reconciler]
impl Reconciler for Noop {
    fn describe(config: &Config) -> Result<Descriptor, String> {
        config.parse::<Settings>()?;
        Ok(Descriptor::new("noop").watch(Watch::new(Kind::core("v1", "ConfigMap"))))
    }

    fn new(config: &Config) -> Result<Self, String> {
        Ok(Self { again: config.parse::<Settings>()?.again })
    }

    fn reconcile(&mut self, _request: &Request) -> Result<Outcome, Failure> {
        Ok(if self.again { Outcome::RequeueAfter(Duration::ZERO) } else { Outcome::Done })
    }
}
