//! [`LeaseLock`]: a `coordination.k8s.io/v1` Lease as a lock.
//!
//! Invariants: an update changes the five fields that the election is about and leaves all else as it was read: labels,
//! annotations, owners, fields that this program does not know. It carries the version and the UID that were read, so it
//! can neither overwrite what came since nor a Lease made anew.

use std::time::Duration;

use jiff::Timestamp;
use pilothouse_client::{ApiResource, Client, Error, RetryPolicy, WatchEvent, WatchParams, WriteParams};
use pilothouse_object::{Gvk, Object, ObjectKey};
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::sleep;

use crate::config::ConfigError;
use crate::lock::{Lock, LockError, Stored};
use crate::record::LeaderElectionRecord;

/// Seconds after which a watch of the Lease is opened anew, at least and at most; client-go's reflectors take as long.
const WATCH_SECONDS: (u32, u32) = (300, 600);
/// First and longest wait before a watch that failed is opened again.
const WATCH_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// A Lease as a lock. The user needs `get`, `create` and `update` on it; with `watch` as well, a lease that is
/// released or runs out changes hands at once and not at the next try.
#[derive(Debug, Clone)]
pub struct LeaseLock {
    client: Client,
    resource: ApiResource,
    key: ObjectKey,
}

impl LeaseLock {
    /// The Lease of this name, which need not exist.
    ///
    /// # Errors
    /// When the namespace or the name cannot be one.
    pub fn new(client: Client, namespace: &str, name: &str) -> Result<Self, ConfigError> {
        let key = key_of(namespace, name, name)?;
        let resource = leases();
        // A renewal must not wait behind other requests, neither for their rate limit nor for their connections; and the
        // elector itself tries again, when it is time to.
        let client =
            client.with_own_connections().without_rate_limit().with_retry_policy(RetryPolicy::none());
        Ok(Self { client, resource, key })
    }

    /// The same lock with its connections on a runtime, which should be that of the elector: then no other work of the process
    /// delays a renewal.
    #[must_use]
    pub fn on_runtime(self, runtime: &Handle) -> Self {
        Self { client: self.client.with_connections_on(runtime), ..self }
    }

    /// Tells of changes until the watch ends.
    async fn watch_once(&self, seen: &UnboundedSender<Option<Stored>>) -> Result<(), Error> {
        let params = WatchParams {
            field_selector: format!("metadata.name={}", self.key.name()),
            timeout_seconds: Some(rand::random_range(WATCH_SECONDS.0..=WATCH_SECONDS.1)),
            ..WatchParams::default()
        };
        let mut watch = self.client.watch(&self.resource, self.key.namespace(), &params).await?;
        while let Some(event) = watch.next().await {
            let event = match event {
                // It would not tell who holds the Lease.
                Err(error) if error.is_skippable() => continue,
                event => event?,
            };
            let change = match event {
                WatchEvent::Added(lease) | WatchEvent::Modified(lease) => stored(&lease).ok(),
                WatchEvent::Deleted(_) => None,
                WatchEvent::Bookmark { .. } => continue,
            };
            // Who listens polls this future too.
            let _ = seen.send(change);
        }
        Ok(())
    }
}

/// The resource of Leases.
pub(crate) fn leases() -> ApiResource {
    ApiResource::new(Gvk::new("coordination.k8s.io", "v1", "Lease"), "leases", true)
}

/// The key of a Lease. `given` is the name in the configuration, from which `name` is made.
pub(crate) fn key_of(namespace: &str, name: &str, given: &str) -> Result<ObjectKey, ConfigError> {
    let wrong = |field, reason: String| ConfigError {
        field,
        reason,
        remedy: "name the Lease as NAMESPACE/NAME, as default/pilothouse".to_owned(),
    };
    if namespace.is_empty() {
        return Err(wrong("namespace", "it is empty".to_owned()));
    }
    ObjectKey::new(Some(namespace), name)
        .map_err(|error| wrong("name", format!("{namespace:?} and {given:?}: {error}")))
}

impl Lock for LeaseLock {
    async fn get(&self) -> Result<Stored, LockError> {
        let lease = self.client.get(&self.resource, &self.key, None).await.map_err(failed)?;
        stored(&lease)
    }

    async fn create(&self, record: &LeaderElectionRecord) -> Result<Stored, LockError> {
        let mut lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": self.key.namespace(), "name": self.key.name()}, "spec": {},
        });
        put(&mut lease, record);
        let (namespace, body) = (self.key.namespace(), lease.to_string());
        let params = WriteParams::default();
        let lease =
            self.client.create(&self.resource, namespace, body.as_bytes(), &params).await.map_err(failed)?;
        stored(&lease)
    }

    async fn update(&self, from: &Stored, record: &LeaderElectionRecord) -> Result<Stored, LockError> {
        let mut lease: Value = serde_json::from_str(&from.object)
            .map_err(|error| LockError::Refused(format!("{}: {error}", self.key)))?;
        put(&mut lease, record);
        let params = WriteParams::default();
        let body = lease.to_string();
        let lease =
            self.client.update(&self.resource, &self.key, body.as_bytes(), &params).await.map_err(failed)?;
        stored(&lease)
    }

    async fn watch(&self, seen: UnboundedSender<Option<Stored>>) {
        let mut wait = WATCH_AGAIN.0;
        loop {
            match self.watch_once(&seen).await {
                Ok(()) => wait = WATCH_AGAIN.0,
                // Acquiring says more of a server that is away; without the right to watch it goes on as well.
                Err(error) => {
                    tracing::debug!(lock = %self.key, "the Lease is not watched: {error}");
                    wait = (wait * 2).min(WATCH_AGAIN.1);
                }
            }
            sleep(wait.mul_f64(rand::random_range(0.8..1.2))).await;
        }
    }

    fn describe(&self) -> String {
        self.key.to_string()
    }
}

/// Writes the record into a Lease's `spec`, beside what else is there.
pub(crate) fn put(lease: &mut Value, record: &LeaderElectionRecord) {
    let Value::Object(lease) = lease else { return };
    let spec = lease.entry("spec").or_insert_with(|| Value::Object(Map::new()));
    if !spec.is_object() {
        *spec = Value::Object(Map::new());
    }
    // The API takes exactly six decimals.
    let time = |time: Option<Timestamp>| time.map_or(Value::Null, |time| format!("{time:.6}").into());
    spec["holderIdentity"] = record.holder_identity.clone().into();
    spec["leaseDurationSeconds"] = record.lease_duration_seconds.into();
    spec["acquireTime"] = time(record.acquire_time);
    spec["renewTime"] = time(record.renew_time);
    spec["leaseTransitions"] = record.leader_transitions.into();
}

pub(crate) fn stored(lease: &Object) -> Result<Stored, LockError> {
    let object = lease.json().to_owned();
    let whole: Value = serde_json::from_str(&object)
        .map_err(|error| LockError::NoAnswer(format!("{}: {error}", lease.key())))?;
    let spec = &whole["spec"];
    let number = |field: &str| spec[field].as_i64().and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
    let time = |field: &str| spec[field].as_str().and_then(|text| text.parse().ok());
    let record = LeaderElectionRecord {
        holder_identity: spec["holderIdentity"].as_str().unwrap_or_default().to_owned(),
        lease_duration_seconds: number("leaseDurationSeconds"),
        acquire_time: time("acquireTime"),
        renew_time: time("renewTime"),
        leader_transitions: number("leaseTransitions"),
    };
    let (uid, resource_version) = (lease.uid().to_owned(), lease.resource_version().to_owned());
    Ok(Stored { record, uid, resource_version, object })
}

/// Told apart by whether the write may have been done.
pub(crate) fn failed(error: Error) -> LockError {
    let message = error.to_string();
    match &error {
        _ if error.is_not_found() => LockError::NotFound(message),
        _ if error.is_conflict() || error.is_already_exists() => LockError::Conflict(message),
        // A server that failed in the middle, or a proxy that did not wait for it.
        Error::Api(status) if status.code >= 500 => LockError::NoAnswer(message),
        Error::Api(_) | Error::Config(_) | Error::Request(_) | Error::Transport { unsent: true, .. } => {
            LockError::Refused(message)
        }
        Error::Transport { .. } | Error::Protocol { .. } | Error::Event { .. } => {
            LockError::NoAnswer(message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_keeps_what_others_put_into_a_lease() {
        let before = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l","namespace":"ns",
            "uid":"u","resourceVersion":"7","labels":{"a":"b"},"annotations":{"c":"d"},
            "ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"1"}]},
            "spec":{"holderIdentity":"x","leaseDurationSeconds":15,"leaseTransitions":3,"strategy":"Oldest",
            "renewTime":"2026-01-02T03:04:05.678901Z","new":{"field":[1,2]}}}"#;
        let read = stored(&Object::decode(before.as_bytes()).unwrap()).unwrap();
        assert_eq!((read.uid.as_str(), read.resource_version.as_str()), ("u", "7"));
        assert_eq!((read.record.leader_transitions, read.record.lease_duration_seconds), (3, 15));
        let time: Timestamp = "2026-01-02T03:04:06.5Z".parse().unwrap();
        let record = LeaderElectionRecord {
            holder_identity: "me".to_owned(),
            lease_duration_seconds: 20,
            acquire_time: Some(time),
            renew_time: Some(time),
            leader_transitions: 4,
        };
        let mut expected: Value = serde_json::from_str(before).unwrap();
        let mut after: Value = serde_json::from_str(&read.object).unwrap();
        put(&mut after, &record);
        let spec = expected["spec"].as_object_mut().unwrap();
        for (field, value) in [
            ("holderIdentity", json!("me")),
            ("leaseDurationSeconds", json!(20)),
            ("acquireTime", json!("2026-01-02T03:04:06.500000Z")),
            ("renewTime", json!("2026-01-02T03:04:06.500000Z")),
            ("leaseTransitions", json!(4)),
        ] {
            spec.insert(field.to_owned(), value);
        }
        assert_eq!(after, expected);
    }

    #[test]
    fn a_write_that_may_have_been_done_is_told_from_one_that_was_not() {
        let api = |code, reason: &str| {
            failed(Error::Api(Box::new(pilothouse_client::Status {
                code,
                reason: reason.to_owned(),
                ..Default::default()
            })))
        };
        assert!(matches!(api(404, "NotFound"), LockError::NotFound(_)));
        assert!(matches!(api(409, "Conflict"), LockError::Conflict(_)));
        assert!(matches!(api(409, "AlreadyExists"), LockError::Conflict(_)));
        assert!(matches!(api(403, "Forbidden"), LockError::Refused(_)));
        assert!(matches!(api(504, "Timeout"), LockError::NoAnswer(_)));
        let transport = |unsent| {
            failed(Error::Transport {
                doing: String::new(),
                message: String::new(),
                connection_refused: false,
                timeout: true,
                unsent,
            })
        };
        assert!(matches!(transport(false), LockError::NoAnswer(_)));
        assert!(matches!(transport(true), LockError::Refused(_)));
    }
}
