//! [`Description`]: the result of `describe`, parsed and validated.
//!
//! Parsing is strict, as for the manifest: an unknown field is an error, because an older host that ignored it would do
//! less than the guest expects. Selectors, pointers, keys and durations are parsed here once, so that a `Description`
//! can be used without further errors. The guest is not trusted: the code does not assume that the SDK wrote the JSON.
//! `docs/describe.md` is the schema for authors.
//!
//! The manager calls it once per generation.

mod index;
mod key_map;
mod predicate;
mod projection;
mod text;
mod watch;

use std::time::Duration;

use pilothouse_object::{Gvk, ObjectKey, Pointer};
use serde::Deserialize;
use serde_json::value::RawValue;

pub use self::index::{IndexSource, IndexSpec};
pub use self::key_map::KeyMap;
pub use self::predicate::{EventKinds, Predicate};
pub use self::projection::ProjectionSpec;
use self::text::{Document, Head, KindOnly, RateLimiterText, ScheduleText};
pub use self::watch::{Delivery, WatchSpec, selector_terms};
use crate::duration::parse_duration;
use crate::grants::Rule;
use crate::limits::{DescriptorLimits, MAX_CONCURRENT_RECONCILES};
use crate::outgoing_hosts::{OutgoingHost, OutgoingHostError};
use crate::world::World;

/// The description of a plugin: its watches, indexes, requested permissions and settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// The author's name of the plugin. The manifest sets the name under which it runs.
    pub name: String,
    /// The watched objects.
    pub watches: Vec<WatchSpec>,
    /// The indexes, each over a watched kind.
    pub indexes: Vec<IndexSpec>,
    /// The projections, at most one per watched kind.
    pub projections: Vec<ProjectionSpec>,
    /// Keys that are reconciled periodically.
    pub schedules: Vec<Schedule>,
    /// Maximum number of keys that are reconciled at the same time; the default is 1.
    pub max_concurrent_reconciles: u32,
    /// The batching of keys, for a guest with `reconcile-many`.
    pub batch: Batch,
    /// The delays between retries.
    pub rate_limiter: RateLimiter,
    /// Interval in which every key is reconciled again; `None` for never.
    pub resync: Option<Duration>,
    /// The requested permissions. Only the manifest grants them.
    pub permissions: Vec<Rule>,
    /// The requested hosts for HTTP. Only the manifest grants them.
    pub outgoing_hosts: Vec<OutgoingHost>,
}

/// A key that is reconciled periodically.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The interval.
    pub every: Duration,
    /// The key.
    pub key: ObjectKey,
}

/// The batching of keys for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Maximum number of keys of one call.
    pub max: u32,
    /// How long a call waits for more keys, counted from its first key.
    pub linger: Duration,
}

/// The default: all ready keys, up to a hundred.
impl Default for Batch {
    fn default() -> Self {
        Self { max: 100, linger: Duration::ZERO }
    }
}

/// The delays between retries: the longer of the key's own delay and the bucket's applies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimiter {
    /// Delay after a key's first failure. It doubles with each further failure.
    pub base_delay: Duration,
    /// Maximum delay.
    pub max_delay: Duration,
    /// The bucket for all keys together; `None` for no bucket.
    pub bucket: Option<Bucket>,
}

/// A token bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Retries per second.
    pub qps: f64,
    /// Maximum number of retries at once.
    pub burst: u32,
}

/// The defaults of client-go for controllers.
impl Default for RateLimiter {
    fn default() -> Self {
        Self {
            base_delay: Duration::from_millis(5),
            max_delay: Duration::from_secs(1000),
            bucket: Some(Bucket { qps: 10.0, burst: 100 }),
        }
    }
}

/// The reason why a description is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {reason}; {remedy}")]
pub struct DescribeError {
    at: String,
    reason: String,
    remedy: String,
}

const API_VERSION: &str = "pilothouse.dev/describe/v1alpha1";
const FIELDS: &str =
    "see docs/describe.md; the versions of the plugin's SDK and of the host must be compatible";
/// Maximum number of keys of one call. The results are returned, and the failures logged, all at once.
const MAX_BATCH: u32 = 10_000;
/// Maximum time for which a key waits for others.
const LONGEST_LINGER: Duration = Duration::from_secs(60);
/// Minimum delay after a failure; a shorter one would be a busy loop.
const SHORTEST_DELAY: Duration = Duration::from_millis(1);

impl Description {
    /// Parses and validates the result of `describe` of a component of this world. The time that it takes is linear in
    /// the number of bytes: counts are checked before anything is compared with each other.
    ///
    /// # Errors
    /// When the result is beyond a limit, a field is unknown, a value is malformed or out of range, or a feature does not
    /// fit the world.
    pub fn parse(bytes: &[u8], world: World, limits: &DescriptorLimits) -> Result<Self, DescribeError> {
        if bytes.len() > limits.bytes {
            let reason = format!("it has {} bytes, and {} are allowed", bytes.len(), limits.bytes);
            return Err(error("the description", reason, raise("descriptorBytes")));
        }
        let head: Head = serde_json::from_slice(bytes).map_err(|e| error("the description", e, FIELDS))?;
        if head.api_version != API_VERSION {
            let reason = format!("{:?} is not supported by this host", head.api_version);
            return Err(error(
                "apiVersion",
                reason,
                format!("build the guest with an SDK that writes {API_VERSION}"),
            ));
        }
        let document: Document<'_> =
            serde_json::from_slice(bytes).map_err(|e| error("the description", e, FIELDS))?;
        for (list, entries, most) in [
            ("watches", &document.watches, limits.watches),
            ("indexes", &document.indexes, limits.indexes),
            ("schedules", &document.schedules, limits.schedules),
            ("permissions", &document.permissions, limits.permissions),
            ("outgoingHosts", &document.outgoing_hosts, limits.outgoing_hosts),
        ] {
            at_most(list, list, entries.len(), most)?;
        }
        // At most one a watched kind.
        at_most("projections", "watches", document.projections.len(), limits.watches)?;
        let watches =
            elements("watches", &document.watches, |at, text| watch::watch(at, text, world, limits))?;
        watch::check_distinct(&watches)?;
        watch::check_names(&watches)?;
        key_map::check(&watches)?;
        let indexes = elements("indexes", &document.indexes, index::index)?;
        index::check(&indexes, &watches)?;
        let projections = elements("projections", &document.projections, projection::projection)?;
        projection::check(&projections, &watches)?;
        let schedules = elements("schedules", &document.schedules, |at, text| schedule(at, text, limits))?;
        if !schedules.is_empty() && !world.reconciles() {
            let remedy = "leave them out, or build the guest for a world with reconcile or reconcile-many";
            return Err(error(
                "schedules",
                "the guest exports no reconcile, so nothing would be called",
                remedy,
            ));
        }
        let max_concurrent_reconciles = document.max_concurrent_reconciles.unwrap_or(1);
        if !(1..=MAX_CONCURRENT_RECONCILES).contains(&max_concurrent_reconciles) {
            let remedy = format!("use a number from 1 to {MAX_CONCURRENT_RECONCILES}");
            let reason = format!("{max_concurrent_reconciles} is out of bounds");
            return Err(error("maxConcurrentReconciles", reason, remedy));
        }
        Ok(Self {
            name: document.name,
            watches,
            indexes,
            projections,
            schedules,
            max_concurrent_reconciles,
            batch: batch(document.max_batch, document.linger.as_deref(), world)?,
            rate_limiter: rate_limiter(document.rate_limiter)?,
            resync: document.resync.map(|text| resync(&text, limits)).transpose()?.flatten(),
            permissions: elements("permissions", &document.permissions, |at, rule: Rule| {
                at_most(at, "ruleCombinations", rule.combinations(), limits.rule_combinations)?;
                rule.check().map_err(|e| error(format!("{at}.{}", e.field), e.reason, e.remedy))?;
                Ok(rule)
            })?,
            outgoing_hosts: elements("outgoingHosts", &document.outgoing_hosts, |at, host: String| {
                host.parse().map_err(|e: OutgoingHostError| error(at, e, OutgoingHostError::REMEDY))
            })?,
        })
    }
}

fn schedule(at: &str, text: ScheduleText, limits: &DescriptorLimits) -> Result<Schedule, DescribeError> {
    let every = interval(&format!("{at}.every"), &text.every, limits.shortest_schedule, "shortestSchedule")?;
    let key = text
        .key
        .parse()
        .map_err(|e| error(format!("{at}.key"), e, "the key is what reconcile is called with"))?;
    Ok(Schedule { every, key })
}

fn batch(max: Option<u32>, linger: Option<&str>, world: World) -> Result<Batch, DescribeError> {
    if !world.batches()
        && let Some(field) = max.map(|_| "maxBatch").or(linger.map(|_| "linger"))
    {
        return Err(error(
            field,
            "the guest takes one key at a time",
            "leave it out, or build the guest for the world batch-reconciler",
        ));
    }
    let mut batch = Batch::default();
    if let Some(max) = max {
        if !(1..=MAX_BATCH).contains(&max) {
            let remedy = format!("use a number from 1 to {MAX_BATCH}");
            return Err(error("maxBatch", format!("{max} is out of bounds"), remedy));
        }
        batch.max = max;
    }
    if let Some(linger) = linger {
        batch.linger = duration("linger", linger)?;
        if batch.linger > LONGEST_LINGER {
            let remedy = format!("use {LONGEST_LINGER:?} at most");
            return Err(error("linger", format!("{linger:?} is too long"), remedy));
        }
    }
    Ok(batch)
}

fn rate_limiter(text: Option<&RawValue>) -> Result<RateLimiter, DescribeError> {
    let mut limiter = RateLimiter::default();
    let Some(text) = text else { return Ok(limiter) };
    let at = "rateLimiter";
    let text: RateLimiterText = element(at, text)?;
    if let Some(delay) = text.base_delay {
        limiter.base_delay = duration(&format!("{at}.baseDelay"), &delay)?;
    }
    if let Some(delay) = text.max_delay {
        limiter.max_delay = duration(&format!("{at}.maxDelay"), &delay)?;
    }
    if limiter.base_delay < SHORTEST_DELAY {
        let reason = format!("{:?} would retry failing keys in a busy loop", limiter.base_delay);
        return Err(error(format!("{at}.baseDelay"), reason, format!("use {SHORTEST_DELAY:?} or more")));
    }
    if limiter.max_delay < limiter.base_delay {
        let remedy = "raise it, or lower baseDelay (5ms when absent)";
        return Err(error(format!("{at}.maxDelay"), "it is shorter than baseDelay", remedy));
    }
    let default = limiter.bucket.map_or((0.0, 0), |bucket| (bucket.qps, bucket.burst));
    let (qps, burst) = (text.qps.unwrap_or(default.0), text.burst.unwrap_or(default.1));
    if !qps.is_finite() || qps < 0.0 {
        return Err(error(
            format!("{at}.qps"),
            format!("{qps} is not a rate"),
            "use a number above 0, or 0 for no bucket",
        ));
    }
    if burst == 0 {
        return Err(error(
            format!("{at}.burst"),
            "0 would let nothing through",
            "use 1 or more, or qps 0 for no bucket",
        ));
    }
    limiter.bucket = (qps > 0.0).then_some(Bucket { qps, burst });
    Ok(limiter)
}

fn resync(text: &str, limits: &DescriptorLimits) -> Result<Option<Duration>, DescribeError> {
    if duration("resync", text)?.is_zero() {
        return Ok(None);
    }
    interval("resync", text, limits.shortest_resync, "shortestResync").map(Some)
}

fn interval(at: &str, text: &str, shortest: Duration, limit: &str) -> Result<Duration, DescribeError> {
    let interval = duration(at, text)?;
    if interval < shortest {
        let remedy = format!("use {shortest:?} or more, or lower limits.{limit} in the manifest");
        return Err(error(at, format!("{text:?} is too short"), remedy));
    }
    Ok(interval)
}

/// Checks a count against its limit in the manifest.
fn at_most(at: &str, limit: &str, count: usize, most: usize) -> Result<(), DescribeError> {
    if count > most {
        return Err(error(at, format!("there are {count}, and {most} are allowed"), raise(limit)));
    }
    Ok(())
}

/// The remedy for what is beyond a limit.
fn raise(limit: &str) -> String {
    format!("split the plugin, or raise limits.{limit} in the manifest")
}

fn duration(at: &str, text: &str) -> Result<Duration, DescribeError> {
    parse_duration(text).map_err(|e| error(at, e, "the SDK writes it from a Duration"))
}

fn kind(at: &str, group: &str, version: &str, kind: &str) -> Result<Gvk, DescribeError> {
    for (field, text) in [("group", group), ("version", version), ("kind", kind)] {
        if text.contains('/') || (text.is_empty() && field != "group") {
            let reason = format!("{text:?} is not a {field}");
            return Err(error(
                format!("{at}.{field}"),
                reason,
                "name group, version and kind apart, as apps, v1, Deployment",
            ));
        }
    }
    Ok(Gvk::new(group, version, kind))
}

fn pointer(at: &str, text: &str) -> Result<Pointer, DescribeError> {
    text.parse().map_err(|e| error(at, e, "write one like /spec/nodeName or /spec/containers/[*]/image"))
}

fn required(at: &str, field: &str, text: &str) -> Result<(), DescribeError> {
    if text.is_empty() {
        Err(error(format!("{at}.{field}"), "it is empty", "give it a value"))
    } else {
        Ok(())
    }
}

/// Parses the elements of a list; an error names the element.
fn elements<T: for<'a> Deserialize<'a>, U>(
    list: &str,
    raw: &[&RawValue],
    mut check: impl FnMut(&str, T) -> Result<U, DescribeError>,
) -> Result<Vec<U>, DescribeError> {
    // Without room to spare: it is kept for the life of the generation.
    let mut elements = Vec::with_capacity(raw.len());
    for (position, raw) in raw.iter().enumerate() {
        let at = match serde_json::from_str::<KindOnly>(raw.get()) {
            Ok(KindOnly { group, version, kind }) => {
                format!("{list}[{position}] ({})", Gvk::new(&group, &version, &kind))
            }
            Err(_) => format!("{list}[{position}]"),
        };
        elements.push(check(&at, element(&at, raw)?)?);
    }
    Ok(elements)
}

fn element<T: for<'a> Deserialize<'a>>(at: &str, raw: &RawValue) -> Result<T, DescribeError> {
    serde_json::from_str(raw.get()).map_err(|e| {
        // The position is relative to the element and would mislead.
        let text = e.to_string();
        let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
        error(at, reason, FIELDS)
    })
}

fn error(at: impl Into<String>, reason: impl ToString, remedy: impl Into<String>) -> DescribeError {
    DescribeError { at: at.into(), reason: reason.to_string(), remedy: remedy.into() }
}
