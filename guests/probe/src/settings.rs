//! The configuration of the probe, and the descriptor that follows from it.

use pilothouse_sdk::duration;
use pilothouse_sdk::prelude::*;

use crate::request::RequestSettings;

/// The configuration, all of it optional.
#[derive(Deserialize)]
#[serde(crate = "pilothouse_sdk::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// What is watched, as `apps/v1/Deployment`.
    pub(crate) kind: String,
    /// Only these namespaces.
    pub(crate) namespaces: Vec<String>,
    /// Only objects with these labels.
    pub(crate) label_selector: Option<String>,
    /// The fields that the projection names; no projection when absent.
    pub(crate) projection: Option<Vec<String>>,
    /// What a reconcile does.
    pub(crate) mode: Mode,
    /// Only keys whose name begins with this are treated so; the others only log. All keys when absent.
    pub(crate) only_prefix: String,
    /// `fail`: how many attempts of a key fail before one succeeds; all of them when absent. `await`: how many waits. `list`: how many
    /// objects are taken.
    pub(crate) count: Option<u32>,
    /// `requeue-after`: the delay. `fail`: at least this long until the next try.
    pub(crate) delay: Option<String>,
    /// `slow`, `sleep`: how long a call takes, by the clock. `await`: how long each wait may take.
    pub(crate) milliseconds: u64,
    /// `block`, `read`, `write`, `snoop`: the kind of the object to reach for.
    pub(crate) target_kind: String,
    /// `block`, `read`, `write`, `snoop`: its key, as `namespace/name`.
    pub(crate) target_key: String,
    /// `http`: what is asked of whom.
    pub(crate) request: RequestSettings,
    /// A key that is reconciled from time to time.
    pub(crate) schedule: Option<Timer>,
    /// As in the descriptor.
    pub(crate) max_concurrent_reconciles: Option<u32>,
    /// As in the descriptor.
    pub(crate) resync: Option<String>,
}

/// A scheduled key.
#[derive(Deserialize)]
#[serde(crate = "pilothouse_sdk::serde", deny_unknown_fields)]
pub(crate) struct Timer {
    /// The interval, as `30s`.
    pub(crate) every: String,
    /// The key, as `namespace/name`.
    pub(crate) key: String,
}

/// What the probe does.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(crate = "pilothouse_sdk::serde", rename_all = "kebab-case")]
pub(crate) enum Mode {
    /// Logs and is done.
    #[default]
    Log,
    /// Panics.
    Trap,
    /// Never returns, and never calls the host.
    Spin,
    /// Allocates until it is stopped.
    Hog,
    /// Reads the target live: with a stalled API server this does not return.
    Block,
    /// Reads the target's `data.last` from the cache, again and again.
    Read,
    /// Lists the objects of `kind` and takes the first of them, then logs `listed` with how many there were and remain.
    List,
    /// Writes the object of the key back as the cache has it, and logs `rewrote` with what it had and what became of it.
    Rewrite,
    /// Waits for its own writes, though it makes none.
    Await,
    /// Writes the label `probe: was-here` to the target.
    Write,
    /// Fails, to be tried again.
    Fail,
    /// Fails for good.
    Terminal,
    /// Wants to be called again after `delay`.
    RequeueAfter,
    /// Tries every cached read and live call on the target and logs what the host says.
    Snoop,
    /// Makes the requests of `request`, `count` times over.
    Http,
    /// Is busy for `milliseconds`.
    Slow,
    /// Adds `count` keys to its queue, to be called with in an hour.
    Flood,
    /// Sleeps for `milliseconds`, which takes time but no CPU.
    Sleep,
    /// `describe` answers with an error.
    DescribeError,
    /// `describe` answers a field that no host knows.
    DescribeUnknown,
    /// `describe` panics.
    DescribeTrap,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kind: "v1/ConfigMap".to_owned(),
            namespaces: Vec::new(),
            label_selector: None,
            projection: None,
            mode: Mode::default(),
            only_prefix: String::new(),
            count: None,
            delay: None,
            milliseconds: 100,
            target_kind: "v1/Secret".to_owned(),
            target_key: "default/target".to_owned(),
            request: RequestSettings::default(),
            schedule: None,
            max_concurrent_reconciles: None,
            resync: None,
        }
    }
}

impl Settings {
    pub(crate) fn descriptor(&self) -> Result<Descriptor, String> {
        let mut watch = Watch::new(self.kind.parse()?).namespaces(&self.namespaces);
        if let Some(selector) = &self.label_selector {
            watch = watch.label_selector(selector);
        }
        let mut descriptor = Descriptor::new("probe").watch(watch);
        if let Some(fields) = &self.projection {
            descriptor = descriptor.projection(Projection::new(self.kind.parse()?, fields));
        }
        if let Some(Timer { every, key }) = &self.schedule {
            descriptor = descriptor.schedule(Schedule::every(duration::parse(every)?, &key.parse()?));
        }
        if let Some(limit) = self.max_concurrent_reconciles {
            descriptor = descriptor.max_concurrent_reconciles(limit);
        }
        if let Some(interval) = &self.resync {
            descriptor = descriptor.resync(duration::parse(interval)?);
        }
        Ok(descriptor)
    }

    /// Whether a key is treated as the mode says.
    pub(crate) fn concerns(&self, key: &Key) -> bool {
        key.name.starts_with(&self.only_prefix)
    }

    pub(crate) fn delay(&self) -> Result<Option<Duration>, String> {
        self.delay.as_deref().map(duration::parse).transpose()
    }

    pub(crate) fn target(&self) -> Result<(Kind, Key), String> {
        Ok((self.target_kind.parse()?, self.target_key.parse()?))
    }
}
