//! [`Side`]: one of the two servers under test, and what it answers to the steps.

use anyhow::{Result, bail};
use http::Method;
use pilothouse_client::{Client, ClientOptions, RetryPolicy};
use pilothouse_devserver::ControllerSet;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::ControlPlane;
use pilothouse_tests::controlplane::{Options, Server};
use serde_json::{Value, json};

use super::edit::{Edit, text};
use super::kinds::{self, NAMESPACES};
use super::step::{Body, Step, Version};

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) warnings: Vec<String>,
    pub(super) body: Value,
}

impl Answer {
    pub(super) fn object(&self) -> Option<&Value> {
        (200..300).contains(&self.code).then_some(&self.body)
    }

    pub(super) fn version(&self) -> &str {
        self.body["metadata"]["resourceVersion"].as_str().unwrap_or_default()
    }
}

/// Starts a server on which nothing but the test writes.
pub(super) fn start(server: Server) -> Result<ControlPlane> {
    let apiserver_flags = [
        "--runtime-config=api/all=true",
        // A controller of the server itself, which would write the status of FlowSchemas.
        "--enable-priority-and-fairness=false",
    ];
    ControlPlane::start(Options {
        apiserver_flags: apiserver_flags.map(str::to_owned).to_vec(),
        development_controllers: ControllerSet::none(),
        ..Options::on(server)
    })
}

/// A server, with the custom resources defined and the namespaces made.
pub(super) struct Side {
    client: Client,
}

impl Side {
    pub(super) async fn new(plane: &ControlPlane) -> Result<Self> {
        let client = Client::new(ClientOptions {
            kubeconfig: Some(plane.kubeconfig().to_owned()),
            user_agent: "writer/1.0".to_owned(),
            retry: RetryPolicy::none(),
            ..ClientOptions::default()
        })
        .await?;
        let side = Self { client };
        side.prepare().await?;
        Ok(side)
    }

    async fn prepare(&self) -> Result<()> {
        let mut made = Vec::new();
        for name in NAMESPACES {
            made.push(("/api/v1/namespaces", json!({"metadata": {"name": name}})));
        }
        for definition in kinds::definitions()? {
            made.push(("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition));
        }
        for (path, object) in made {
            let answer = self.send("POST", path, &[], "application/json", object.to_string()).await?;
            if answer.code != 201 {
                bail!("{path}: {answer:?}");
            }
        }
        // A definition is served a moment after it was made.
        let began = tokio::time::Instant::now();
        for path in ["/apis/rnd.example/v1/namespaces/rnd/gadgets", "/apis/rnd.example/v1/blobs"] {
            while self.get(path).await?.code != 200 {
                if began.elapsed() > SOON {
                    bail!("{path} is not served");
                }
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    pub(super) async fn get(&self, path: &str) -> Result<Answer> {
        self.send("GET", path, &[], "", String::new()).await
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        query: &[(&'static str, String)],
        content_type: &'static str,
        body: String,
    ) -> Result<Answer> {
        let mut request =
            self.client.rest("", "v1").verb(Method::from_bytes(method.as_bytes())?).absolute_path(path);
        for (name, value) in query {
            request = request.param(name, value);
        }
        if !content_type.is_empty() {
            request = request.body(content_type, body);
        }
        let response = request.send_any().await?;
        let warnings = response.warnings().into_iter().map(|warning| warning.text).collect();
        let text = String::from_utf8_lossy(response.body()).into_owned();
        let body = serde_json::from_str(&text).unwrap_or_else(|_| text.into());
        Ok(Answer { code: response.status().as_u16(), warnings, body })
    }

    /// Makes a step, given what this server has where the step leads.
    pub(super) async fn make(
        &self,
        collection: &str,
        step: &Step,
        current: Option<&Value>,
    ) -> Result<Answer> {
        let nothing = Value::Null;
        let current = current.unwrap_or(&nothing);
        let version = |version: Version| -> Value {
            match version {
                Version::Current => current["metadata"]["resourceVersion"].clone(),
                Version::None => Value::Null,
                Version::Stale => "1".into(),
                Version::Malformed => "new".into(),
            }
        };
        let (content_type, body) = match &step.body {
            Body::None => ("", String::new()),
            Body::Text(text) => (step.content_type, text.clone()),
            Body::Changed { edits, version: of } => {
                let mut object = current.clone();
                edits.iter().for_each(|edit| edit.apply(&mut object));
                Edit::new("/metadata/resourceVersion", &version(*of)).apply(&mut object);
                (step.content_type, text(&object))
            }
            Body::Options { options, uid, version: of } => {
                let mut options = options.clone();
                if *uid {
                    options["preconditions"]["uid"] = current["metadata"]["uid"].clone();
                }
                if *of != Version::None {
                    options["preconditions"]["resourceVersion"] = version(*of);
                }
                (step.content_type, options.to_string())
            }
        };
        self.send(step.method, &format!("{collection}{}", step.below), &step.query, content_type, body).await
    }

    /// Removes an object, whatever it waits for, as far as that can be done.
    pub(super) async fn remove(&self, collection: &str, name: &str) -> Result<()> {
        let path = format!("{collection}/{name}");
        let let_go = json!({"metadata": {"finalizers": null}}).to_string();
        self.send("PATCH", &path, &[], "application/merge-patch+json", let_go).await?;
        let now = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"}).to_string();
        self.send("DELETE", &path, &[], "application/json", now).await?;
        Ok(())
    }
}
