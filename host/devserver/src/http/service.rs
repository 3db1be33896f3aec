//! [`Service`]: a request from its head to its answer: faults, the body, the verb, and the log.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::sync::Semaphore;

use super::answer::{self, Body};
use super::control::Control;
use super::fault_injection::{FaultOutcome, after_answer, stale_by};
use super::faulty_watch::{FaultyWatch, WatchFaults};
use super::request_info::{RequestInfo, RequestTarget, attributes, media_type, read_body};
use super::{AllowedHosts, Log, Served};
use crate::api::{ApiError, Warnings, negotiate};
use crate::faults::{Faults, Hit};
use crate::openapi::OpenApi;
use crate::verbs::{Answer, Core, ListTwist, ResourceRequest};

/// From how many objects on a list is made outside of the thread of its connection.
const MANY_OBJECTS: usize = 500;
/// From how many bytes on of a body, or of the object that is written, a write is done outside of it: the largest take a
/// tenth of a second.
const LARGE_OBJECT: usize = 128 << 10;
/// How many such answers are made at a time: each is in memory as a whole.
pub(crate) const LONG_ANSWERS: usize = 4;

/// Everything a connection needs.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) core: Arc<Core>,
    pub(crate) openapi: OpenApi,
    pub(crate) faults: Faults,
    pub(crate) log: Log,
    pub(crate) hosts: AllowedHosts,
    /// Turns of answers that take long.
    pub(crate) long_answers: Arc<Semaphore>,
}

impl Service {
    pub(super) async fn handle(
        &self,
        request: Request<Incoming>,
        control: &Arc<Control>,
    ) -> Result<Response<Body>, Infallible> {
        control.set_requested();
        let (parts, body) = request.into_parts();
        Ok(self.respond(&parts, body, control).await)
    }

    async fn respond(&self, parts: &Parts, body: Incoming, control: &Arc<Control>) -> Response<Body> {
        let (info, mut entry) = RequestInfo::read(parts);
        if let Err(error) = self.hosts.check(parts) {
            return self.logged(entry, answer::error(&error));
        }
        // What steers the faults is not hit by them.
        let hits = if info.is_own() { Vec::new() } else { self.faults.hits(&attributes(parts, &entry)) };
        entry.faults = hits.iter().map(|hit| hit.id).collect();

        let response = match self.before_answer(&hits, control).await {
            FaultOutcome::Answer(error) => answer::error(&error),
            FaultOutcome::Never => {
                self.log.add(entry);
                std::future::pending::<()>().await;
                return answer::error(&ApiError::internal("never sent"));
            }
            FaultOutcome::No => {
                let response = match read_body(body).await {
                    Ok(body) => self.answer(parts, info, body, &hits, control).await,
                    Err(error) => Err(error),
                };
                response.unwrap_or_else(|error| answer::error(&error))
            }
        };
        let is_watch = entry.verb == "watch" && response.status().is_success();
        let response = after_answer(response, is_watch, &hits, control).await;
        self.logged(entry, response)
    }

    fn logged(&self, mut entry: Served, response: Response<Body>) -> Response<Body> {
        entry.code = response.status().as_u16();
        if !entry.uri.starts_with("/_") {
            self.log.add(entry);
        }
        response
    }

    async fn answer(
        &self,
        parts: &Parts,
        info: RequestInfo,
        body: Bytes,
        hits: &[Hit],
        control: &Arc<Control>,
    ) -> Result<Response<Body>, ApiError> {
        let RequestInfo { params, target, user } = info;
        let user_agent =
            parts.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let user_agent = user_agent.to_owned();
        let (verb, target) = match target {
            RequestTarget::Nothing(error) => return Err(error),
            RequestTarget::Path(path) => return self.other(parts, &path, &body),
            RequestTarget::Objects { verb, target } => (verb, target),
        };
        let registry = self.core.registry.now();
        let resource = registry
            .get(&target.group, &target.version, &target.resource)
            .ok_or_else(|| registry.nothing_in(&target.group))?
            .clone();
        let call = ResourceRequest {
            resource,
            target,
            params,
            accepted: negotiate(&parts.headers)?,
            content_type: media_type(&parts.headers),
            body,
            user,
            user_agent,
            twist: ListTwist { stale_by: stale_by(hits) },
            warnings: Warnings::default(),
        };
        call.warnings.add(call.resource.deprecation());
        let content_type = call.accepted.content_type;
        let (answered, call) = self.do_verb(verb, call).await?;
        let response = answered.map_or_else(
            |error| answer::error(&error),
            |answer| match answer {
                Answer::Whole { code, body } => answer::whole(code, content_type, body),
                Answer::Watch(stream) => {
                    let watch = FaultyWatch::new(*stream, WatchFaults::of(hits));
                    answer::watch(watch, content_type, control.clone())
                }
            },
        );
        Ok(answer::with_warnings(response, &call.warnings))
    }

    fn takes_long(&self, verb: &str, call: &ResourceRequest) -> bool {
        match verb {
            "list" | "deletecollection" => self.core.store.count(&call.resource.storage) >= MANY_OBJECTS,
            "create" | "update" | "patch" => {
                call.body.len() >= LARGE_OBJECT || self.core.size_of(call) >= LARGE_OBJECT
            }
            _ => false,
        }
    }

    /// Does what a call asks for; many objects are read, and large ones written, on a thread of their own, so that watches and
    /// other requests on this one go on.
    pub(super) async fn do_verb(
        &self,
        verb: &'static str,
        call: ResourceRequest,
    ) -> Result<(Result<Answer, ApiError>, ResourceRequest), ApiError> {
        if !self.takes_long(verb, &call) {
            return Ok((self.core.answer(verb, &call), call));
        }
        // It is never closed.
        let turn = self.long_answers.clone().acquire_owned().await;
        let core = self.core.clone();
        let answering = tokio::task::spawn_blocking(move || {
            // Until the answer is there, also if its client is gone.
            let _turn = turn;
            (core.answer(verb, &call), call)
        });
        answering
            .await
            .map_err(|error| ApiError::internal(format!("the request was not carried out: {error}")))
    }
}
