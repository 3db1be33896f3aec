//! [`AskServer`]: one SubjectAccessReview, or TokenReview.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{Method, StatusCode};
use pilothouse_cache::Availability;
use pilothouse_client::{Client, Error};
use serde::Deserialize;
use serde::de::DeserializeOwned;
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

/// A kind of reviews.
struct ReviewKind {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
}

const SUBJECT_ACCESS: ReviewKind =
    ReviewKind { group: "authorization.k8s.io", kind: "SubjectAccessReview", plural: "subjectaccessreviews" };
const TOKEN: ReviewKind =
    ReviewKind { group: "authentication.k8s.io", kind: "TokenReview", plural: "tokenreviews" };

/// A `Status` of the API.
#[derive(Deserialize)]
struct Failed {
    message: String,
}

#[derive(Deserialize)]
struct Reviewed<T> {
    status: T,
}

#[derive(Deserialize)]
struct TokenStatus {
    #[serde(default)]
    authenticated: bool,
    user: Option<UserInfo>,
}

#[derive(Deserialize)]
struct UserInfo {
    #[serde(default)]
    username: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    extra: BTreeMap<String, Vec<String>>,
}

/// The user that a token is of.
pub(crate) struct Identified {
    pub(crate) user: String,
    /// As [`AskServer::review`] takes it.
    pub(crate) subject: Value,
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

    /// Asks whether a subject, as the `spec` of a SubjectAccessReview names it, may do what `attributes` say.
    pub(crate) async fn review(
        &self,
        subject: Value,
        (field, attributes): (&str, Value),
    ) -> Result<Decision, String> {
        let mut spec = subject;
        spec[field] = attributes;
        let Status { allowed, reason } = self.post(&SUBJECT_ACCESS, spec).await?;
        Ok(if allowed { Ok(()) } else { Err(reason) })
    }

    /// Asks whose token it is; none if it is nobody's.
    pub(crate) async fn identify(&self, token: &str) -> Result<Option<Identified>, String> {
        let status: TokenStatus = self.post(&TOKEN, json!({"token": token})).await?;
        let user = status.user.filter(|user| status.authenticated && !user.username.is_empty());
        Ok(user.map(|user| {
            let UserInfo { username, uid, groups, extra } = user;
            let subject = json!({"user": username, "uid": uid, "groups": groups, "extra": extra});
            Identified { user: username, subject }
        }))
    }

    /// Sends a review with this `spec`, and gives its `status`.
    async fn post<T: DeserializeOwned>(&self, kind: &ReviewKind, spec: Value) -> Result<T, String> {
        let ReviewKind { group, kind, plural } = kind;
        let review = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec}).to_string();
        let path = format!("/apis/{group}/v1/{plural}");
        let permit = self.availability.enter().await;
        // A review has no name, so it is no object of a list or a watch.
        let answer = self.client.request_raw(Method::POST, &path, Some(review.as_bytes())).await;
        permit.settle(answer.as_ref().is_err_and(Error::is_connection_refused));
        let (status, body) = answer.map_err(|error| error.to_string())?;
        if !status.is_success() {
            let said = serde_json::from_slice::<Failed>(&body).map(|failed| failed.message);
            let said = said.unwrap_or_else(|_| status.to_string());
            if status == StatusCode::FORBIDDEN {
                return Err(format!("{said}; grant the host's identity the verb create on {plural}.{group}"));
            }
            return Err(said);
        }
        // What the server sends back holds a token: it is quoted nowhere.
        let reviewed: Reviewed<T> =
            serde_json::from_slice(&body).map_err(|_| format!("POST {path}: unexpected response"))?;
        Ok(reviewed.status)
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
            self.review(json!({"user": user, "groups": groups}), ("resourceAttributes", attributes)).await
        })
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_client::ClientOptions;
    use pilothouse_devserver::{DevServer, DevServerOptions, Fault, FaultRule};
    use pilothouse_plugin::NamespacedName;

    use super::*;

    #[tokio::test]
    async fn the_development_server_answers_reviews_and_a_refusal_names_the_remedy() {
        let server = DevServer::start(DevServerOptions::default()).await.unwrap();
        let options = ClientOptions { server: Some(server.url()), ..ClientOptions::default() };
        let asker = AskServer::new(&Client::new(options).await.unwrap(), Availability::new());
        let question = Question {
            account: NamespacedName { namespace: "ns".to_owned(), name: "robot".to_owned() },
            verb: "list",
            group: String::new(),
            resource: "pods".to_owned(),
            namespace: None,
            name: None,
        };
        assert_eq!(asker.ask(&question).await, Ok(Ok(())));
        assert!(asker.identify("any").await.unwrap().is_some());
        let refusal = Fault::Status { code: 403, retry_after: None };
        server.faults().add(FaultRule::on("create", "subjectaccessreviews.authorization.k8s.io", refusal));
        let trouble = asker.ask(&question).await.unwrap_err();
        let remedy = "grant the host's identity the verb create on subjectaccessreviews.authorization.k8s.io";
        assert!(trouble.ends_with(remedy), "{trouble}");
    }
}
