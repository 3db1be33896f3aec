//! [`Audit`]: the API server's own record of every request it got, as a proof of what went over the wire and as whom.
//!
//! Invariant: the record is complete and in time: a real API server writes down that it got a request before it does
//! anything about it, and how that ended once the answer is out. It knows all requests of authenticated users, those that it
//! forbids included. The development server writes down each request just before its answer goes out.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use pilothouse_devserver::Served;
use serde::Deserialize;
use tempfile::TempDir;

use crate::ControlPlane;
use crate::controlplane::{Options, Server};

/// All of every request but the bodies.
const POLICY: &str =
    r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}"#;

/// A control plane that writes down every request.
#[derive(Debug)]
pub struct Audit {
    plane: ControlPlane,
    folder: TempDir,
}

/// One stage of one request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// `RequestReceived`, `ResponseStarted`, `ResponseComplete`.
    pub stage: String,
    /// `get`, `list`, `watch`, `create` and so on.
    pub verb: String,
    /// The path and the query.
    #[serde(rename = "requestURI")]
    pub uri: String,
    /// What the client calls itself.
    #[serde(default)]
    pub user_agent: String,
    /// Who has asked.
    pub user: User,
    /// As whom.
    #[serde(default)]
    pub impersonated_user: Option<User>,
    /// About what.
    #[serde(default)]
    pub object_ref: Option<ObjectRef>,
    /// With what outcome.
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

/// What a request is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ObjectRef {
    /// The plural.
    pub resource: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Response {
    /// The HTTP status.
    pub code: u16,
}

impl Audit {
    /// Starts a control plane that writes down every request.
    pub fn start(server: Server) -> anyhow::Result<Audit> {
        let folder = tempfile::Builder::new().prefix("audit-").tempdir().context("making a folder")?;
        let path = |name: &str| folder.path().join(name);
        fs::write(path("policy.json"), POLICY)?;
        let apiserver_flags = vec![
            format!("--audit-policy-file={}", path("policy.json").display()),
            format!("--audit-log-path={}", path("log").display()),
            // Before the answer, and not in batches.
            "--audit-log-mode=blocking".to_owned(),
        ];
        Ok(Audit { plane: ControlPlane::start(Options { apiserver_flags, ..Options::on(server) })?, folder })
    }

    /// The control plane.
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// All that was written down so far.
    pub fn events(&self) -> anyhow::Result<Vec<Event>> {
        if let Some(server) = self.plane.development() {
            return Ok(server.requests().into_iter().map(event).collect());
        }
        let path: PathBuf = self.folder.path().join("log");
        let log = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        // The last line may be in the making.
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        let parse = |line| serde_json::from_str(line).map_err(|error| anyhow!("{error} in {line}"));
        whole.lines().map(parse).collect()
    }

    /// What a plugin has sent under its own name.
    pub fn of_plugin(&self, plugin: &str) -> anyhow::Result<Vec<Event>> {
        let mut events = self.events()?;
        let suffix = format!(" ({plugin})");
        events.retain(|event| {
            event.user_agent.starts_with("pilothouse/") && event.user_agent.ends_with(&suffix)
        });
        Ok(events)
    }
}

/// What the development server wrote down.
fn event(served: Served) -> Event {
    let groups = served.impersonated_groups;
    Event {
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
        }),
        response_status: (served.code > 0).then_some(Response { code: served.code }),
    }
}
