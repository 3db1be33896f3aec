//! [`Side`]: one of two servers that are compared, and [`Answer`]: what came of a request to it.
//!
//! The real server is the oracle, in its default settings: no further versions, no features that are off. No controller
//! runs on either server. Two servers agree on a refusal when its code, its reason and the fields of its causes are the same:
//! words and order are free. `mistakes` compares the words of the commonest refusals.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use http::Method;
use pilothouse_client::{Client, ClientOptions, RetryPolicy};
use pilothouse_devserver::ControllerSet;
use pilothouse_tests::ControlPlane;
use pilothouse_tests::controlplane::{Options, Server};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The code where the real server gave no answer.
pub(crate) const NONE: u16 = 0;

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

impl Answer {
    /// The object, unless the request was refused.
    pub(crate) fn object(&self) -> Option<&Value> {
        (200..300).contains(&self.code).then_some(&self.body)
    }

    pub(crate) fn version(&self) -> &str {
        self.body["metadata"]["resourceVersion"].as_str().unwrap_or_default()
    }

    /// In what two servers agree that refuse something, or that do not.
    pub(crate) fn verdict(&self) -> Verdict {
        if self.object().is_some() {
            return Verdict::Accepted;
        }
        let causes = self.body["details"]["causes"].as_array().into_iter().flatten();
        let field = |cause: &Value| cause["field"].as_str().unwrap_or_default().to_owned();
        let reason = self.body["reason"].as_str().unwrap_or_default().to_owned();
        Verdict::Refused { code: self.code, reason, fields: causes.map(field).collect() }
    }
}

/// What a server says of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    Refused { code: u16, reason: String, fields: BTreeSet<String> },
}

/// A request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'static str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a [(&'a str, String)],
    /// None is sent where it is empty, and no body either.
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

/// A running server.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    pub(crate) server: Server,
    client: Client,
}

/// The real server and the development server.
pub(crate) struct Both {
    pub(crate) real: Side,
    pub(crate) development: Side,
    pub(crate) runtime: Runtime,
    _planes: [ControlPlane; 2],
}

impl Both {
    pub(crate) fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let start = |server| {
            let controllers = ControllerSet::none();
            ControlPlane::start(Options { development_controllers: controllers, ..Options::on(server) })
        };
        let planes = [start(Server::Real)?, start(Server::Development)?];
        let side = |server, plane| runtime.block_on(Side::new(server, plane));
        let (real, development) = (side(Server::Real, &planes[0])?, side(Server::Development, &planes[1])?);
        Ok(Self { real, development, runtime, _planes: planes })
    }

    /// Does the same with both: what came of it on the real server, and on the development server.
    pub(crate) fn each<T>(&self, act: impl AsyncFn(&Side) -> Result<T>) -> Result<(T, T)> {
        self.runtime.block_on(async {
            let (real, development) = tokio::join!(act(&self.real), act(&self.development));
            Ok((real.context("on the real server")?, development.context("on the development server")?))
        })
    }
}

impl Side {
    async fn new(server: Server, plane: &ControlPlane) -> Result<Self> {
        let options = ClientOptions {
            kubeconfig: Some(plane.kubeconfig().to_owned()),
            user_agent: "writer/1.0".to_owned(),
            retry: RetryPolicy::none(),
            ..ClientOptions::default()
        };
        Ok(Self { server, client: Client::new(options).await?.without_rate_limit() })
    }

    pub(crate) async fn send(&self, request: Request<'_>) -> Result<Answer> {
        let Request { method, path, query, content_type, body } = request;
        let method = Method::from_bytes(method.as_bytes())?;
        let mut request = self.client.rest("", "v1").verb(method).absolute_path(path);
        for (name, value) in query {
            request = request.param(name, value);
        }
        if !content_type.is_empty() {
            request = request.body(content_type, body);
        }
        let response = match request.send_any().await {
            // It has a few panics, such as for a success policy without completions.
            Err(_) if self.server == Server::Real => {
                return Ok(Answer { code: NONE, warnings: Vec::new(), body: Value::Null });
            }
            response => response?,
        };
        let warnings = response.warnings().into_iter().map(|warning| warning.text).collect();
        let text = String::from_utf8_lossy(response.body()).into_owned();
        let body = serde_json::from_str(&text).unwrap_or_else(|_| text.into());
        Ok(Answer { code: response.status().as_u16(), warnings, body })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Request { method: "GET", path, ..Request::default() }).await
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Answer> {
        self.write("POST", path, &[], object).await
    }

    pub(crate) async fn write(
        &self,
        method: &'static str,
        path: &str,
        query: &[(&str, String)],
        body: &Value,
    ) -> Result<Answer> {
        let (content_type, body) = ("application/json", body.to_string());
        self.send(Request { method, path, query, content_type, body }).await
    }

    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Result<Answer> {
        let (content_type, body) = ("application/merge-patch+json", patch.to_string());
        self.send(Request { method: "PATCH", path, content_type, body, ..Request::default() }).await
    }

    /// Creates an object that the rest depends on.
    pub(crate) async fn make(&self, path: &str, object: &Value) -> Result<Answer> {
        let answer = self.create(path, object).await?;
        anyhow::ensure!(answer.code == 201, "{path}: {object}: {answer:?}");
        Ok(answer)
    }

    pub(crate) async fn make_namespace(&self, name: &str) -> Result<()> {
        self.make("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await.map(drop)
    }

    /// Makes a definition, and waits until its objects are served.
    pub(crate) async fn define(&self, definition: &Value, served: &str) -> Result<()> {
        self.make(DEFINITIONS, definition).await?;
        let is_served = async {
            while self.get(served).await?.code != 200 {
                tokio::task::yield_now().await;
            }
            anyhow::Ok(())
        };
        let waited = tokio::time::timeout(pilothouse_testkit::poll::SOON, is_served).await;
        waited.with_context(|| format!("{served} is not served"))?
    }
}

pub(crate) fn is_uid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}
