//! Exports the Events of a cluster to Elasticsearch or OpenSearch, one `_bulk` request a batch.
//!
//! What is reconciled is an Event: the host calls with the keys of those that came or changed, many at a time, and what it holds of
//! them goes to the index. At least once for every Event that still exists, and each is one document ([`document`]). A key that was
//! not delivered comes again, spaced out by the host; nothing waits in here, so a server that is away costs no memory but keys.
//!
//! ```text
//!  host: keys ──▶ export ──▶ document (index) ──▶ body ──▶ _bulk
//!                    ▲                                        │
//!                    └──────────── answer, one a key ◀────────┘
//! ```

mod answer;
mod document;
mod endpoint;
mod export;
mod index;
mod settings;

use pilothouse_sdk::prelude::*;

use answer::Answer;
use settings::Settings;

/// The core group's Event, and not that of `events.k8s.io`. Both show the same objects, each with every field of the other; this
/// one has them under the names that `kubectl get events` and most dashboards use.
const EVENT: Kind = Kind::core("v1", "Event");

/// The first wait of an Event that could not be delivered, and the longest: short enough that a restart of the server is soon made
/// up for, long enough that one that is away for long is not bothered.
const WAIT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

struct EventExporter {
    settings: Settings,
}

#[pilothouse_sdk::batch_reconciler]
impl BatchReconciler for EventExporter {
    fn describe(config: &Config) -> Result<Descriptor, String> {
        let Settings { endpoint, namespaces, batch, .. } = Settings::read(config)?;
        let (mut watch, mut permission) = (Watch::new(EVENT), Permission::new("", ["events"]));
        if !namespaces.is_empty() {
            watch = watch.namespaces(&namespaces);
            permission = permission.namespaces(&namespaces);
        }
        let (first, longest) = WAIT;
        Ok(Descriptor::new("event-exporter")
            .watch(watch)
            .max_batch(batch.max_events)
            .linger(batch.max_age)
            // Without the bucket for all keys together, which would let ten a second through after an outage.
            .rate_limiter(RateLimiter::new().base_delay(first).max_delay(longest).no_bucket())
            .permission(permission)
            .outgoing_host(endpoint.authority()))
    }

    fn new(config: &Config) -> Result<Self, String> {
        Ok(Self { settings: Settings::read(config)? })
    }

    fn reconcile_many(&mut self, ctx: &Context, requests: &[Request]) -> Vec<Result<Outcome, Failure>> {
        let Settings { index, batch, .. } = &self.settings;
        let read = |key: &Key| Ok(ctx.cache().get(&EVENT, key)?.map(|event| event.bytes()).transpose()?);
        export::export(requests, index, batch.max_bytes, read, |body| self.send(ctx, body))
    }
}

impl EventExporter {
    /// Sends one `_bulk` request.
    fn send(&self, ctx: &Context, body: &[u8]) -> Result<Answer, Failure> {
        let Settings { endpoint, timeout, .. } = &self.settings;
        let request = http::Request::post(endpoint.bulk())
            .header("Content-Type", "application/x-ndjson")
            .timeout(*timeout)
            .body(body);
        // Also what the host refuses: with `onReload: keep` nothing else brings the Event back when the manifest has been corrected.
        let answer = self
            .settings
            .authorize(request)
            .send(ctx)
            .map_err(|error| Failure::transient(error.to_string()))?;
        let (status, retry_after) = (answer.status, answer.retry_after());
        debug!("sent", bytes = body.len(), status = status);
        Ok(Answer { status, retry_after, body: answer.body })
    }
}
