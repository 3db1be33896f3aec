//! [`TraceArgs`]: the flags of `run` for traces, and the layer that sends the spans of calls to a collector, as OTLP over HTTP. Only
//! with the Cargo feature `traces`.
//!
//! Invariants: one batch is on its way at a time, and what comes meanwhile waits in a queue with a bound, so a collector that
//! is slow or away costs spans and nothing else; what could not be sent is said in the log, and not tried again.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData, SpanExporter as Export,
};
use pilothouse_manager::TRACE;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::Layer as _;

use crate::run::TraceLayer;

/// Spans that wait for the exporter: some megabytes at most, since their texts are cut.
const WAITING: usize = 8192;

/// How long a request waits for more spans.
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
pub(crate) struct Exporting(SdkTracerProvider);

impl TraceArgs {
    /// A layer that takes the spans of calls, if there are to be any, and sends a share of them from `work`.
    pub(crate) fn start(&self, work: &Handle) -> Result<Option<(TraceLayer, Exporting)>> {
        let Some(endpoint) = &self.otlp_endpoint else { return Ok(None) };
        if !(0.0..=1.0).contains(&self.trace_ratio) {
            bail!("--trace-ratio: {} is no share of calls: name a number from 0 to 1", self.trace_ratio);
        }
        let exporter = OnRuntime {
            exporter: Arc::new(exporter(endpoint)?),
            runtime: work.clone(),
            complained: Mutex::default(),
        };
        let config = BatchConfigBuilder::default().with_max_queue_size(WAITING).with_scheduled_delay(LINGER);
        let batches = BatchSpanProcessor::builder(exporter).with_batch_config(config.build()).build();
        // The writes of a call are sampled with it.
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(self.trace_ratio)));
        let provider =
            SdkTracerProvider::builder().with_sampler(sampler).with_span_processor(batches).build();
        // A span has the attributes that the documents name, and nothing of the code or its threads.
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("pilothouse"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_target(false)
            .with_context_activation(false)
            .with_filter(Targets::new().with_target(TRACE, LevelFilter::INFO));
        Ok(Some((Box::new(layer), Exporting(provider))))
    }
}

impl Exporting {
    /// Sends the spans that wait, for a short time at most.
    pub(crate) async fn end(self) {
        // What is left then is lost with the process.
        let _ = spawn_blocking(move || self.0.shutdown_with_timeout(GRACE)).await;
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

/// An exporter for the SDK's thread, which has no runtime: the connection needs one.
#[derive(Debug)]
struct OnRuntime {
    exporter: Arc<SpanExporter>,
    runtime: Handle,
    /// When the log last told of trouble.
    complained: Mutex<Option<Instant>>,
}

impl Export for OnRuntime {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let (exporter, spans) = (Arc::clone(&self.exporter), batch.len());
        let sent = self.runtime.spawn(async move { exporter.export(batch).await }).await;
        let sent = sent.unwrap_or_else(|error| Err(OTelSdkError::InternalFailure(error.to_string())));
        if let (Err(error), Ok(mut complained)) = (&sent, self.complained.lock())
            && complained.is_none_or(|at| at.elapsed() >= REPEAT)
        {
            *complained = Some(Instant::now());
            tracing::warn!(
                event = "traces_not_exported",
                spans,
                "the collector of --otlp-endpoint takes no spans: {error}"
            );
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::{BodyExt as _, Full};
    use hyper::body::{Bytes, Incoming};
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper::{Request, Response, StatusCode};
    use hyper_util::rt::TokioIo;
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

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

    /// Traces so many calls with a write each, and ends.
    async fn run(url: &str, calls: i64) {
        let args = TraceArgs { otlp_endpoint: Some(url.to_owned()), trace_ratio: 1.0 };
        let (layer, exporting) = args.start(&Handle::current()).unwrap().unwrap();
        {
            let _guard = pilothouse_testkit::log::subscribe(tracing_subscriber::registry().with(layer));
            for call in 1..=calls {
                let reconcile = tracing::info_span!(
                    target: TRACE,
                    parent: None,
                    "reconcile",
                    pilothouse.key = "ns/x",
                    pilothouse.call = call,
                    otel.status_description = tracing::field::Empty,
                );
                tracing::info_span!(target: TRACE, parent: &reconcile, "write", otel.kind = "client");
                reconcile.in_scope(|| tracing::error!("a line of the log"));
                reconcile.record("otel.status_description", "it trapped");
            }
        }
        exporting.end().await;
    }

    #[tokio::test]
    async fn spans_are_sent_as_otlp_with_their_attributes_alone_and_none_is_left_at_the_end() {
        let (url, mut requests) = collector(StatusCode::OK).await;
        run(&url, 1).await;
        let (path, kind, body) = requests.recv().await.unwrap();
        assert_eq!((path.as_str(), kind.as_str()), ("/v1/traces", "application/x-protobuf"));
        for part in [&b"reconcile"[..], b"write", b"pilothouse.key", b"ns/x", b"it trapped", b"service.name"]
        {
            assert!(has(&body, part), "{}", String::from_utf8_lossy(part));
        }
        for part in
            [&b"a line of the log"[..], b"thread", b"code.", b"otel.", b"busy_ns", b"pilothouse::trace"]
        {
            assert!(!has(&body, part), "{}", String::from_utf8_lossy(part));
        }
    }

    #[tokio::test]
    async fn what_a_collector_does_not_take_is_not_tried_again() {
        for status in [StatusCode::BAD_REQUEST, StatusCode::SERVICE_UNAVAILABLE] {
            let (url, mut requests) = collector(status).await;
            run(&url, 3).await;
            assert!(requests.try_recv().is_ok() && requests.try_recv().is_err(), "{status}");
        }
        run("http://127.0.0.1:1", 2).await;
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
