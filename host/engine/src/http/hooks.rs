//! [`Hooks`]: wasmtime's callbacks for outgoing requests of a guest; [`Http`]: the `wasi:http` part of an instance's
//! store.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Instant;

use http::header::{self, HeaderName};
use http::{Request, Response};
use tokio::task::JoinHandle;
use wasmtime_wasi_http::{
    DEFAULT_FORBIDDEN_HEADERS, Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpCtx,
    WasiHttpHooks,
};

use super::client::{ExchangeLimits, HttpResult, RequestError, not_granted};
use super::destination::Destination;
use super::metered::metered;
use super::watched;
use super::{BODY_CHUNK, MAX_FIELDS};
use crate::host::{HostImports, HttpRoute, LogLevel};
use crate::state::CurrentCall;

/// The `wasi:http` part of an instance's store.
pub(crate) struct Http {
    pub(crate) ctx: WasiHttpCtx,
    pub(crate) hooks: Hooks,
}

impl Http {
    pub(crate) fn new(host: Arc<dyn HostImports>, call: CurrentCall) -> Self {
        let mut ctx = WasiHttpCtx::new();
        ctx.set_field_size_limit(MAX_FIELDS);
        Self { ctx, hooks: Hooks { host, call, deadline: Instant::now(), lives: Arc::new(()) } }
    }
}

/// wasmtime calls these hooks for each outgoing request of a guest.
pub(crate) struct Hooks {
    pub(crate) host: Arc<dyn HostImports>,
    call: CurrentCall,
    /// The deadline of the running call; updated before each use.
    pub(crate) deadline: Instant,
    /// Dropped with the instance; request bodies have a weak reference to it.
    lives: Arc<()>,
}

/// The headers that guests must not set: wasmtime's default list (`Host` and hop-by-hop headers) and further headers of
/// the connection.
static FORBIDDEN: LazyLock<ForbiddenHeaderFilter> = LazyLock::new(|| {
    Arc::new(|name: &HeaderName| {
        DEFAULT_FORBIDDEN_HEADERS.contains(name)
            || *name == header::TE
            || *name == header::EXPECT
            || name.as_str().starts_with("proxy-")
    })
});

/// wasmtime's future for work after the response; the host has none and returns a completed one.
type AfterResponse = Box<dyn Future<Output = Result<(), Error>> + Send>;
/// A running request in the form that wasmtime expects.
type Sending = Box<dyn Future<Output = Result<(Response<WasiBody>, AfterResponse), Error>> + Send>;

impl WasiHttpHooks for Hooks {
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::clone(&FORBIDDEN)
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        BODY_CHUNK
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Sending {
        let Some(exchanges) = self.host.exchanges() else { return self.send(request, options) };
        match exchanges.begin(watched::request_head(&request)) {
            HttpRoute::Network(exchange) => {
                let sending = self.send(watched::told_request(request, &exchange), options);
                Box::new(async move {
                    let (answer, after) = match Box::into_pin(sending).await {
                        Ok((answer, after)) => (Ok(answer), Some(after)),
                        Err(error) => (Err(error), None),
                    };
                    let answer = watched::told_answer(answer, exchange)?;
                    Ok((answer, after.unwrap_or_else(nothing_after)))
                })
            }
            HttpRoute::Answered(exchange, answer) => {
                Box::new(
                    async move { Ok((watched::answered(request, exchange, answer).await?, nothing_after())) },
                )
            }
        }
    }
}

fn nothing_after() -> AfterResponse {
    Box::new(std::future::ready(Ok(())))
}

impl Hooks {
    /// Checks a request and sends it.
    fn send(&mut self, request: Request<WasiBody>, options: Option<RequestOptions>) -> Sending {
        let (host, call) = (Arc::clone(&self.host), self.call.get());
        let say = move |refused: RequestError| {
            if let Some(message) = &refused.message {
                host.host_log(&call, LogLevel::Warn, message);
                if matches!(refused.error, Error::HttpRequestDenied | Error::DestinationIpProhibited) {
                    host.denied(message);
                }
            }
            refused.error
        };
        let Some(client) = self.host.http() else {
            let message = Destination::of(request.uri()).ok().map(|to| not_granted("without a network", &to));
            let error = say(RequestError { error: Error::HttpRequestDenied, message });
            return Box::new(std::future::ready(Err(error)));
        };
        let to = match client.check(&request) {
            Ok(to) => to,
            Err(refused) => {
                let error = say(refused);
                client.observe(result_of(&error));
                return Box::new(std::future::ready(Err(error)));
            }
        };
        let times = ExchangeLimits::new(options.unwrap_or_default(), self.deadline.into());
        // Runs on the runtime of connections, and is aborted when the guest drops the request.
        let sending = client.clone().send(to, request, times, Arc::downgrade(&self.lives));
        let sending = metered(sending, Arc::clone(client.observer()));
        let sending = AbortOnDrop(client.runtime().spawn(sending));
        Box::new(async move {
            let answer = sending.await.map_err(say);
            client
                .observe(answer.as_ref().map_or_else(result_of, |a| HttpResult::Status(a.status().as_u16())));
            Ok((answer?, nothing_after()))
        })
    }
}

fn result_of(error: &Error) -> HttpResult {
    match error {
        Error::HttpRequestDenied | Error::DestinationIpProhibited => HttpResult::Denied,
        _ => HttpResult::Error,
    }
}

/// A task that is aborted when this handle is dropped.
struct AbortOnDrop<T>(JoinHandle<Result<T, RequestError>>);

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|ended| {
            ended.unwrap_or_else(|error| Err(Error::InternalError(Some(error.to_string())).into()))
        })
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
