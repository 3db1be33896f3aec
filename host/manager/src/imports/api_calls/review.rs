//! Whether a plugin may make a call: as its manifest says, and as the API server says of its identity.

use http::Method;
use pilothouse_client::WriteGate;
use pilothouse_engine::{ClientAnswer, ClientCall, ClientError, ClientVerb, Refusal};
use pilothouse_plugin::Access;
use serde::Deserialize;
use serde_json::json;

use super::operation::Target;
use super::{ApiCalls, api_error, place, settle};

const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

#[derive(Deserialize)]
struct Reviewed {
    status: Status,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    allowed: bool,
}

impl ApiCalls {
    /// Asks the manifest first. What it does not grant, no answer of the server would change.
    pub(super) async fn may(&self, call: &ClientCall, target: &Target) -> Result<ClientAnswer, ClientError> {
        let ClientVerb::May { verb, subresource, .. } = &call.verb else {
            return Err(Refusal::invalid("no question").into());
        };
        if !self.grants.mentions_group(verb, &call.kind.group) {
            return Ok(ClientAnswer::May(false));
        }
        let (resource, permit) = self.discovered(&call.kind).await?;
        let access = Access {
            verb,
            group: &call.kind.group,
            resource: &resource.plural,
            subresource: Some(&**subresource).filter(|subresource| !subresource.is_empty()),
            place: place(&resource, target.namespace.as_deref()),
            name: target.name.as_deref(),
        };
        if self.grants.check(&access).is_err() {
            return Ok(ClientAnswer::May(false));
        }
        let attributes = json!({
            "verb": verb,
            "group": call.kind.group,
            "version": call.kind.version,
            "resource": resource.plural,
            "subresource": subresource,
            "namespace": target.namespace,
            "name": target.name,
        });
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        });
        // A question, though it is sent with POST: it is no write, and none that is late.
        let client = self.client.clone().with_write_gate(WriteGate::new(|| Ok(())));
        let answer = client.request_raw(Method::POST, PATH, Some(review.to_string().as_bytes())).await;
        settle(permit, &answer);
        let (status, body) = answer.map_err(|error| api_error(&error))?;
        if !status.is_success() {
            return Err(
                Refusal::unavailable(format_args!("the review of access was answered {status}")).into()
            );
        }
        let reviewed: Reviewed = serde_json::from_slice(&body)
            .map_err(|error| Refusal::unavailable(format_args!("the review of access: {error}")))?;
        Ok(ClientAnswer::May(reviewed.status.allowed))
    }
}
