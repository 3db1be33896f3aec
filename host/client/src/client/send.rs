//! Sends a [`Call`]: identity and credentials, turns of the rate limits, attempts and retries, up to the head of the response.
//!
//! A request is sent twice only where the retry policy allows it, or when the server certainly did not process it.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;

use super::{Call, Client, body, failure};
use crate::error::{Error, Result};
use crate::observer::ObservedRequest;
use crate::transport::{ResponseBody, SendOptions};

/// Waits for the client's own rate limit that are logged; client-go's bound.
const LONG_WAIT: Duration = Duration::from_secs(1);

impl Client {
    /// What a call does, for messages: method and address without the query.
    pub(crate) fn doing(&self, call: &Call) -> String {
        format!("{} {}{}", call.method, self.core.base, call.target.path())
    }

    /// The request, and the number of the credential in it.
    async fn request(&self, call: &Call, watch: bool) -> Result<(Request<Full<Bytes>>, u64)> {
        let identity = self.identity.as_ref().map_err(Error::clone)?;
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri([&self.core.base, call.target.as_str()].concat())
            .body(Full::new(call.body.clone()))
            .map_err(|e| Error::Request(format!("{}: {e}", self.doing(call))))?;
        let headers = request.headers_mut();
        identity.add_to(headers);
        headers.insert(ACCEPT, call.accept.clone());
        if watch {
            // New servers gzip a watch as one member per event, which costs more than it saves.
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        } else if call.is_list && self.core.compress_lists {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if let Some(content_type) = call.content_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        for (name, value) in &call.headers {
            headers.insert(name, value.clone());
        }
        let presented = self.core.authorizer.present().await?;
        if let Some(authorization) = presented.header {
            headers.insert(AUTHORIZATION, authorization);
        }
        Ok((request, presented.serial))
    }

    /// The head of the response, when it is final: turns of the rate limits and the retries of the policy lie before it.
    pub(super) async fn head(
        &self,
        call: &Call,
        watch: bool,
        until: Option<Instant>,
    ) -> Result<Response<ResponseBody>> {
        let span = tracing::debug_span!("request", method = %call.method, path = call.target.path(), watch);
        self.head_in_span(call, watch, until).instrument(span).await
    }

    async fn head_in_span(
        &self,
        call: &Call,
        watch: bool,
        until: Option<Instant>,
    ) -> Result<Response<ResponseBody>> {
        let mut retries = 0;
        loop {
            if !watch && self.policy.rate_limited {
                self.turn(call, until).await?;
            }
            let response = self.attempt(call, watch, until).await?;
            let status = response.status();
            let again = Some(&self.policy.retry)
                .filter(|_| !watch)
                .and_then(|policy| policy.wait(retries, &call.method, status, response.headers()))
                .filter(|wait| {
                    until.is_none_or(|until| *wait < until.saturating_duration_since(Instant::now()))
                });
            let Some(wait) = again else { return Ok(response) };
            body::drain(response).await;
            retries += 1;
            tracing::debug!(%status, ?wait, retries, "retrying as the server asks (Retry-After)");
            if let Some(observer) = &self.core.observer {
                observer.retried(call.method.as_str(), &self.core.host, status.as_u16());
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Waits for a turn of the identity's own rate limit, for a request that is made as the host.
    pub(crate) async fn own_turn(&self) -> Result<()> {
        let identity = self.identity.as_ref().map_err(Error::clone)?;
        if let Some(limiter) = &identity.rate_limiter {
            limiter.turn(&identity.flow).await;
        }
        Ok(())
    }

    /// Waits for a turn of the identity's rate limit and then of the client's.
    async fn turn(&self, call: &Call, until: Option<Instant>) -> Result<()> {
        let identity = self.identity.as_ref().map_err(Error::clone)?;
        let limiters = [&identity.rate_limiter, &self.core.rate_limiter];
        if limiters.iter().all(|limiter| limiter.is_none()) {
            return Ok(());
        }
        let began = Instant::now();
        let turns = async {
            for limiter in limiters.into_iter().flatten() {
                limiter.turn(&identity.flow).await;
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
        if let Some(observer) = &self.core.observer {
            observer.rate_limited(call.method.as_str(), &self.core.host, waited);
        }
        if !in_time {
            return Err(Error::Transport {
                doing: self.doing(call),
                message: format!(
                    "not sent: the client-side rate limit was not free within {waited:?}; raise the limit, or send fewer requests"
                ),
                connection_refused: false,
                timeout: true,
                unsent: true,
            });
        }
        if waited >= LONG_WAIT {
            tracing::info!(
                event = "client_rate_limited",
                ?waited,
                user_agent = identity.user_agent,
                "{} waited for the client's own rate limit",
                self.doing(call)
            );
        }
        Ok(())
    }

    /// Sends a call once; the transport sends it over another connection when one that closed has certainly not processed
    /// it.
    async fn attempt(
        &self,
        call: &Call,
        watch: bool,
        until: Option<Instant>,
    ) -> Result<Response<ResponseBody>> {
        self.core.tls.after_rejection().await;
        let (mut request, credential) = self.request(call, watch).await?;
        if let Some(gate) =
            self.write_gate.as_ref().filter(|_| !matches!(call.method, Method::GET | Method::HEAD))
        {
            request.extensions_mut().insert(gate.clone());
        }
        let mut observed =
            Observed { client: self, method: &call.method, watch, began: Instant::now(), code: None };
        let sent = self.connections.send(request, SendOptions { watch, until }).await;
        let response = sent.map_err(|error| failure::of_transport(self.doing(call), &error))?;
        observed.code = Some(response.status().as_u16());
        self.core.warnings.log(response.headers(), observed.user_agent(), &self.core.host);
        if response.status() == StatusCode::UNAUTHORIZED {
            self.core.authorizer.rejected(credential);
            self.core.tls.rejected();
        }
        Ok(response)
    }

    pub(super) fn limit(&self, call: &Call) -> Duration {
        match call.timeout {
            Some(Duration::ZERO) => Duration::MAX,
            limit => limit.unwrap_or(self.policy.request_timeout),
        }
    }

    /// The deadline of a call that begins now.
    pub(super) fn until(&self, call: &Call) -> Option<Instant> {
        Instant::now().checked_add(self.limit(call))
    }

    pub(super) fn late(&self, call: &Call, limit: Duration) -> Error {
        Error::Transport {
            doing: self.doing(call),
            message: format!("no response within {limit:?}"),
            connection_refused: false,
            timeout: true,
            unsent: false,
        }
    }
}

/// Reports to the observer when it is dropped, so that a call which the caller gives up is counted as well.
struct Observed<'a> {
    client: &'a Client,
    method: &'a Method,
    watch: bool,
    began: Instant,
    code: Option<u16>,
}

impl Observed<'_> {
    fn user_agent(&self) -> &str {
        self.client.identity.as_ref().map_or("", |identity| &identity.user_agent)
    }
}

impl Drop for Observed<'_> {
    fn drop(&mut self) {
        if let (Some(observer), Ok(identity)) = (&self.client.core.observer, &self.client.identity) {
            observer.request(&ObservedRequest {
                method: self.method.as_str(),
                host: &self.client.core.host,
                code: self.code,
                duration: self.began.elapsed(),
                user_agent: &identity.user_agent,
                watch: self.watch,
            });
        }
    }
}
