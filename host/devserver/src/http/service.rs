//! [`Service`]: a request from its first byte to its answer: who asks, what for, which faults hit, and the log.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, IF_NONE_MATCH, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Collected, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::answer::{self, Body};
use super::control::{Control, Mode};
use super::{Log, Served};
use crate::api::{ApiError, Params, Path, Target, Timestamp, Warnings, negotiate};
use crate::discovery;
use crate::faults::{Asked, Fault, FaultRule, Faults, Hit, WatchFaults};
use crate::openapi::OpenApi;
use crate::verbs::{Answer, Call, Core, ListTwist, User, verb};

/// The largest body that is taken, as by a real API server.
const BODY_LIMIT: usize = 3 << 20;

/// Everything a connection needs.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) core: Arc<Core>,
    pub(crate) openapi: OpenApi,
    pub(crate) faults: Faults,
    pub(crate) log: Log,
}

/// What a request's path and method mean.
enum RequestTarget {
    Objects { verb: &'static str, target: Target },
    Path(Path),
    Nothing(ApiError),
}

/// A request, read.
struct ReadRequest {
    params: Params,
    target: RequestTarget,
    body: Bytes,
    user: User,
}

impl Service {
    pub(super) async fn handle(
        &self,
        request: Request<Incoming>,
        control: &Arc<Control>,
    ) -> Result<Response<Body>, Infallible> {
        let (parts, body) = request.into_parts();
        Ok(self.respond(&parts, body, control).await)
    }

    async fn respond(&self, parts: &Parts, body: Incoming, control: &Arc<Control>) -> Response<Body> {
        let params = Params::parse(parts.uri.query().unwrap_or_default());
        let target = request_target(parts, &params);
        let mut served = note(parts, &target);
        let user = impersonated(&parts.headers, &mut served);
        // What steers the faults is not hit by them.
        let hits = if is_own(&target) { Vec::new() } else { self.hits(parts, &served) };
        served.faults = hits.iter().map(|hit| hit.id).collect();

        let done = self.disturb(&hits, control).await;
        let response = match done {
            FaultOutcome::Answer(error) => answer::error(&error),
            FaultOutcome::Never => {
                self.log.add(served);
                std::future::pending::<()>().await;
                return answer::error(&ApiError::internal("never sent"));
            }
            FaultOutcome::No => {
                let response = match collect(body).await {
                    Ok(body) => {
                        self.answer(parts, ReadRequest { params, target, body, user }, &hits, control)
                    }
                    Err(error) => Err(error),
                };
                response.unwrap_or_else(|error| answer::error(&error))
            }
        };
        let is_watch = served.verb == "watch" && response.status().is_success();
        let response = spoil(response, is_watch, &hits, control).await;
        served.code = response.status().as_u16();
        if !served.uri.starts_with("/_") {
            self.log.add(served);
        }
        response
    }

    fn hits(&self, parts: &Parts, served: &Served) -> Vec<Hit> {
        self.faults.hits(&Asked {
            verb: &served.verb,
            path: parts.uri.path(),
            group: &served.group,
            resource: &served.resource,
            subresource: &served.subresource,
            namespace: &served.namespace,
            name: &served.name,
            user: served.impersonated.as_deref().unwrap_or(&served.user),
        })
    }

    /// Does what a fault does before there is an answer.
    async fn disturb(&self, hits: &[Hit], control: &Control) -> FaultOutcome {
        for hit in hits {
            match &hit.fault {
                Fault::Delay { milliseconds } => {
                    tokio::time::sleep(Duration::from_millis(*milliseconds)).await;
                }
                Fault::Status { code, retry_after } => {
                    return FaultOutcome::Answer(made_error(*code, *retry_after));
                }
                Fault::Gone { after: None } => {
                    return FaultOutcome::Answer(ApiError::expired("too old resource version (fault)"));
                }
                Fault::TooLargeVersion => {
                    let current = self.core.store.revision();
                    return FaultOutcome::Answer(ApiError::too_large_version(current + 1, current));
                }
                Fault::Reset => {
                    control.set(Mode::Reset);
                    return FaultOutcome::Never;
                }
                Fault::HalfOpen => {
                    control.set(Mode::Dead);
                    return FaultOutcome::Never;
                }
                _ => {}
            }
        }
        FaultOutcome::No
    }

    fn answer(
        &self,
        parts: &Parts,
        asking: ReadRequest,
        hits: &[Hit],
        control: &Arc<Control>,
    ) -> Result<Response<Body>, ApiError> {
        let ReadRequest { params, target, body, user } = asking;
        let (verb, target) = match target {
            RequestTarget::Nothing(error) => return Err(error),
            RequestTarget::Path(path) => return self.other(parts, &path, &body),
            RequestTarget::Objects { verb, target } => (verb, target),
        };
        let served = self.core.registry.now();
        let resource = served
            .get(&target.group, &target.version, &target.resource)
            .ok_or_else(ApiError::no_path)?
            .clone();
        let call = Call {
            resource,
            target,
            params,
            accepted: negotiate(&parts.headers)?,
            content_type: media_type(&parts.headers),
            body,
            user,
            twist: ListTwist { stale_by: stale_by(hits) },
            warnings: Warnings::default(),
        };
        let content_type = call.accepted.content_type;
        let answered = self.core.answer(verb, &call);
        let response = answered.map_or_else(
            |error| answer::error(&error),
            |answer| match answer {
                Answer::Whole { code, body } => answer::whole(code, content_type, body),
                Answer::Watch(mut stream) => {
                    stream.set_faults(watch_faults(hits));
                    answer::watch(*stream, content_type, control.clone())
                }
            },
        );
        Ok(answer::with_warnings(response, &call.warnings))
    }

    /// Everything that is no object.
    fn other(&self, parts: &Parts, path: &Path, body: &Bytes) -> Result<Response<Body>, ApiError> {
        if let Path::Other(segments) = path {
            let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
            if let ["openapi", "v2"] | ["openapi", "v3", ..] = segments[..] {
                let (resources, store) = (self.core.registry.now(), &self.core.store);
                return Ok(answer::bytes(self.openapi.answer(&resources, store, parts)));
            }
            return self.own(&parts.method, &segments, body);
        }
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            return Err(ApiError::method_not_allowed());
        }
        let page = discovery::page(&self.core.registry.now(), path, &parts.headers)?;
        let mut response = if parts.headers.get(IF_NONE_MATCH).is_some_and(|tag| tag == page.etag.as_str()) {
            answer::whole(StatusCode::NOT_MODIFIED, page.content_type, Bytes::new())
        } else {
            answer::whole(StatusCode::OK, page.content_type, page.body)
        };
        if let Ok(tag) = HeaderValue::from_str(&page.etag) {
            response.headers_mut().insert(ETAG, tag);
        }
        Ok(response)
    }

    /// Paths of the server itself.
    fn own(&self, method: &Method, segments: &[&str], body: &Bytes) -> Result<Response<Body>, ApiError> {
        let ok = |value: Value| Ok(answer::json(StatusCode::OK, &value));
        match (method, segments) {
            (&Method::GET, ["version"]) => ok(discovery::version()),
            (&Method::GET | &Method::HEAD, ["healthz" | "livez" | "readyz", ..]) => {
                Ok(answer::whole(StatusCode::OK, "text/plain; charset=utf-8", Bytes::from_static(b"ok")))
            }
            (&Method::GET, [""]) => ok(discovery::paths(&self.core.registry.now())),
            (&Method::GET, ["_faults"]) => ok(json!(self.faults.list())),
            (&Method::POST, ["_faults"]) => ok(json!({"ids": self.add_faults(body)?})),
            (&Method::DELETE, ["_faults"]) => {
                self.faults.clear();
                ok(json!({}))
            }
            (&Method::DELETE, ["_faults", id]) => match id.parse() {
                Ok(id) if self.faults.remove(id) => ok(json!({})),
                _ => {
                    Err(ApiError::new(StatusCode::NOT_FOUND, "NotFound", format!("there is no fault {id:?}")))
                }
            },
            (&Method::GET, ["_requests"]) => ok(json!(self.log.all())),
            (&Method::DELETE, ["_requests"]) => {
                self.log.clear();
                ok(json!({}))
            }
            (&Method::POST, ["_compact"]) => {
                ok(json!({"resourceVersion": self.core.store.compact().to_string()}))
            }
            (_, ["version" | "_faults" | "_requests" | "_compact"]) => Err(ApiError::method_not_allowed()),
            _ => Err(ApiError::no_path()),
        }
    }

    /// Sets the rule or the rules of a body.
    fn add_faults(&self, body: &Bytes) -> Result<Vec<u64>, ApiError> {
        let wrong = |error: String| {
            ApiError::bad_request(format!(
                "not a fault: {error}; for example {{\"verbs\":[\"list\"],\"resources\":[\"pods\"],\"fault\":{{\"type\":\
                 \"status\",\"code\":503}}}}"
            ))
        };
        let value: Value = serde_json::from_slice(body).map_err(|e| wrong(e.to_string()))?;
        let rules = match &value {
            Value::Array(rules) => rules.iter().map(FaultRule::read).collect(),
            one => FaultRule::read(one).map(|rule| vec![rule]),
        };
        let rules = rules.map_err(wrong)?;
        Ok(rules.into_iter().map(|rule| self.faults.add(rule)).collect())
    }
}

/// What came of the faults that strike before an answer.
enum FaultOutcome {
    No,
    Answer(ApiError),
    /// There will be no answer; the connection sees to it.
    Never,
}

fn request_target(parts: &Parts, params: &Params) -> RequestTarget {
    match Path::parse(parts.uri.path()) {
        None => RequestTarget::Nothing(ApiError::no_path()),
        Some(Path::Target(target)) => match verb(&parts.method, &target, params) {
            Some(verb) => RequestTarget::Objects { verb, target },
            None => RequestTarget::Nothing(ApiError::method_not_allowed()),
        },
        Some(path) => RequestTarget::Path(path),
    }
}

fn is_own(target: &RequestTarget) -> bool {
    matches!(target, RequestTarget::Path(Path::Other(segments)) if segments[0].starts_with('_'))
}

fn note(parts: &Parts, target: &RequestTarget) -> Served {
    let header =
        |name| parts.headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok()).unwrap_or_default();
    let mut served = Served {
        time: Timestamp::now().0.to_string(),
        verb: parts.method.as_str().to_ascii_lowercase(),
        uri: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        user_agent: header(USER_AGENT).to_owned(),
        ..Served::default()
    };
    if let RequestTarget::Objects { verb, target } = target {
        let target = target.clone();
        served.verb = (*verb).to_owned();
        served.group = target.group;
        served.resource = target.resource;
        served.subresource = target.subresource.unwrap_or_default();
        served.namespace = target.namespace.unwrap_or_default();
        served.name = target.name.unwrap_or_default();
    }
    served
}

/// As whom a request acts. Every token is good and stands for the administrator; a token is a secret and is not noted.
fn impersonated(headers: &HeaderMap, served: &mut Served) -> User {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let by_token = headers.get(AUTHORIZATION).is_some();
    served.user = "system:admin".to_owned();
    let Some(name) = text("impersonate-user") else {
        let groups = ["system:masters", "system:authenticated"].map(str::to_owned).to_vec();
        let extra = if by_token {
            vec![("authenticated-by".to_owned(), vec!["token".to_owned()])]
        } else {
            Vec::new()
        };
        return User { name: served.user.clone(), groups, extra, ..User::default() };
    };
    let groups: Vec<String> = headers
        .get_all("impersonate-group")
        .iter()
        .filter_map(|v| v.to_str().ok())
        .map(str::to_owned)
        .collect();
    let mut extra: Vec<(String, Vec<String>)> = Vec::new();
    for (header, value) in headers {
        let (Some(key), Ok(value)) = (header.as_str().strip_prefix("impersonate-extra-"), value.to_str())
        else {
            continue;
        };
        match extra.iter_mut().find(|(k, _)| k == key) {
            Some((_, values)) => values.push(value.to_owned()),
            None => extra.push((key.to_owned(), vec![value.to_owned()])),
        }
    }
    served.impersonated = Some(name.clone());
    served.impersonated_groups.clone_from(&groups);
    User { name, groups, uid: text("impersonate-uid").unwrap_or_default(), extra }
}

async fn collect(body: Incoming) -> Result<Bytes, ApiError> {
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {BODY_LIMIT}"),
        )),
        Err(error) => Err(ApiError::bad_request(format!("the body could not be read: {error}"))),
    }
}

/// `Content-Type` without parameters.
fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The error that a real server sends with a code.
fn made_error(code: u16, retry_after: Option<u64>) -> ApiError {
    let status = StatusCode::from_u16(code).ok().filter(|c| c.is_client_error() || c.is_server_error());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let (reason, message) = match status.as_u16() {
        401 => ("Unauthorized", "Unauthorized"),
        403 => ("Forbidden", "access to this is forbidden (fault)"),
        404 => ("NotFound", "the server could not find the requested resource"),
        409 => ("Conflict", "the object has been modified (fault)"),
        410 => ("Expired", "too old resource version (fault)"),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        500 => ("InternalError", "an error on the server has prevented the request from succeeding (fault)"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => ("Timeout", "the server was unable to return a response in the time allotted (fault)"),
        _ => ("", "this response is an injected fault"),
    };
    ApiError { retry_after, ..ApiError::new(status, reason, message) }.about(crate::api::About::default())
}

fn stale_by(hits: &[Hit]) -> u64 {
    hits.iter().find_map(|hit| if let Fault::Stale { by } = hit.fault { Some(by) } else { None }).unwrap_or(0)
}

fn watch_faults(hits: &[Hit]) -> WatchFaults {
    let mut faults = WatchFaults::default();
    for hit in hits {
        match hit.fault {
            Fault::Silent => faults.silent = true,
            Fault::Gone { after } => faults.gone_after = after,
            Fault::Tear { after } => faults.tear_after = Some(after),
            Fault::NoInitialEventsEnd => faults.no_initial_end = true,
            Fault::Lag { milliseconds } => faults.lag = Duration::from_millis(milliseconds),
            Fault::Duplicate => faults.duplicate = true,
            Fault::OutOfOrder => faults.out_of_order = true,
            _ => {}
        }
    }
    faults
}

/// Does what a fault does to an answer that is there.
async fn spoil(
    response: Response<Body>,
    is_watch: bool,
    hits: &[Hit],
    control: &Arc<Control>,
) -> Response<Body> {
    let mut response = response;
    for hit in hits {
        match &hit.fault {
            Fault::ContentType { value } => {
                let value = HeaderValue::from_str(value).unwrap_or(HeaderValue::from_static("text/html"));
                response.headers_mut().insert(CONTENT_TYPE, value);
            }
            Fault::Truncate | Fault::Tear { .. } if !is_watch => {
                let (parts, body) = response.into_parts();
                // A whole body is in memory.
                let bytes = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
                let half = bytes.slice(..bytes.len() / 2);
                let content_type =
                    parts.headers.get(CONTENT_TYPE).and_then(|t| t.to_str().ok()).unwrap_or_default();
                response = match hit.fault {
                    Fault::Truncate => answer::whole(parts.status, content_type, half),
                    _ => answer::torn(parts.status, content_type, half, control.clone()),
                };
            }
            _ => {}
        }
    }
    response
}
