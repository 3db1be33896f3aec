//! [`Collector`]: the core of a real OpenTelemetry collector on loopback, which takes spans as OTLP over HTTP.
//!
//! Invariants: it keeps its port over restarts, and the port stays reserved while it is down; it writes spans down before it
//! answers the request that they came in. All methods block.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Deserializer};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpSocket;

use crate::go_program::COLLECTOR;
use crate::process::{Process, Stream};
use crate::{poll, proxy};

/// Time limit until the collector listens.
const START: Duration = Duration::from_secs(60);

/// A collector. Dropping it kills the process.
#[derive(Debug)]
pub struct Collector {
    process: Option<Process>,
    port: u16,
    folder: TempDir,
    /// Reserves the port.
    _reserved: TcpSocket,
}

/// A span as the collector has it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// `service.name` of the process that made it.
    #[serde(skip)]
    pub service: String,
    /// Number of the trace, in hexadecimal.
    pub trace_id: String,
    /// Number of the span, in hexadecimal.
    pub span_id: String,
    /// Number of the span that it is a part of; empty for none.
    #[serde(default)]
    pub parent_span_id: String,
    /// What it is of.
    pub name: String,
    /// 1 for work of the process itself, 3 for a request to another one.
    pub kind: u8,
    /// When it began, in nanoseconds since 1970.
    pub start_time_unix_nano: String,
    /// When it ended, in nanoseconds since 1970.
    pub end_time_unix_nano: String,
    /// What is known of it; numbers as decimals.
    #[serde(default, deserialize_with = "by_name")]
    pub attributes: BTreeMap<String, String>,
    /// How it ended.
    pub status: Status,
}

/// How a span ended.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Status {
    /// 2 for an error, otherwise 0.
    #[serde(default)]
    pub code: u8,
    /// The error.
    #[serde(default)]
    pub message: String,
}

impl Collector {
    /// Builds the collector if necessary, starts it on a free port, and waits until it listens.
    ///
    /// # Errors
    /// When it cannot be built or started.
    pub fn start() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("collector-").tempdir()?;
        let reserved = proxy::bind(0)?;
        let port = reserved.local_addr()?.port();
        let config = json!({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": format!("127.0.0.1:{port}")}}}},
            "exporters": {"stdout": {}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["stdout"]}},
            },
        });
        fs::write(folder.path().join("config.yaml"), config.to_string())?;
        let mut collector = Self { process: None, port, folder, _reserved: reserved };
        collector.start_again()?;
        Ok(collector)
    }

    /// The URL, as `--otlp-endpoint` takes it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again after [`Collector::kill`], and waits until it listens.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(COLLECTOR.built()?);
        command.arg("--config").arg(self.folder.path().join("config.yaml"));
        let process = Process::spawn_watched(&mut command)?;
        let listens = |line: &str| line.contains("Starting HTTP server").then_some(());
        let ended = || {
            process.exit_status().map(|status| format!("it ended ({status}): {}", process.output().tail(20)))
        };
        let is_up = || process.output().find_map(Stream::Err, listens);
        poll::until_or("the collector to listen", START, is_up, ended)?;
        self.process = Some(process);
        Ok(())
    }

    /// The spans that it got since it was started last, in the order in which they came.
    ///
    /// # Errors
    /// When it does not run, or a line of it cannot be read.
    pub fn spans(&self) -> anyhow::Result<Vec<Span>> {
        let process = self.process.as_ref().context("the collector does not run")?;
        let mut spans = Vec::new();
        for line in process.output().matching("{\"resourceSpans\":") {
            let request: Request = serde_json::from_str(&line).with_context(|| line.clone())?;
            for ResourceSpans { resource, scope_spans } in request.resource_spans {
                let service = resource.attributes.get("service.name").cloned().unwrap_or_default();
                let all = scope_spans.into_iter().flat_map(|scope| scope.spans);
                spans.extend(all.map(|span| Span { service: service.clone(), ..span }));
            }
        }
        Ok(spans)
    }
}

/// A line of the collector: what came in one request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans {
    resource: Resource,
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(default, deserialize_with = "by_name")]
    attributes: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct ScopeSpans {
    spans: Vec<Span>,
}

/// Reads a list of attributes. Their values are texts in OTLP JSON, those of integers as well.
fn by_name<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    #[derive(Deserialize)]
    struct Attribute {
        key: String,
        /// One entry, whose name is the type.
        value: BTreeMap<String, String>,
    }
    let attributes = Vec::<Attribute>::deserialize(from)?;
    Ok(attributes.into_iter().map(|it| (it.key, it.value.into_values().collect())).collect())
}
