//! One call: headers, sending, reading the answer under a size and a time limit, errors that say what was being done.
//!
//! A request is sent twice only where the retry policy says so, or when the server has certainly done nothing with it. The verbs build a [`Call`]; [`Client::fetch`] is for bodies that are read whole,
//! [`Client::fetch_pieces`] for lists, [`Client::send`] for watches.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap,
    HeaderName, HeaderValue, IF_NONE_MATCH,
};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Instrument as _;

use crate::answer;
use crate::auth::Authorizer;
use crate::caller::Caller;
use crate::client::Client;
use crate::config;
use crate::connect::Connector;
use crate::connection::Slot;
use crate::decompress::{Pieces, Stopped};
use crate::discovery::DocumentCache;
use crate::error::{Error, Result};
use crate::options::{ClientOptions, Identity, ObservedRequest, RequestObserver};
use crate::params::{ListParams, WatchParams};
use crate::rate_limiter::RateLimiter;
use crate::tls::Tls;
use crate::transport::Transport;
use crate::url::Target;
use crate::warnings::Warnings;

/// Largest single object, discovery document or raw answer that is read. etcd refuses objects above about 1.5 MiB;
/// aggregated servers may store larger ones.
pub(crate) const OBJECT_LIMIT: usize = 16 << 20;
/// Largest error body that is read; what stands behind it is not needed.
const ERROR_LIMIT: usize = 1 << 20;

/// Waits for the client's own rate limit that are told; client-go's bound.
const LONG_WAIT: Duration = Duration::from_secs(1);

const ACCEPT_JSON: HeaderValue = HeaderValue::from_static("application/json");
/// New servers leave the field managers out, which is the larger part of many objects; old ones ignore the parameter.
const ACCEPT_OBJECTS: HeaderValue =
    HeaderValue::from_static("application/json;drop=metadata.managedFields, application/json");

/// Metadata only, of a list, and of a watch or an object; servers that do not know the transformation take the second form.
const ACCEPT_METADATA_LIST: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json",
);
const ACCEPT_METADATA: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json",
);

/// What the clients of all identities share.
pub(crate) struct Shared {
    /// Scheme, host and port, and the path prefix of the server's address; without a `/` at the end.
    pub(crate) base: String,
    /// Host and port.
    host: String,
    pub(crate) default_namespace: String,
    pub(crate) runtime: Handle,
    authorizer: Authorizer,
    tls: Arc<Tls>,
    transport: Transport,
    observer: Option<Arc<dyn RequestObserver>>,
    /// The host's own identity.
    pub(crate) own: Arc<Caller>,
    pub(crate) discovery: Arc<DocumentCache>,
    warnings: Warnings,
    rate_limiter: Option<RateLimiter>,
    compress_lists: bool,
}

impl Shared {
    pub(crate) async fn new(options: ClientOptions) -> Result<Self> {
        let loaded = config::load(&options).await?;
        let runtime = Handle::current();
        let identity = Identity {
            user_agent: options.user_agent,
            field_manager: options.field_manager,
            impersonate: loaded.impersonate,
            rate_limit: None,
        };
        let own = Caller::own(identity, &runtime)?;
        let rate_limiter =
            options.rate_limit.map(|limit| RateLimiter::new(limit, runtime.clone())).transpose()?;
        let server: Uri = loaded.base.parse().map_err(|_| {
            // It has been parsed before.
            Error::Config(format!("{}: not an address", loaded.base))
        })?;
        let connector =
            Connector::new(runtime.clone(), Arc::clone(&loaded.tls), loaded.proxy, options.connect_timeout);
        Ok(Self {
            base: loaded.base,
            host: loaded.host,
            default_namespace: loaded.default_namespace,
            runtime,
            authorizer: loaded.authorizer,
            tls: loaded.tls,
            transport: Transport::new(&connector, &server),
            observer: options.observer,
            own: Arc::new(own),
            discovery: Arc::new(DocumentCache::shared()),
            warnings: Warnings::default(),
            rate_limiter,
            compress_lists: options.compress_lists,
        })
    }
}

/// A request, before an identity and credentials are put to it.
pub(crate) struct Call {
    method: Method,
    target: Target,
    accept: HeaderValue,
    content_type: Option<&'static str>,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
    /// Instead of the client's; zero is none.
    timeout: Option<Duration>,
    is_list: bool,
}

/// An answer that has been read whole.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    pub(crate) fn new(method: Method, target: Target) -> Self {
        Self {
            method,
            target,
            accept: ACCEPT_JSON,
            content_type: None,
            headers: Vec::new(),
            body: Bytes::new(),
            timeout: None,
            is_list: false,
        }
    }

    /// A read of objects.
    pub(crate) fn read(target: Target) -> Self {
        Self { accept: ACCEPT_OBJECTS, ..Self::new(Method::GET, target) }
    }

    /// A list of objects.
    pub(crate) fn list(target: Target, params: &ListParams) -> Self {
        Self { is_list: true, ..Self::read(target).accept_if(params.metadata_only, ACCEPT_METADATA_LIST) }
    }

    /// A watch of objects.
    pub(crate) fn watch(target: Target, params: &WatchParams) -> Self {
        Self::read(target).accept_if(params.metadata_only, ACCEPT_METADATA)
    }

    /// Of what is answered, one object, the metadata is enough.
    #[cfg(feature = "dynamic")]
    pub(crate) fn metadata_only(self) -> Self {
        self.accept(ACCEPT_METADATA)
    }

    fn accept_if(self, condition: bool, accept: HeaderValue) -> Self {
        if condition { self.accept(accept) } else { self }
    }

    /// Asks for these forms of the answer.
    pub(crate) fn accept(self, accept: HeaderValue) -> Self {
        Self { accept, ..self }
    }

    /// Asks for an answer only if it is not the one of this `ETag`: the status is 304 then.
    pub(crate) fn if_none_match(mut self, etag: HeaderValue) -> Self {
        self.headers.push((IF_NONE_MATCH, etag));
        self
    }

    pub(crate) fn body(self, content_type: &'static str, body: &[u8]) -> Self {
        self.owned_body(content_type, Bytes::copy_from_slice(body))
    }

    pub(crate) fn owned_body(mut self, content_type: &'static str, body: Bytes) -> Self {
        self.content_type = Some(content_type);
        self.body = body;
        self
    }

    /// Headers in place of those that every call has, or beside them.
    #[cfg(feature = "rest")]
    pub(crate) fn headers(mut self, headers: Vec<(HeaderName, HeaderValue)>) -> Self {
        self.headers = headers;
        self
    }

    #[cfg(feature = "rest")]
    pub(crate) fn timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }
}

impl Client {
    /// What a call does, for messages: method and address without the query.
    pub(crate) fn doing(&self, call: &Call) -> String {
        format!("{} {}{}", call.method, self.shared.base, call.target.path())
    }

    /// The request, and the number of the credential that it shows.
    async fn request(&self, call: &Call, watch: bool) -> Result<(Request<Full<Bytes>>, u64)> {
        let caller = self.caller.as_ref().map_err(Error::clone)?;
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri([&self.shared.base, call.target.as_str()].concat())
            .body(Full::new(call.body.clone()))
            .map_err(|e| Error::Request(format!("{}: {e}", self.doing(call))))?;
        let headers = request.headers_mut();
        headers.clone_from(&caller.headers);
        headers.insert(ACCEPT, call.accept.clone());
        if watch {
            // New servers gzip a watch as one member per event, which costs more than it saves.
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        } else if call.is_list && self.shared.compress_lists {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if let Some(content_type) = call.content_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        for (name, value) in &call.headers {
            headers.insert(name, value.clone());
        }
        let shown = self.shared.authorizer.shown().await?;
        if let Some(authorization) = shown.header {
            headers.insert(AUTHORIZATION, authorization);
        }
        Ok((request, shown.serial))
    }

    /// The head of the answer, when it is final: turns of the rate limits and the retries of the policy lie before it.
    async fn head(
        &self,
        call: &Call,
        watch: bool,
        until: Option<Instant>,
    ) -> Result<(Response<Incoming>, Slot)> {
        let span = tracing::debug_span!("request", method = %call.method, path = call.target.path(), watch);
        self.head_in_span(call, watch, until).instrument(span).await
    }

    async fn head_in_span(
        &self,
        call: &Call,
        watch: bool,
        until: Option<Instant>,
    ) -> Result<(Response<Incoming>, Slot)> {
        let mut retries = 0;
        loop {
            if !watch && self.policy.rate_limited {
                self.turn(call, until).await?;
            }
            let (response, slot) = self.attempt(call, watch).await?;
            let status = response.status();
            let again = Some(&self.policy.retry)
                .filter(|_| !watch)
                .and_then(|policy| policy.wait(retries, &call.method, status, response.headers()))
                .filter(|wait| until.is_none_or(|until| Instant::now() + *wait < until));
            let Some(wait) = again else { return Ok((response, slot)) };
            drop((response, slot));
            retries += 1;
            tracing::debug!(%status, ?wait, retries, "retrying as the server asks (Retry-After)");
            if let Some(observer) = &self.shared.observer {
                observer.retried(call.method.as_str(), &self.shared.host, status.as_u16());
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Waits for a turn of the identity's rate limit and then of the client's.
    async fn turn(&self, call: &Call, until: Option<Instant>) -> Result<()> {
        let caller = self.caller.as_ref().map_err(Error::clone)?;
        let limiters = [&caller.rate_limiter, &self.shared.rate_limiter];
        if limiters.iter().all(|limiter| limiter.is_none()) {
            return Ok(());
        }
        let began = Instant::now();
        let turns = async {
            for limiter in limiters.into_iter().flatten() {
                limiter.turn(&caller.flow).await;
            }
        };
        let in_time = match until {
            Some(until) => timeout_at(until, turns).await.is_ok(),
            None => {
                turns.await;
                true
            }
        };
        let waited = began.elapsed();
        if let Some(observer) = &self.shared.observer {
            observer.rate_limited(call.method.as_str(), &self.shared.host, waited);
        }
        if !in_time {
            return Err(Error::Transport {
                doing: self.doing(call),
                message: format!(
                    "not sent: the client-side rate limit was not free within {waited:?}; raise the limit, or send fewer requests"
                ),
                connection_refused: false,
                timeout: true,
            });
        }
        if waited >= LONG_WAIT {
            tracing::info!(
                event = "client_rate_limited",
                ?waited,
                user_agent = caller.user_agent,
                "{} waited for the client's own rate limit",
                self.doing(call)
            );
        }
        Ok(())
    }

    /// Sends a call once; over another connection when one that closed has certainly not processed it.
    async fn attempt(&self, call: &Call, watch: bool) -> Result<(Response<Incoming>, Slot)> {
        let (mut request, mut credential) = self.request(call, watch).await?;
        if self.shared.tls.take_rotated() {
            self.shared.transport.retire();
        }
        let mut observed =
            Observed { client: self, method: &call.method, watch, began: Instant::now(), code: None };
        let mut unprocessed = 0;
        let (response, slot) = loop {
            match self.shared.transport.send(request, watch).await {
                Ok(answer) => break answer,
                Err(error) if unprocessed < error.repeats() => {
                    tracing::debug!("sent over another connection: {error}");
                    unprocessed += 1;
                    (request, credential) = self.request(call, watch).await?;
                }
                Err(error) => return Err(answer::transport(self.doing(call), &error)),
            }
        };
        observed.code = Some(response.status().as_u16());
        self.shared.warnings.tell(response.headers(), observed.user_agent());
        if response.status() == StatusCode::UNAUTHORIZED {
            self.shared.authorizer.rejected(credential);
            self.shared.tls.rejected();
        }
        Ok((response, slot))
    }

    /// Sends a call whose answer is read as it comes; an answer that is an error is read and returned as such.
    pub(crate) async fn send(&self, call: &Call) -> Result<(Response<Incoming>, Slot)> {
        let limit = self.limit(call);
        let head = self.head(call, true, self.until(call));
        let (response, slot) = timeout(limit, head).await.map_err(|_| self.late(call, limit))??;
        if response.status() == StatusCode::OK {
            self.check_encoding(call, response.headers())?;
            return Ok((response, slot));
        }
        let read = self.read(call, response, ERROR_LIMIT);
        let answer = timeout(limit, read).await.map_err(|_| self.late(call, limit))??;
        Err(answer::error(self.doing(call), &answer))
    }

    /// Sends a call and reads its answer whole, whatever the status.
    pub(crate) async fn fetch(&self, call: &Call, limit: usize) -> Result<Answer> {
        let time = self.limit(call);
        let until = self.until(call);
        let exchange = async {
            let (response, _slot) = self.head(call, false, until).await?;
            let limit = if response.status().is_success() { limit } else { limit.min(ERROR_LIMIT) };
            self.read(call, response, limit).await
        };
        timeout(time, exchange).await.map_err(|_| self.late(call, time))?
    }

    /// Sends a call and hands on the body of a good answer in pieces, as they come; other tasks run in between. The
    /// request timeout counts to the answer's head, and again from each piece to the next.
    pub(crate) async fn fetch_pieces(
        &self,
        call: &Call,
        take: &mut (dyn FnMut(&[u8]) -> Result<()> + Send),
    ) -> Result<()> {
        let limit = self.limit(call);
        let late = |_| self.late(call, limit);
        let head = self.head(call, false, self.until(call));
        let (response, _slot) = timeout(limit, head).await.map_err(late)??;
        if !response.status().is_success() {
            let answer = timeout(limit, self.read(call, response, ERROR_LIMIT)).await.map_err(late)??;
            return Err(answer::error(self.doing(call), &answer));
        }
        let mut pieces = self.pieces(call, response.headers())?;
        let stopped = |stopped| match stopped {
            Stopped::Corrupt(error) => protocol(self.doing(call), &format!("the body is not gzip: {error}")),
            Stopped::Taker(error) => error,
        };
        let mut body = response.into_body();
        while let Some(frame) = timeout(limit, body.frame()).await.map_err(late)? {
            let frame = frame.map_err(|e| answer::transport(self.doing(call), &e))?;
            if let Ok(data) = frame.into_data() {
                pieces.push(&data, &mut *take).map_err(stopped)?;
                // When the next pieces are there already, nothing else would let others run.
                tokio::task::yield_now().await;
            }
        }
        pieces.finish(&mut *take).map_err(stopped)
    }

    /// Sends a call and gives the body of a good answer.
    pub(crate) async fn fetch_ok(&self, call: &Call, limit: usize) -> Result<Bytes> {
        let answer = self.fetch(call, limit).await?;
        if answer.status.is_success() {
            return Ok(answer.body);
        }
        Err(answer::error(self.doing(call), &answer))
    }

    async fn read(&self, call: &Call, response: Response<Incoming>, limit: usize) -> Result<Answer> {
        let (parts, mut body) = response.into_parts();
        self.check_encoding(call, &parts.headers)?;
        let too_large = || protocol(self.doing(call), &format!("the answer is larger than {limit} bytes"));
        let announced =
            parts.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        // An answer of one piece, as most objects are, is not copied.
        let mut first = Bytes::new();
        let mut rest = Vec::new();
        loop {
            let Some(frame) = body.frame().await else { break };
            let frame = frame.map_err(|e| answer::transport(self.doing(call), &e))?;
            let Ok(data) = frame.into_data() else { continue };
            if first.len().max(rest.len()) + data.len() > limit {
                return Err(too_large());
            }
            if first.is_empty() && rest.is_empty() {
                first = data;
                continue;
            }
            if rest.is_empty() {
                let more = usize::try_from(body.size_hint().lower()).unwrap_or(0).min(limit);
                rest.reserve(first.len() + data.len() + more);
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&data);
        }
        let body = if rest.is_empty() { first } else { rest.into() };
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }

    /// How the body of a list is to be read.
    fn pieces(&self, call: &Call, headers: &HeaderMap) -> Result<Pieces> {
        let asked = call.is_list && self.shared.compress_lists;
        if asked && headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip") {
            return Ok(Pieces::gzip());
        }
        self.check_encoding(call, headers)?;
        Ok(Pieces::Identity)
    }

    fn check_encoding(&self, call: &Call, headers: &HeaderMap) -> Result<()> {
        match headers.get(CONTENT_ENCODING) {
            Some(encoding) if encoding != "identity" => {
                let message = format!("the body is encoded as {encoding:?}, which was not asked for");
                Err(protocol(self.doing(call), &message))
            }
            _ => Ok(()),
        }
    }

    fn limit(&self, call: &Call) -> Duration {
        match call.timeout {
            Some(Duration::ZERO) => Duration::MAX,
            limit => limit.unwrap_or(self.policy.request_timeout),
        }
    }

    /// When the time of a call that begins now is over.
    fn until(&self, call: &Call) -> Option<Instant> {
        Instant::now().checked_add(self.limit(call))
    }

    fn late(&self, call: &Call, limit: Duration) -> Error {
        Error::Transport {
            doing: self.doing(call),
            message: format!("no answer within {limit:?}"),
            connection_refused: false,
            timeout: true,
        }
    }
}

/// The answer is not what the API promises.
pub(crate) fn protocol(doing: String, message: &str) -> Error {
    Error::Protocol { doing, message: message.to_owned() }
}

/// The answer is not the JSON that was expected. Where and how, but not what: serde_json's own text quotes values, which may
/// be secret.
#[cfg(any(feature = "rest", feature = "scale", feature = "typed"))]
pub(crate) fn unexpected(doing: String, error: &serde_json::Error) -> Error {
    let how = match error.classify() {
        serde_json::error::Category::Data => "a value is not of the type that was expected",
        serde_json::error::Category::Eof => "it ends too soon",
        _ => "this is no JSON",
    };
    protocol(doing, &format!("{how}, at line {} column {}", error.line(), error.column()))
}

/// Tells the observer when it goes out of scope, so that a call which the caller gives up is counted too.
struct Observed<'a> {
    client: &'a Client,
    method: &'a Method,
    watch: bool,
    began: Instant,
    code: Option<u16>,
}

impl Observed<'_> {
    fn user_agent(&self) -> &str {
        self.client.caller.as_ref().map_or("", |caller| &caller.user_agent)
    }
}

impl Drop for Observed<'_> {
    fn drop(&mut self) {
        if let (Some(observer), Ok(caller)) = (&self.client.shared.observer, &self.client.caller) {
            observer.request(&ObservedRequest {
                method: self.method.as_str(),
                host: &self.client.shared.host,
                code: self.code,
                duration: self.began.elapsed(),
                user_agent: &caller.user_agent,
                watch: self.watch,
            });
        }
    }
}
