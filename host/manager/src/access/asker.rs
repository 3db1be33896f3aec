//! [`AskServer`]: one SubjectAccessReview.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use pilothouse_cache::Availability;
use pilothouse_client::{ApiResource, Client, Error, WriteParams};
use pilothouse_object::Gvk;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Question;

/// The longest wait for one answer: a server that hangs is one that does not answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What the server decided; the reason of a denial may be empty.
pub(crate) type Decision = Result<(), String>;

/// Asks questions.
pub(crate) trait Asker: Send + Sync {
    /// Asks one; an error is the trouble of the host or the server, and decides nothing.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<Decision, String>>;
}

/// Asks the API server, as the host.
pub(crate) struct AskServer {
    client: Client,
    availability: Arc<Availability>,
}

#[derive(Deserialize)]
struct Reviewed {
    status: Status,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    allowed: bool,
    #[serde(default)]
    reason: String,
}

impl AskServer {
    pub(crate) fn new(client: &Client, availability: Arc<Availability>) -> Self {
        Self { client: client.clone().with_request_timeout(TIMEOUT), availability }
    }

    /// Asks whether a user may do what `attributes` say.
    pub(crate) async fn review(
        &self,
        user: &str,
        groups: &[String],
        attributes: (&str, Value),
    ) -> Result<Decision, String> {
        let resource = ApiResource::new(
            Gvk::new("authorization.k8s.io", "v1", "SubjectAccessReview"),
            "subjectaccessreviews",
            false,
        );
        let (field, attributes) = attributes;
        let mut review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups},
        });
        review["spec"][field] = attributes;
        let permit = self.availability.enter().await;
        let answer =
            self.client.create(&resource, None, review.to_string().as_bytes(), &WriteParams::default()).await;
        permit.settle(answer.as_ref().is_err_and(Error::is_connection_refused));
        let answer = answer.map_err(|error| {
            let remedy = if error.is_forbidden() {
                "; grant the host's identity the verb create on subjectaccessreviews.authorization.k8s.io"
            } else {
                ""
            };
            format!("{error}{remedy}")
        })?;
        let reviewed: Reviewed =
            serde_json::from_slice(answer.bytes()).map_err(|_| "unexpected response".to_owned())?;
        let Status { allowed, reason } = reviewed.status;
        Ok(if allowed { Ok(()) } else { Err(reason) })
    }
}

impl Asker for AskServer {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<Decision, String>> {
        let Question { account, verb, group, resource, namespace, name } = question;
        let mut attributes = json!({"verb": verb, "group": group, "version": "*", "resource": resource});
        if let Some(namespace) = namespace {
            attributes["namespace"] = json!(namespace);
        }
        if let Some(name) = name {
            attributes["name"] = json!(name);
        }
        Box::pin(async move {
            let (user, groups) = (account.service_account_user(), account.service_account_groups());
            self.review(&user, &groups, ("resourceAttributes", attributes)).await
        })
    }
}
