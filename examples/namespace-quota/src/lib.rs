//! Counts the objects of each namespace, exports the counts as metrics, and warns when there are more than an annotation
//! of the namespace allows.
//!
//! What is reconciled is a namespace. Objects lead to it by their `metadata.namespace`. They are counted by an index of the
//! host, so that none of them is read.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::SystemTime;

use pilothouse_sdk::prelude::*;

/// What begins the annotations of limits: `quota.pilothouse.dev/pods: "20"`.
const LIMIT: &str = "quota.pilothouse.dev/";

const NAMESPACE: Kind = Kind::core("v1", "Namespace");

/// The kinds that are counted, with their plurals.
const COUNTED: [(Kind, &str); 3] = [
    (Kind::core("v1", "ConfigMap"), "configmaps"),
    (Kind::core("v1", "Pod"), "pods"),
    (Kind::core("v1", "Service"), "services"),
];

/// Index of the objects of each kind by their namespace.
const BY_NAMESPACE: &str = "by-namespace";

/// Only namespaces with a limit have series: few enough for the bound of the host.
static OBJECTS: Gauge<2> =
    Gauge::new("objects", "Objects in a namespace with a limit.", ["namespace", "resource"]);
static LIMITS: Gauge<2> =
    Gauge::new("limit", "How many objects a namespace may have.", ["namespace", "resource"]);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Settings {
    /// How often a warning is repeated while there are too many objects.
    remind_after_seconds: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { remind_after_seconds: 600 }
    }
}

struct NamespaceQuota {
    remind_after: Duration,
    /// When was warned of a namespace and resource. It may be lost with the instance: one more warning then.
    warned: BTreeMap<(String, &'static str), SystemTime>,
}

#[pilothouse_sdk::reconciler]
impl Reconciler for NamespaceQuota {
    fn describe(config: &Config) -> Result<Descriptor, String> {
        if config.parse::<Settings>()?.remind_after_seconds == 0 {
            return Err("remindAfterSeconds must be at least 1".to_owned());
        }
        let mut descriptor = Descriptor::new("namespace-quota")
            .watch(Watch::new(NAMESPACE).predicate(Predicate::AnnotationsChanged))
            .projection(Projection::new(NAMESPACE, [""; 0]))
            .permission(Permission::new("", ["namespaces"]).namespaces([""; 0]))
            .permission(Permission::new("", COUNTED.map(|(_, plural)| plural)))
            .records_events();
        for (kind, _) in COUNTED {
            // An update moves no object to another namespace: only what comes and goes counts.
            let namespace = "/metadata/namespace";
            let watch = Watch::new(kind.clone()).predicate(Predicate::field_changed(namespace));
            descriptor = descriptor
                .watch(watch.map(Map::field(namespace)))
                .projection(Projection::new(kind.clone(), [""; 0]))
                .index(Index::by_path(kind, BY_NAMESPACE, namespace));
        }
        Ok(descriptor)
    }

    fn new(config: &Config) -> Result<Self, String> {
        let remind_after = Duration::from_secs(config.parse::<Settings>()?.remind_after_seconds);
        Ok(Self { remind_after, warned: BTreeMap::new() })
    }

    fn reconcile(&mut self, ctx: &Context, request: &Request) -> Result<Outcome, Failure> {
        let namespace = ctx.cache().get(&NAMESPACE, &request.key)?;
        let mut outcome = Outcome::Done;
        for (kind, plural) in &COUNTED {
            let limit = namespace
                .as_ref()
                .and_then(|object| Some((object, object.annotation(&format!("{LIMIT}{plural}"))?)));
            outcome = outcome.sooner(match limit {
                Some((namespace, limit)) => self.check(ctx, namespace, (kind, plural), &limit)?,
                None => self.forget(ctx, &request.key.name, plural),
            });
        }
        Ok(outcome)
    }
}

impl NamespaceQuota {
    /// Exports the count of a resource and its limit, and warns if there are too many.
    fn check(
        &mut self,
        ctx: &Context,
        namespace: &Object<'_>,
        (kind, plural): (&Kind, &'static str),
        limit: &str,
    ) -> Result<Outcome, Failure> {
        let name = namespace.name();
        let Ok(limit) = limit.trim().parse::<u32>() else {
            ctx.warning(namespace, "InvalidQuota", format_args!("{LIMIT}{plural} is no number: {limit:?}"));
            return Ok(self.forget(ctx, &name, plural));
        };
        let count = ctx.cache().count(kind, &Query::by_index(BY_NAMESPACE, &name))?;
        OBJECTS.set(ctx, [&name, plural], count as f64);
        LIMITS.set(ctx, [&name, plural], f64::from(limit));
        let warning = (name, plural);
        if count <= u64::from(limit) {
            self.warned.remove(&warning);
            return Ok(Outcome::Done);
        }
        let (now, before) = (ctx.now(), self.warned.get(&warning));
        // A clock that was set back is no reason to be silent.
        let since = before.and_then(|before| now.duration_since(*before).ok());
        let wait = match since.and_then(|since| self.remind_after.checked_sub(since)) {
            Some(wait) if !wait.is_zero() => wait,
            _ => {
                // Without the count: Events with the same text are combined.
                ctx.warning(namespace, "QuotaExceeded", format_args!("more than {limit} {plural}"));
                info!(
                    "quota exceeded",
                    namespace = warning.0,
                    resource = plural,
                    count = count,
                    limit = limit
                );
                self.warned.insert(warning, now);
                self.remind_after
            }
        };
        Ok(Outcome::requeue_after(wait))
    }

    /// Forgets a resource without a limit, and all resources of a namespace that is gone.
    fn forget(&mut self, ctx: &Context, namespace: &str, plural: &'static str) -> Outcome {
        OBJECTS.remove(ctx, [namespace, plural]);
        LIMITS.remove(ctx, [namespace, plural]);
        self.warned.remove(&(namespace.to_owned(), plural));
        Outcome::Done
    }
}
