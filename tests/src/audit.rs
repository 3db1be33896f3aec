//! [`Audit`]: the API server's own record of every request, as proof of what was sent and by which user.
//!
//! Invariant: the record is complete and timely. A real API server records a request before it processes it, and its
//! outcome after the response. It records all requests of authenticated users, including forbidden ones. The
//! development server records each request just before it sends the response.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use pilothouse_devserver::Served;
use serde::Deserialize;
use tempfile::TempDir;

use crate::ControlPlane;
use crate::controlplane::{Options, Server};

/// The audit policy: all stages of every request, without bodies but for those of Leases.
const POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [
    {"level": "Request", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
    {"level": "Metadata"}
]}"#;

/// A control plane that records every request.
#[derive(Debug)]
pub struct Audit {
    plane: ControlPlane,
    folder: TempDir,
}

/// One stage of one request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// What all stages of one request have in common; empty on the development server.
    #[serde(default, rename = "auditID")]
    pub audit_id: String,
    /// `RequestReceived`, `ResponseStarted`, `ResponseComplete`.
    pub stage: String,
    /// `get`, `list`, `watch`, `create` and so on.
    pub verb: String,
    /// The path and the query.
    #[serde(rename = "requestURI")]
    pub uri: String,
    /// The user agent of the client.
    #[serde(default)]
    pub user_agent: String,
    /// The authenticated user.
    pub user: User,
    /// The impersonated user. The first stage does not have it.
    #[serde(default)]
    pub impersonated_user: Option<User>,
    /// The object of the request.
    #[serde(default)]
    pub object_ref: Option<ObjectRef>,
    /// What a write of a Lease has sent; none in the first stage, and on the development server.
    #[serde(default)]
    pub request_object: Option<serde_json::Value>,
    /// The outcome of the request.
    #[serde(default)]
    pub response_status: Option<Response>,
}

/// A user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct User {
    /// The name.
    #[serde(default)]
    pub username: String,
    /// The groups.
    #[serde(default)]
    pub groups: Vec<String>,
}

/// The object of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectRef {
    /// The API group; empty for the core group, and on the development server.
    pub api_group: String,
    /// The plural resource name.
    pub resource: String,
    /// The subresource; empty on the development server.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Response {
    /// The HTTP status.
    pub code: u16,
}

impl Audit {
    /// Starts a control plane that records every request.
    pub fn start(server: Server) -> anyhow::Result<Audit> {
        let folder = tempfile::Builder::new().prefix("audit-").tempdir().context("making a folder")?;
        let path = |name: &str| folder.path().join(name);
        fs::write(path("policy.json"), POLICY)?;
        let apiserver_flags = vec![
            format!("--audit-policy-file={}", path("policy.json").display()),
            format!("--audit-log-path={}", path("log").display()),
            // Written before the response, and not in batches.
            "--audit-log-mode=blocking".to_owned(),
        ];
        Ok(Audit { plane: ControlPlane::start(Options { apiserver_flags, ..Options::on(server) })?, folder })
    }

    /// The control plane.
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// All records so far.
    pub fn events(&self) -> anyhow::Result<Vec<Event>> {
        if let Some(server) = self.plane.development() {
            return Ok(server.requests().into_iter().map(event).collect());
        }
        let path: PathBuf = self.folder.path().join("log");
        let log = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        // The last line may be incomplete.
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        let parse = |line| serde_json::from_str(line).map_err(|error| anyhow!("{error} in {line}"));
        whole.lines().map(parse).collect()
    }

    /// The requests whose user agent names this plugin.
    pub fn of_plugin(&self, plugin: &str) -> anyhow::Result<Vec<Event>> {
        let mut events = self.events()?;
        let suffix = format!(" ({plugin})");
        events.retain(|event| {
            event.user_agent.starts_with("pilothouse/") && event.user_agent.ends_with(&suffix)
        });
        Ok(events)
    }
}

/// Converts a record of the development server.
fn event(served: Served) -> Event {
    let groups = served.impersonated_groups;
    Event {
        audit_id: String::new(),
        stage: "ResponseComplete".to_owned(),
        verb: served.verb,
        uri: served.uri,
        user_agent: served.user_agent,
        user: User { username: served.user, groups: Vec::new() },
        impersonated_user: served.impersonated.map(|username| User { username, groups }),
        object_ref: (!served.resource.is_empty()).then_some(ObjectRef {
            resource: served.resource,
            namespace: served.namespace,
            name: served.name,
            ..ObjectRef::default()
        }),
        request_object: None,
        response_status: (served.code > 0).then_some(Response { code: served.code }),
    }
}
