//! [`TraceArgs`]: the flags of `run` for traces, and the task that sends spans to a collector, as OTLP over HTTP. Only with the
//! Cargo feature `traces`.
//!
//! Invariants: one batch is on its way at a time, and what comes meanwhile waits in a channel with a bound, so a collector that
//! is slow or away costs spans and nothing else; what could not be sent is counted, and not tried again.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use pilothouse_manager::{Attribute, Span, Traces};
use tokio::runtime::Handle;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Most spans of a request, and how long a request waits for more of them.
const BATCH: usize = 512;
const LINGER: Duration = Duration::from_secs(1);

/// The longest time of a request.
const REQUEST: Duration = Duration::from_secs(10);

/// How long the last spans may still be sent when the host ends.
const GRACE: Duration = Duration::from_secs(2);

/// Least time between two lines of the log about a collector that takes no spans.
const REPEAT: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(crate) struct TraceArgs {
    /// Collector that gets traces of calls, as http://127.0.0.1:4318 (OTLP, protobuf over HTTP)
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Share of calls that are traced, 0 to 1
    #[arg(long, value_name = "RATIO", requires = "otlp_endpoint", default_value_t = 0.01)]
    trace_ratio: f64,
}

/// Sends spans until the host ends.
pub(crate) struct Exporting {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl TraceArgs {
    /// Begins to make traces, if there are to be any, and to send them from `work`.
    pub(crate) fn start(&self, work: &Handle) -> Result<Option<(Traces, Exporting)>> {
        let Some(endpoint) = &self.otlp_endpoint else { return Ok(None) };
        if !(0.0..=1.0).contains(&self.trace_ratio) {
            bail!("--trace-ratio: {} is no share of calls: name a number from 0 to 1", self.trace_ratio);
        }
        let exporter = exporter(endpoint)?;
        let (traces, spans) = Traces::new(self.trace_ratio);
        let stop = CancellationToken::new();
        let task = work.spawn(export(spans, exporter, traces.clone(), stop.clone()));
        Ok(Some((traces, Exporting { stop, task })))
    }
}

impl Exporting {
    /// Sends the spans that wait, for a short time at most.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        // What is left then is lost with the process.
        let _ = timeout(GRACE, self.task).await;
    }
}

fn exporter(endpoint: &str) -> Result<SpanExporter> {
    if !endpoint.starts_with("http://") {
        bail!(
            "--otlp-endpoint: {endpoint:?} does not begin with http://; for TLS, run a collector beside the host and name that"
        );
    }
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(HyperClient::with_default_connector(REQUEST, None))
        // Between tries it would put the thread to sleep, on which writes of plugins are sent.
        .with_retry_policy(RetryPolicy::disabled())
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .with_timeout(REQUEST)
        .build()
        .with_context(|| format!("--otlp-endpoint {endpoint}"))?;
    let attributes = [
        KeyValue::new("service.name", "pilothouse"),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ];
    exporter.set_resource(&Resource::builder_empty().with_attributes(attributes).build());
    Ok(exporter)
}

async fn export(mut spans: Receiver<Span>, exporter: SpanExporter, traces: Traces, stop: CancellationToken) {
    let mut complained: Option<Instant> = None;
    let mut batch = Vec::new();
    loop {
        let received = stop.run_until_cancelled(spans.recv_many(&mut batch, BATCH)).await;
        if received == Some(0) {
            return;
        }
        if batch.len() < BATCH {
            let _ = stop.run_until_cancelled(sleep(LINGER)).await;
        }
        while batch.len() < BATCH
            && let Ok(span) = spans.try_recv()
        {
            batch.push(span);
        }
        if batch.is_empty() {
            // Stopped, and nothing is left.
            return;
        }
        let count = batch.len() as u64;
        if let Err(error) = exporter.export(batch.drain(..).map(data).collect()).await {
            traces.counts().failed.fetch_add(count, Relaxed);
            if complained.is_none_or(|at| at.elapsed() >= REPEAT) {
                complained = Some(Instant::now());
                tracing::warn!(
                    event = "traces_not_exported",
                    spans = count,
                    "the collector of --otlp-endpoint takes no spans: {error}"
                );
            }
        }
    }
}

/// A span as the SDK has it.
fn data(span: Span) -> SpanData {
    let Span { trace, id, parent, name, is_request, start, end, attributes, error } = span;
    let context = SpanContext::new(
        TraceId::from_bytes(trace.to_be_bytes()),
        SpanId::from_bytes(id.to_be_bytes()),
        TraceFlags::SAMPLED,
        false,
        TraceState::NONE,
    );
    let attribute = |(key, value): (&'static str, Attribute)| match value {
        Attribute::Text(text) => KeyValue::new(key, text),
        // Numbers of calls and generations are far from the end of an i64.
        Attribute::Number(number) => KeyValue::new(key, i64::try_from(number).unwrap_or(i64::MAX)),
    };
    SpanData {
        span_context: context,
        parent_span_id: SpanId::from_bytes(parent.to_be_bytes()),
        parent_span_is_remote: false,
        span_kind: if is_request { SpanKind::Client } else { SpanKind::Internal },
        name: name.into(),
        start_time: start,
        end_time: end,
        attributes: attributes.into_iter().map(attribute).collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: error.map_or(Status::Unset, Status::error),
        instrumentation_scope: InstrumentationScope::builder("pilothouse").build(),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::SystemTime;

    use http_body_util::{BodyExt as _, Full};
    use hyper::body::{Bytes, Incoming};
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper::{Request, Response, StatusCode};
    use hyper_util::rt::TokioIo;
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;

    fn span(id: u64) -> Span {
        let now = SystemTime::now();
        Span {
            trace: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
            id,
            parent: 0,
            name: "reconcile",
            is_request: false,
            start: now,
            end: now,
            attributes: vec![("pilothouse.key", Attribute::Text("ns/x".to_owned()))],
            error: Some("it trapped".to_owned()),
        }
    }

    /// A collector that answers so; its address, and what it got: the path, the type and the body.
    async fn collector(status: StatusCode) -> (String, mpsc::UnboundedReceiver<(String, String, Bytes)>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (got, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let got = got.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let got = got.clone();
                    async move {
                        let (head, body) = request.into_parts();
                        let kind = head.headers["content-type"].to_str().unwrap().to_owned();
                        let body = body.collect().await.unwrap().to_bytes();
                        got.send((head.uri.path().to_owned(), kind, body)).unwrap();
                        let mut answer = Response::new(Full::new(Bytes::new()));
                        *answer.status_mut() = status;
                        Ok::<_, Infallible>(answer)
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        (url, requests)
    }

    fn has(body: &[u8], part: &[u8]) -> bool {
        body.windows(part.len()).any(|window| window == part)
    }

    /// Runs an exporter with these spans to its end; how many it could not send.
    async fn run(url: &str, count: u64) -> u64 {
        let (traces, _) = Traces::new(1.0);
        let (sender, receiver) = mpsc::channel(2048);
        for id in 1..=count {
            sender.send(span(id)).await.unwrap();
        }
        let stop = CancellationToken::new();
        stop.cancel();
        export(receiver, exporter(url).unwrap(), traces.clone(), stop).await;
        traces.counts().failed.load(Relaxed)
    }

    #[tokio::test]
    async fn spans_are_sent_in_batches_as_otlp_and_none_is_left_at_the_end() {
        let (url, mut requests) = collector(StatusCode::OK).await;
        assert_eq!(run(&url, BATCH as u64 + 10).await, 0);
        let (path, kind, body) = requests.recv().await.unwrap();
        assert_eq!((path.as_str(), kind.as_str()), ("/v1/traces", "application/x-protobuf"));
        for part in [&b"reconcile"[..], b"pilothouse.key", b"ns/x", b"it trapped", b"service.name"] {
            assert!(has(&body, part), "{}", String::from_utf8_lossy(part));
        }
        let trace: Vec<u8> = (1..=16).collect();
        assert!(has(&body, &trace) && has(&body, &(BATCH as u64).to_be_bytes()));
        let (_, _, rest) = requests.recv().await.unwrap();
        assert!(has(&rest, &(BATCH as u64 + 10).to_be_bytes()));
    }

    #[tokio::test]
    async fn what_a_collector_does_not_take_is_counted_and_not_tried_again() {
        for status in [StatusCode::BAD_REQUEST, StatusCode::SERVICE_UNAVAILABLE] {
            let (url, mut requests) = collector(status).await;
            assert_eq!(run(&url, 3).await, 3);
            assert!(requests.try_recv().is_ok() && requests.try_recv().is_err(), "{status}");
        }
        assert_eq!(run("http://127.0.0.1:1", 2).await, 2);
    }

    #[tokio::test]
    async fn what_is_no_endpoint_and_no_share_is_refused() {
        let start = |endpoint: &str, trace_ratio| {
            let args = TraceArgs { otlp_endpoint: Some(endpoint.to_owned()), trace_ratio };
            args.start(&Handle::current()).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(start("https://collector", 0.1).contains("does not begin with http://"));
        assert!(start("http://127.0.0.1:1", 2.0).contains("from 0 to 1"));
    }
}
