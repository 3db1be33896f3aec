//! [`HostClient`]: requests of the host itself, with the checks and bounds of the requests of plugins: the address that is checked
//! is the one that is connected to, no redirect is followed, and bodies have a maximum size. Called by [`super::download`] and by
//! the client of OCI registries.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use pilothouse_plugin::OutgoingHosts;
use tokio::runtime::Handle;
use tokio::time::Instant;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::MAX_BODY;
use super::client::{ExchangeLimits, HttpClient, HttpClientOptions, HttpObserver, HttpResult, RequestError};
use super::resolve::SystemResolver;

/// Requests of one client a second. Each makes one.
const QPS: f64 = 1.0;

/// Nobody counts the requests of the host.
struct Uncounted;

impl HttpObserver for Uncounted {
    fn request(&self, _: HttpResult) {}
    fn moved(&self, _: u64, _: u64) {}
}

/// Sends requests of the host. Connections are tasks on a runtime, and serve one request each.
#[derive(Debug)]
pub struct HostClient {
    user_agent: String,
    time: Duration,
    deadline: Instant,
    runtime: Handle,
}

impl HostClient {
    /// Maximum size in bytes of the body of a request or a response.
    pub const MAX_BODY: u64 = MAX_BODY;
    /// The time of all requests for one component: 16 MiB at a third of a megabyte a second.
    pub const COMPONENT_TIME: Duration = Duration::from_secs(60);

    /// Creates a client. All its requests together may take this time from now on.
    #[must_use]
    pub fn new(user_agent: String, time: Duration, runtime: Handle) -> Self {
        Self { user_agent, time, deadline: Instant::now() + time, runtime }
    }

    /// Sends a request with an absolute URI to one of these hosts; the response, whatever its status.
    ///
    /// # Errors
    /// The reason: the time, the URL, the host, the address, or the connection.
    pub async fn send(&self, request: Request<Bytes>, hosts: OutgoingHosts) -> Result<HostResponse, String> {
        if Instant::now() >= self.deadline {
            return Err(format!("the {} seconds for all requests together are over", self.time.as_secs()));
        }
        let client = HttpClient::new(HttpClientOptions {
            plugin: "a component".into(),
            hosts,
            qps: QPS,
            user_agent: self.user_agent.clone(),
            resolver: Arc::new(SystemResolver),
            runtime: self.runtime.clone(),
            observer: Arc::new(Uncounted),
        });
        let request = request
            .map(|body| -> WasiBody { Full::new(body).map_err(|never| match never {}).boxed_unsync() });
        let to = client.check(&request).map_err(|refused| reason(&refused))?;
        let limits = ExchangeLimits::new(RequestOptions::default(), self.deadline);
        // The body is whole in memory: it does not depend on what outlives the request.
        let lives = Arc::new(());
        let response = client.send(to, request, limits, Arc::downgrade(&lives)).await;
        let (head, body) = response.map_err(|failed| reason(&failed))?.into_parts();
        Ok(HostResponse { status: head.status, headers: head.headers, body })
    }
}

/// A response, whose body is read piece by piece.
#[derive(Debug)]
pub struct HostResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: WasiBody,
}

impl HostResponse {
    /// The status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Hands the body to `take` piece by piece.
    ///
    /// # Errors
    /// The reason: the connection, the size of the body, or what `take` says.
    pub async fn read(mut self, mut take: impl FnMut(&[u8]) -> Result<(), String>) -> Result<(), String> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| reason(&error.into()))?;
            if let Some(bytes) = frame.data_ref() {
                take(bytes)?;
            }
        }
        Ok(())
    }
}

fn reason(failed: &RequestError) -> String {
    match &failed.error {
        Error::DestinationIpProhibited => {
            "it leads to an address of the host itself, of its link, or of a cloud's metadata service"
                .to_owned()
        }
        Error::HttpRequestDenied => "its host is not allowed".to_owned(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_after_the_time_of_all_requests_says_so() {
        let client = HostClient::new("test".to_owned(), Duration::from_secs(60), Handle::current());
        let request = || Request::get("http://127.0.0.1:1/").body(Bytes::new()).unwrap();
        let over = "the 60 seconds for all requests together are over";
        assert_ne!(client.send(request(), OutgoingHosts::default()).await.unwrap_err(), over);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(client.send(request(), OutgoingHosts::default()).await.unwrap_err(), over);
    }
}
