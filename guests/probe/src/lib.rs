//! A reconciler that behaves as its configuration says, well or badly. Tests of the host use it to see what becomes
//! of the guest, of its neighbours and of its keys. [`settings`] has all that can be set.
//!
//! Every call logs `begin` with the key, the reasons, the attempt and the number of the call in this instance, and,
//! if it gets that far, `end` with the key and the same number.

mod modes;
mod request;
mod settings;
mod snoop;

use pilothouse_sdk::prelude::*;

use settings::{Mode, Settings};

struct Probe {
    settings: Settings,
    /// How many calls this instance has begun.
    calls: u64,
}

#[pilothouse_sdk::reconciler]
impl Reconciler for Probe {
    fn describe(config: &Config) -> Result<Descriptor, String> {
        let settings: Settings = config.parse()?;
        let descriptor = settings.descriptor()?;
        match settings.mode {
            Mode::DescribeError => Err("the probe was told to refuse".to_owned()),
            Mode::DescribeUnknown => Ok(descriptor.field("teleport", true)),
            Mode::DescribeTrap => panic!("the probe was told to panic in describe"),
            _ => Ok(descriptor),
        }
    }

    fn new(config: &Config) -> Result<Self, String> {
        Ok(Self { settings: config.parse()?, calls: 0 })
    }

    fn reconcile(&mut self, request: &Request) -> Result<Outcome, Failure> {
        self.calls += 1;
        let Request { key, attempt, reasons } = request;
        info!("begin", key = key, reasons = reasons.join(","), attempt = attempt, call = self.calls);
        let result =
            if self.settings.concerns(key) { modes::run(&self.settings, request) } else { Ok(Outcome::Done) };
        info!("end", key = key, call = self.calls);
        result
    }
}
