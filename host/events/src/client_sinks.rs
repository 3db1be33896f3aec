//! [`CoreV1Sink`] and [`EventsV1Sink`]: the API server as a sink, over either of its two APIs for Events.

use std::sync::Arc;

use pilothouse_client::{ApiResource, Client, Error, Patch, RetryPolicy, WriteParams};
use pilothouse_object::{Gvk, Object, ObjectKey};

use crate::event::Event;
use crate::sink::{EventSink, Recorded, SinkError};
use crate::wire;

/// core/v1: occurrences are counted in `count`. The user needs `create` and `patch` on `events`.
#[derive(Debug, Clone)]
pub struct CoreV1Sink(Events);

/// events.k8s.io/v1: occurrences are counted in `series`. The user needs `create` and `patch` on `events.events.k8s.io`.
#[derive(Debug, Clone)]
pub struct EventsV1Sink(Events);

impl CoreV1Sink {
    /// A sink over this client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self(Events::new(client, ""))
    }
}

impl EventsV1Sink {
    /// A sink over this client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self(Events::new(client, "events.k8s.io"))
    }

    /// Whether the server has this API; where it does not, [`CoreV1Sink`] takes its place.
    ///
    /// # Errors
    /// When the server does not answer, or with something else.
    pub async fn is_served(client: &Client) -> Result<bool, Error> {
        match client.discovery().resources("events.k8s.io", "v1").await {
            Ok(resources) => Ok(resources.iter().any(|resource| resource.plural == "events")),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl EventSink for CoreV1Sink {
    async fn create(&self, event: &Event) -> Result<Recorded, SinkError> {
        self.0.create(event, wire::core_v1(event)).await
    }

    async fn patch(&self, event: &Event, patch: &[u8]) -> Result<Recorded, SinkError> {
        self.0.patch(event, patch).await
    }
}

impl EventSink for EventsV1Sink {
    async fn create(&self, event: &Event) -> Result<Recorded, SinkError> {
        self.0.create(event, wire::events_v1(event)).await
    }

    async fn patch(&self, event: &Event, patch: &[u8]) -> Result<Recorded, SinkError> {
        self.0.patch(event, patch).await
    }
}

#[derive(Debug, Clone)]
struct Events {
    client: Client,
    resource: ApiResource,
}

impl Events {
    fn new(client: Client, group: &str) -> Self {
        let resource = ApiResource::new(Gvk::new(group, "v1", "Event"), "events", true);
        // The broadcaster has its own policy, and counts each try.
        Self { client: client.with_retry_policy(RetryPolicy::none()), resource }
    }

    async fn create(&self, event: &Event, body: serde_json::Result<Vec<u8>>) -> Result<Recorded, SinkError> {
        let body = body.map_err(|error| SinkError::Construction(error.to_string()))?;
        let params = WriteParams::default();
        let answer = self.client.create(&self.resource, Some(event.namespace()), &body, &params).await?;
        Ok(recorded(event, &answer))
    }

    async fn patch(&self, event: &Event, patch: &[u8]) -> Result<Recorded, SinkError> {
        let key = ObjectKey::new(Some(event.namespace()), &event.name)
            .map_err(|error| SinkError::Construction(error.to_string()))?;
        let (patch, params) = (Patch::Strategic(patch), WriteParams::default());
        let answer = self.client.patch(&self.resource, &key, patch, &params).await?;
        Ok(recorded(event, &answer))
    }
}

/// The event as the server stored it; fields that its answer lacks are as they were sent.
fn recorded(event: &Event, answer: &Object) -> Recorded {
    let sent = Recorded::from(event);
    Recorded {
        name: if *answer.name() == *sent.name { sent.name } else { Arc::from(answer.name()) },
        count: answer.get("/count").and_then(|count| count.parse().ok()).unwrap_or(sent.count),
        first_timestamp: answer
            .get_string("/firstTimestamp")
            .and_then(|time| time.parse().ok())
            .unwrap_or(sent.first_timestamp),
    }
}
