//! [`Hooks`]: where wasmtime hands a guest's request over, and [`Http`], what an instance carries for it.

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

use super::client::{HttpResult, Refused, Times, not_granted};
use super::destination::Destination;
use super::{BODY_CHUNK, MAX_FIELDS};
use crate::host::{CallContext, HostImports, LogLevel};

/// What an instance carries for `wasi:http`.
pub(crate) struct Http {
    pub(crate) ctx: WasiHttpCtx,
    pub(crate) hooks: Hooks,
}

impl Http {
    pub(crate) fn new(host: Arc<dyn HostImports>) -> Self {
        let mut ctx = WasiHttpCtx::new();
        ctx.set_field_size_limit(MAX_FIELDS);
        let (call, deadline) = (CallContext::default(), Instant::now());
        Self { ctx, hooks: Hooks { host, call, deadline, lives: Arc::new(()) } }
    }
}

/// Where wasmtime hands a guest's request over.
pub(crate) struct Hooks {
    host: Arc<dyn HostImports>,
    /// The running call and when it is cut; brought up to date before each use.
    pub(crate) call: CallContext,
    pub(crate) deadline: Instant,
    /// Goes with the instance.
    lives: Arc<()>,
}

/// Headers that guests may not set: those that wasmtime keeps (the host's own and hop-by-hop ones), and the others of the connection.
static FORBIDDEN: LazyLock<ForbiddenHeaderFilter> = LazyLock::new(|| {
    Arc::new(|name: &HeaderName| {
        DEFAULT_FORBIDDEN_HEADERS.contains(name)
            || *name == header::TE
            || *name == header::EXPECT
            || name.as_str().starts_with("proxy-")
    })
});

/// Where the rest of a response comes from, if it is not in its body: nowhere.
type Rest = Box<dyn Future<Output = Result<(), Error>> + Send>;
/// A request under way, as wasmtime takes it.
type Sending = Box<dyn Future<Output = Result<(Response<WasiBody>, Rest), Error>> + Send>;

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
        let (host, call) = (Arc::clone(&self.host), self.call.clone());
        let say = move |refused: Refused| {
            if let Some(message) = &refused.message {
                host.log(&call, LogLevel::Warn, message, &[]);
                if matches!(refused.error, Error::HttpRequestDenied | Error::DestinationIpProhibited) {
                    host.denied(message);
                }
            }
            refused.error
        };
        let Some(client) = self.host.http() else {
            let message = Destination::of(request.uri()).ok().map(|to| not_granted("without a network", &to));
            let error = say(Refused { error: Error::HttpRequestDenied, message });
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
        let times = Times::new(options.unwrap_or_default(), self.deadline.into());
        // On the runtime of connections, and gone as soon as nobody waits for it.
        let sending =
            Task(client.io().spawn(client.clone().send(to, request, times, Arc::downgrade(&self.lives))));
        Box::new(async move {
            let answer = sending.await.map_err(say);
            client
                .observe(answer.as_ref().map_or_else(result_of, |a| HttpResult::Status(a.status().as_u16())));
            Ok((answer?, Box::new(std::future::ready(Ok(()))) as Rest))
        })
    }
}

fn result_of(error: &Error) -> HttpResult {
    match error {
        Error::HttpRequestDenied | Error::DestinationIpProhibited => HttpResult::Denied,
        _ => HttpResult::Error,
    }
}

/// A task that ends with whoever waits for it.
struct Task<T>(JoinHandle<Result<T, Refused>>);

impl<T> Future for Task<T> {
    type Output = Result<T, Refused>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|ended| {
            ended.unwrap_or_else(|error| Err(Error::InternalError(Some(error.to_string())).into()))
        })
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
