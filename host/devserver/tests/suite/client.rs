//! A client of few words for the tests, and builders of objects.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use pilothouse_devserver::{DevServer, DevServerOptions};
use serde_json::{Value, json};

/// Nothing in these tests takes so long, also without optimisation on a busy machine: this tells a hang, and measures nothing.
pub(crate) const SOON: Duration = Duration::from_secs(120);

/// A server and a client of it.
pub(crate) struct Cluster {
    pub(crate) server: DevServer,
    hyper: Hyper<HttpConnector, Full<Bytes>>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", self.body))
    }

    /// The object of an answer that must be a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.code), "{} {}", self.code, String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// Code, reason and message of an answer that must be a `Status` of failure.
    #[track_caller]
    pub(crate) fn failed(self) -> (u16, String, String) {
        let status = self.json();
        assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Failure")), "{status}");
        assert_eq!(status["code"], self.code);
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        (self.code, text("reason"), text("message"))
    }

    /// Whether it says that there is no such path, with the line of text that a real server has for it.
    pub(crate) fn is_no_page(&self) -> bool {
        self.code == 404
            && self.headers["content-type"] == "text/plain; charset=utf-8"
            && *self.body == *b"404 page not found\n"
    }

    /// Code and reason of a failure.
    #[track_caller]
    pub(crate) fn reason(self) -> (u16, String) {
        let (code, reason, _) = self.failed();
        (code, reason)
    }
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        Self::with(DevServerOptions::default()).await
    }

    pub(crate) async fn with(options: DevServerOptions) -> Self {
        let server = DevServer::start(options).await.unwrap();
        Self { server, hyper: Hyper::builder(TokioExecutor::new()).build_http() }
    }

    /// A request with any headers, until its answer begins.
    pub(crate) async fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<http::Response<Incoming>, hyper_util::client::legacy::Error> {
        let uri = format!("http://{}{path}", self.server.address());
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        tokio::time::timeout(SOON, self.hyper.request(request)).await.expect("an answer in time")
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let (parts, body) = self.begin(method, path, headers, body).await.unwrap().into_parts();
        let body =
            tokio::time::timeout(SOON, body.collect()).await.expect("a body in time").unwrap().to_bytes();
        Answer { code: parts.status.as_u16(), headers: parts.headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, object: &Value) -> Answer {
        self.send("POST", path, &[("content-type", "application/json")], object.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, object: &Value) -> Answer {
        self.send("PUT", path, &[("content-type", "application/json")], object.to_string()).await
    }

    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Answer {
        self.send("PATCH", path, &[("content-type", "application/merge-patch+json")], patch.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str, options: &Value) -> Answer {
        let body = if options.is_null() { String::new() } else { options.to_string() };
        self.send("DELETE", path, &[("content-type", "application/json")], body).await
    }

    /// Makes a ConfigMap in `default`.
    pub(crate) async fn config_map(&self, name: &str) -> Value {
        self.post(CONFIG_MAPS, &config_map(name)).await.ok()
    }

    /// A watch that has begun.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        let response = self.begin("GET", path, &[], "").await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Watch::of(response)
    }
}

/// A watch, line by line.
pub(crate) struct Watch {
    body: Incoming,
    buffer: BytesMut,
}

impl Watch {
    pub(crate) fn of(response: http::Response<Incoming>) -> Self {
        Self { body: response.into_body(), buffer: BytesMut::new() }
    }

    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        self.line().await.expect("no error").map(|line| serde_json::from_slice(&line).unwrap())
    }

    /// The next whole line, or how the connection failed.
    pub(crate) async fn line(&mut self) -> Result<Option<Bytes>, hyper::Error> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                return Ok(Some(self.buffer.split_to(end + 1).freeze()));
            }
            let frame = tokio::time::timeout(SOON, self.body.frame()).await.expect("a line in time");
            match frame {
                None => return Ok(None),
                Some(frame) => self.buffer.extend_from_slice(frame?.data_ref().unwrap()),
            }
        }
    }

    /// Whether nothing comes for a moment.
    pub(crate) async fn is_silent(&mut self, moment: Duration) -> bool {
        tokio::time::timeout(moment, self.body.frame()).await.is_err()
    }

    /// `ADDED name`, `BOOKMARK` …
    pub(crate) async fn told(&mut self) -> String {
        let event = self.next().await.expect("an event");
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        format!("{} {name}", event["type"].as_str().unwrap()).trim().to_owned()
    }
}

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "value"}})
}

pub(crate) fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "example"}]},
    })
}

pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}
