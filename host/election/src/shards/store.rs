//! [`LeaseStore`]: the Leases of a group on the API server: requests, and a list that is followed by a watch.

use std::time::Duration;

use pilothouse_client::{
    ApiResource, Client, DeleteParams, Error, ListParams, Preconditions, RetryPolicy, WatchEvent,
    WatchParams, WriteParams,
};
use pilothouse_object::{Object, ObjectKey};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep_until, timeout};

use super::lease::{HostState, ShardLease};
use super::machine::{Answer, Request};
use super::names::LeaseNames;
use crate::config::ConfigError;
use crate::lease_lock::{failed, key_of, leases, put, stored};
use crate::lock::LockError;

/// Annotation of a host's Lease: what the host says of itself.
const STATE: &str = "pilothouse.dev/host-state";

/// What list and watch show.
pub(super) enum Seen {
    Listed { version: u64, leases: Vec<ShardLease> },
    Changed(ShardLease),
    Deleted { name: String, version: u64 },
}

/// The Leases of a group. The user needs `get`, `list`, `create`, `update` and `delete` on Leases of the namespace; with
/// `watch` as well, a shard that is released changes hands at once, and not at the next list.
pub(super) struct LeaseStore {
    client: Client,
    resource: ApiResource,
    namespace: String,
    names: LeaseNames,
    lease_duration: Duration,
    retry_period: Duration,
}

impl LeaseStore {
    /// Its connections are on `runtime`.
    pub(super) fn new(
        client: &Client,
        namespace: &str,
        names: LeaseNames,
        times: (Duration, Duration),
        runtime: &Handle,
    ) -> Result<Self, ConfigError> {
        // The longest name; an identity ends in a UUID of 36 letters.
        let longest = names.host(&"0".repeat(36));
        key_of(namespace, &longest, names.group())?;
        let (lease_duration, retry_period) = times;
        Ok(Self {
            // As for the Lease of an election: nothing else delays a renewal, and the task itself tries again.
            client: client
                .clone()
                .without_rate_limit()
                .with_retry_policy(RetryPolicy::none())
                .with_connections_on(runtime),
            resource: leases(),
            namespace: namespace.to_owned(),
            names,
            lease_duration,
            retry_period,
        })
    }

    /// The group's Lease, as `NAMESPACE/NAME`.
    pub(super) fn describe(&self) -> String {
        format!("{}/{}", self.namespace, self.names.group())
    }

    pub(super) async fn carry_out(&self, request: Request) -> Answer {
        match request {
            Request::Get { name } => {
                let lease = self.client.get(&self.resource, &self.key(&name)?, None).await.map_err(failed)?;
                shard_lease(&lease).map(Some)
            }
            Request::Write { name, from, record, state } => {
                let key = self.key(&name)?;
                let mut lease = match &from {
                    Some(from) => serde_json::from_str(&from.stored.object)
                        .map_err(|error| LockError::Refused(format!("{key}: {error}")))?,
                    None => json!({
                        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                        "metadata": {"namespace": self.namespace, "name": name}, "spec": {},
                    }),
                };
                put(&mut lease, &record);
                put_state(&mut lease, state);
                let (body, params) = (lease.to_string(), WriteParams::default());
                let written = match from {
                    Some(_) => self.client.update(&self.resource, &key, body.as_bytes(), &params).await,
                    None => {
                        let namespace = Some(self.namespace.as_str());
                        self.client.create(&self.resource, namespace, body.as_bytes(), &params).await
                    }
                };
                shard_lease(&written.map_err(failed)?).map(Some)
            }
            Request::Delete { lease } => {
                let params = DeleteParams {
                    preconditions: Preconditions {
                        uid: Some(lease.stored.uid),
                        resource_version: Some(lease.stored.resource_version),
                    },
                    ..DeleteParams::default()
                };
                let key = self.key(&lease.name)?;
                self.client.delete(&self.resource, &key, &params).await.map_err(failed)?;
                Ok(None)
            }
        }
    }

    fn key(&self, name: &str) -> Result<ObjectKey, LockError> {
        ObjectKey::new(Some(&self.namespace), name)
            .map_err(|error| LockError::Refused(format!("{name:?} cannot name a Lease: {error}")))
    }

    /// Lists and watches, again and again, for as long as it is polled. Each list is of the newest state; a watch that shows
    /// nothing any more is noticed within the lease duration.
    pub(super) async fn follow(&self, seen: &UnboundedSender<Seen>) {
        loop {
            let began = Instant::now();
            if let Ok(Err(error)) = timeout(self.lease_duration, self.follow_once(seen)).await {
                tracing::debug!(lease = self.describe(), "Leases of hosts not followed: {error}");
            }
            sleep_until(began + self.retry_period.mul_f64(rand::random_range(0.8..1.2))).await;
        }
    }

    async fn follow_once(&self, seen: &UnboundedSender<Seen>) -> Result<(), Error> {
        let namespace = Some(self.namespace.as_str());
        let list = self.client.list_all(&self.resource, namespace, &ListParams::default()).await?;
        let version = list.meta.resource_version;
        let leases = list.items.iter().filter_map(|lease| self.of_group(lease)).collect();
        // Who listens polls this future too.
        let _ = seen.send(Seen::Listed { version: version.parse().unwrap_or(0), leases });
        let params = WatchParams {
            resource_version: Some(version),
            timeout_seconds: u32::try_from(self.lease_duration.as_secs()).ok(),
            ..WatchParams::default()
        };
        let mut watch = self.client.watch(&self.resource, namespace, &params).await?;
        while let Some(event) = watch.next().await {
            let event = match event {
                Err(error) if error.is_skippable() => continue,
                event => event?,
            };
            let change = match event {
                WatchEvent::Added(lease) | WatchEvent::Modified(lease) => {
                    self.of_group(&lease).map(Seen::Changed)
                }
                WatchEvent::Deleted(lease) if self.names.contains(lease.name()) => Some(Seen::Deleted {
                    name: lease.name().to_owned(),
                    version: lease.resource_version().parse().unwrap_or(0),
                }),
                WatchEvent::Deleted(_) | WatchEvent::Bookmark { .. } => None,
            };
            change.into_iter().for_each(|change| _ = seen.send(change));
        }
        Ok(())
    }

    fn of_group(&self, lease: &Object) -> Option<ShardLease> {
        self.names.contains(lease.name()).then(|| shard_lease(lease).ok())?
    }
}

fn put_state(lease: &mut Value, state: Option<HostState>) {
    let Some(state) = state else { return };
    let metadata = &mut lease["metadata"];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][STATE] = state.as_str().into();
}

fn shard_lease(lease: &Object) -> Result<ShardLease, LockError> {
    let state = lease.annotation(STATE).map_or(HostState::default(), |word| HostState::parse(&word));
    Ok(ShardLease { name: lease.name().to_owned(), state, stored: stored(lease)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_host_is_an_annotation_beside_those_of_others() {
        let lease = |annotations: &str| {
            let text = format!(
                r#"{{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{{"name":"l","namespace":"ns",
                "uid":"u","resourceVersion":"7"{annotations}}},"spec":{{"holderIdentity":"x"}}}}"#
            );
            shard_lease(&Object::decode(text.as_bytes()).unwrap()).unwrap()
        };
        assert_eq!((lease("").state, lease("").holder()), (HostState::Ready, "x"));
        for before in ["", r#","annotations":{"a":"b"}"#] {
            let mut written: Value = serde_json::from_str(&lease(before).stored.object).unwrap();
            put_state(&mut written, None);
            assert_eq!(written["metadata"]["annotations"][STATE], Value::Null);
            put_state(&mut written, Some(HostState::Leaving));
            let read = shard_lease(&Object::decode(written.to_string().as_bytes()).unwrap()).unwrap();
            assert_eq!(read.state, HostState::Leaving);
            assert_eq!(written["metadata"]["annotations"]["a"] == "b", !before.is_empty());
        }
    }
}
