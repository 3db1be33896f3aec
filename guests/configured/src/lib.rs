//! A reconciler that tells what it is configured with, without telling the values: each call logs `configured` once for each
//! key of the configuration, with the key's name and the length and FNV-1a hash of its value.
//!
//! All values are strings. `namespace` is where objects of `kind` are watched, which is `v1/ConfigMap` when absent. With a key
//! `refuse`, `describe` refuses the configuration and quotes all of it, as a careless guest would.

use std::collections::BTreeMap;

use pilothouse_sdk::prelude::*;

type Settings = BTreeMap<String, String>;

struct Configured {
    settings: Settings,
}

#[pilothouse_sdk::reconciler]
impl Reconciler for Configured {
    fn describe(config: &Config) -> Result<Descriptor, String> {
        let settings: Settings = config.parse()?;
        if settings.contains_key("refuse") {
            return Err(format!("this will not do: {settings:?}"));
        }
        let kind = settings.get("kind").map_or("v1/ConfigMap", String::as_str).parse()?;
        let watch = Watch::new(kind).namespaces(settings.get("namespace"));
        Ok(Descriptor::new("configured").watch(watch))
    }

    fn new(config: &Config) -> Result<Self, String> {
        Ok(Self { settings: config.parse()? })
    }

    fn reconcile(&mut self, _request: &Request) -> Result<Outcome, Failure> {
        for (name, value) in &self.settings {
            info!("configured", name = name, length = value.len(), hash = format!("{:016x}", hash(value)));
        }
        Ok(Outcome::Done)
    }
}

/// FNV-1a of 64 bits.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
