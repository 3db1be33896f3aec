//! Secrets and ConfigMaps of `spec.configFrom`: one list and then one watch, both of that single object, again and again, for
//! all plugins that name it.
//!
//! Invariants:
//! * The object is reported only after the watch from its version is open. So an identity that may read and not watch gets one
//!   error about the missing permission, and no alternation of usable and not usable.
//! * After the first report, an unreachable server is not reported: the object may be unchanged.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_cache::{Availability, Backoff};
use pilothouse_client::{ApiResource, Client, Error, ListParams, WatchEvent, WatchParams, WatchStream};
use pilothouse_object::{Gvk, Object};
use pilothouse_plugin::{ConfigFrom, NamespacedName, ObjectReference};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::shared::{Shared, Source};
use super::{Holds, Read, Report, Unusable, entry};
use crate::access::{Answer, Question, Review};

/// From the beginning of a round to that of the next one, at least: servers end watches when they like.
const SPACING: Duration = Duration::from_secs(1);

/// For how many seconds a watch is asked for; the list that follows makes up for what a proxy has swallowed. As in client-go.
const WATCH: Range<u32> = 300..600;

/// First and longest wait after a failure, of which up to twice is waited; back to the first after this long without one.
const RETRY: (Duration, Duration, Duration) =
    (Duration::from_secs(1), Duration::from_secs(15), Duration::from_secs(60));

/// What can be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Secret,
    ConfigMap,
}

impl Kind {
    /// Of an entry that is no file.
    pub(super) fn of(from: &ConfigFrom) -> Self {
        if matches!(from, ConfigFrom::Secret(_)) { Self::Secret } else { Self::ConfigMap }
    }

    /// Whether an account may get an object.
    pub(super) fn question(self, account: &NamespacedName, reference: &ObjectReference) -> Question {
        Question {
            account: account.clone(),
            verb: "get",
            group: String::new(),
            resource: self.names().1.to_owned(),
            namespace: Some(reference.namespace.clone()),
            name: Some(reference.name.clone()),
        }
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Secret => ("Secret", "secrets"),
            Self::ConfigMap => ("ConfigMap", "configmaps"),
        }
    }
}

/// What is known of an object.
#[derive(Clone)]
pub(super) enum Seen {
    Absent,
    /// Its content, or why it cannot be used.
    There(Result<Holds, String>),
    /// It cannot be read or watched.
    Failed(Arc<Error>),
}

/// The objects of all plugins, each with one watch; a cheap clone.
#[derive(Clone)]
pub(super) struct Objects {
    client: Client,
    availability: Arc<Availability>,
    followed: Arc<Shared<(Kind, String, String), Seen>>,
}

impl Objects {
    pub(super) fn new(client: Client, availability: Arc<Availability>) -> Self {
        Self { client, availability, followed: Arc::default() }
    }

    /// Reports the content of an object to one entry, now and whenever it changes, until it is dropped.
    pub(super) async fn follow(self, entry: ObjectEntry, report: Report) {
        let ObjectEntry { kind, reference, .. } = &entry;
        let Some(right) = &entry.right else {
            let source = self.source(*kind, reference);
            return source.report(|seen| entry.read(seen), &report).await;
        };
        let mut answers = right.answers();
        loop {
            let is_allowed = match &*answers.borrow_and_update() {
                Answer::Allowed => true,
                Answer::Denied(_) | Answer::Unknown(_) => false,
            };
            let reporting = async {
                if is_allowed {
                    // Not read before: other accounts may be allowed what this one is not.
                    self.source(*kind, reference).report(|seen| entry.read(seen), &report).await;
                }
                // One that is asked just now has nothing to say.
                if let Some(why) = right.known_refusal() {
                    report.send(Err(entry.refused(&why))).await;
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                // The sender is in the review.
                _ = answers.changed() => {}
                () = reporting => {}
            }
        }
    }

    fn source(&self, kind: Kind, reference: &ObjectReference) -> Arc<Source<Seen>> {
        let key = (kind, reference.namespace.clone(), reference.name.clone());
        self.followed.source(key, |values| {
            let followed = Followed::new(kind, reference);
            followed.follow(self.client.clone(), Arc::clone(&self.availability), values)
        })
    }
}

/// One object that is followed.
struct Followed {
    kind: Kind,
    namespace: String,
    resource: ApiResource,
    selector: String,
}

impl Followed {
    fn new(kind: Kind, reference: &ObjectReference) -> Self {
        let (name, plural) = kind.names();
        Self {
            kind,
            resource: ApiResource::new(Gvk::new("", "v1", name), plural, true),
            selector: format!("metadata.name={}", reference.name),
            namespace: reference.namespace.clone(),
        }
    }

    /// Sets what the object holds, now and whenever that changes, until it is dropped.
    async fn follow(
        self,
        client: Client,
        availability: Arc<Availability>,
        values: watch::Sender<Option<Seen>>,
    ) {
        let mut backoff = Backoff::new(RETRY.0, RETRY.1, RETRY.2);
        let mut known = false;
        let set = |seen| {
            values.send_replace(Some(seen));
        };
        loop {
            let next = Instant::now() + SPACING;
            let failed = match self.open(&client, &availability).await {
                Ok((object, watch)) => {
                    backoff.success();
                    known = true;
                    set(self.seen(object.as_ref()));
                    self.watch(watch, &set).await.is_err()
                }
                Err(error) => {
                    if !known || error.is_forbidden() {
                        set(Seen::Failed(Arc::new(error)));
                    }
                    true
                }
            };
            if failed {
                sleep(backoff.failure()).await;
            }
            sleep_until(next).await;
        }
    }

    /// The object, if it is there, and a watch from there on.
    async fn open(
        &self,
        client: &Client,
        availability: &Arc<Availability>,
    ) -> Result<(Option<Object>, WatchStream), Error> {
        let namespace = Some(self.namespace.as_str());
        // With the selector, both are allowed by a Role that names the object.
        let list = ListParams { field_selector: self.selector.clone(), ..ListParams::default() };
        let permit = availability.enter().await;
        let listed = client.list_all(&self.resource, namespace, &list).await;
        permit.settle(listed.as_ref().is_err_and(Error::is_connection_refused));
        let mut listed = listed?;
        let watch = WatchParams {
            field_selector: self.selector.clone(),
            resource_version: Some(listed.meta.resource_version),
            timeout_seconds: Some(rand::random_range(WATCH)),
            ..WatchParams::default()
        };
        let permit = availability.enter().await;
        let opened = client.watch(&self.resource, namespace, &watch).await;
        permit.settle(opened.as_ref().is_err_and(Error::is_connection_refused));
        Ok((listed.items.pop(), opened?))
    }

    /// Follows a watch to its end; the list that comes next tells what was missed.
    async fn watch(&self, mut watch: WatchStream, set: &impl Fn(Seen)) -> Result<(), Error> {
        while let Some(event) = watch.next().await {
            match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => set(self.seen(Some(&object))),
                WatchEvent::Deleted(_) => set(Seen::Absent),
                WatchEvent::Bookmark { .. } => {}
            }
        }
        Ok(())
    }

    fn seen(&self, object: Option<&Object>) -> Seen {
        object
            .map_or(Seen::Absent, |object| Seen::There(entry::keys(self.kind, object.bytes()).map(Arc::new)))
    }
}

/// An entry of a manifest that names an object.
pub(super) struct ObjectEntry {
    kind: Kind,
    reference: ObjectReference,
    /// Whether the ServiceAccount of the plugin, if it has one, may get the object.
    right: Option<Arc<Review>>,
    /// Field and object, as an error begins.
    place: String,
}

impl ObjectEntry {
    pub(super) fn new(
        kind: Kind,
        reference: ObjectReference,
        field: &str,
        right: Option<Arc<Review>>,
    ) -> Self {
        let (name, _) = kind.names();
        let place = format!("{field}: {name} {}/{}", reference.namespace, reference.name);
        Self { kind, reference, right, place }
    }

    /// The account may not get the object.
    fn refused(&self, why: &str) -> Unusable {
        Unusable { message: format!("{}: {why}; grant it, or leave the object out", self.place), waits: true }
    }

    fn read(&self, seen: Seen) -> Read {
        match seen {
            Seen::Absent if self.reference.optional => Ok(Holds::default()),
            Seen::Absent => {
                let message =
                    format!("{} does not exist; create it, or write `optional: true` there", self.place);
                Err(Unusable { message, waits: true })
            }
            Seen::There(holds) => holds.map_err(|reason| Unusable {
                message: format!("{}, {reason}; correct the object, or leave it out", self.place),
                waits: false,
            }),
            Seen::Failed(error) => Err(self.cannot(&error)),
        }
    }

    fn cannot(&self, error: &Error) -> Unusable {
        let (place, (_, plural)) = (&self.place, self.kind.names());
        let ObjectReference { namespace, name, .. } = &self.reference;
        let message = match error {
            // What was read may be quoted.
            Error::Protocol { doing, .. } => {
                format!("{place}: {doing}: unexpected response; retrying")
            }
            error if error.is_forbidden() => format!(
                "{place}: {error}; grant the host's identity the verbs list and watch on {plural} {name:?} in namespace \
                 {namespace:?}; retrying"
            ),
            error => format!("{place}: {error}; retrying"),
        };
        Unusable { message, waits: true }
    }
}
