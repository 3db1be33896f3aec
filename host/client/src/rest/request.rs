//! [`RestRequest`]: one request, part by part.
//!
//! Invariant: a part that cannot be sent is told by `send` and nothing goes out; the first such part counts. So the parts can be
//! chained, as in client-go. Paths are built by `url`, whatever the order of the calls.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, TE, TRANSFER_ENCODING,
    UPGRADE, USER_AGENT,
};
use serde::Serialize;

use super::response::{ByteStream, RestResponse};
use crate::client::Client;
use crate::client::failure;
use crate::client::{Call, OBJECT_LIMIT};
use crate::error::{Error, Result};
use crate::url::{Parts, Target};
use crate::verbs;

/// A request under construction.
#[must_use = "nothing is sent before `send`"]
pub struct RestRequest {
    client: Client,
    method: Method,
    parts: Parts,
    absolute: Option<String>,
    query: Vec<(String, String)>,
    headers: Vec<(HeaderName, HeaderValue)>,
    content_type: Option<&'static str>,
    body: Bytes,
    timeout: Option<Duration>,
    limit: usize,
    /// The first part that cannot be sent.
    fault: Option<Error>,
}

impl RestRequest {
    pub(super) fn new(client: Client, method: Method, group: &str, version: &str) -> Self {
        Self {
            client,
            method,
            parts: Parts { group: group.to_owned(), version: version.to_owned(), ..Parts::default() },
            absolute: None,
            query: Vec::new(),
            headers: Vec::new(),
            content_type: None,
            body: Bytes::new(),
            timeout: None,
            limit: OBJECT_LIMIT,
            fault: None,
        }
    }

    /// The namespace; an empty one means all, or none.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.parts.namespace = Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty());
        self
    }

    /// The plural name of the resource.
    pub fn resource(mut self, plural: &str) -> Self {
        self.parts.resource = plural.to_owned();
        self
    }

    /// The name of the object.
    pub fn name(mut self, name: &str) -> Self {
        if name.is_empty() {
            self.refuse(Error::Request(
                "the name of the object is empty; leave it out for a collection".to_owned(),
            ));
        }
        self.parts.name = Some(name.to_owned());
        self
    }

    /// What stands behind the name, a segment each: `status`, or `proxy` and what follows it.
    pub fn subresource<'a>(mut self, segments: impl IntoIterator<Item = &'a str>) -> Self {
        self.parts.subresource = segments.into_iter().map(str::to_owned).collect();
        self
    }

    /// A path that belongs to no group version, as `/readyz`, in place of all other parts of the path.
    pub fn absolute_path(mut self, path: &str) -> Self {
        self.absolute = Some(path.to_owned());
        self
    }

    /// A parameter of the query, as `labelSelector`, `dryRun` or `fieldManager`; one name may come several times.
    pub fn param(mut self, name: &str, value: &str) -> Self {
        self.query.push((name.to_owned(), value.to_owned()));
        self
    }

    /// How long the server may take, which it is told in whole seconds, and how long the answer is waited for; zero is
    /// no limit on both sides. Without this the client's own limit counts, and the server's.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The forms in which the answer is understood, instead of JSON.
    pub fn accept(self, media_types: &str) -> Self {
        self.header(ACCEPT.as_str(), media_types)
    }

    /// A header; of several of one name the last counts. Those by which the server knows who is asking are the client's.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        match header(name, value) {
            Ok(header) => self.headers.push(header),
            Err(error) => self.refuse(error),
        }
        self
    }

    /// The body, as JSON.
    pub fn json(mut self, body: &impl Serialize) -> Self {
        match verbs::json(body) {
            Ok(json) => self.body("application/json", json),
            Err(error) => {
                self.refuse(error);
                self
            }
        }
    }

    /// The body. What [`RestClient::patch`](super::RestClient::patch) said of it stays.
    pub fn body(mut self, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        self.content_type.get_or_insert(content_type);
        self.body = body.into();
        self
    }

    pub(super) fn content_type(mut self, content_type: &'static str) -> Self {
        self.content_type = Some(content_type);
        self
    }

    /// The most bytes of an answer that are read; 16 MiB unless told.
    pub fn limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Sends it and reads the answer.
    ///
    /// # Errors
    /// A part that cannot be sent; no answer, or one that is too large; [`Error::Api`] when the answer is an error.
    pub async fn send(self) -> Result<RestResponse> {
        let RestResponse { doing, answer } = self.send_any().await?;
        if answer.status.is_success() {
            return Ok(RestResponse { doing, answer });
        }
        Err(failure::of_response(doing, &answer))
    }

    /// Sends it and gives the answer, be it an error or not.
    ///
    /// # Errors
    /// A part that cannot be sent; no answer, or one that is too large.
    pub async fn send_any(self) -> Result<RestResponse> {
        let limit = self.limit;
        let (client, call) = self.build()?;
        let answer = client.fetch(&call, limit).await?;
        Ok(RestResponse { doing: client.doing(&call), answer })
    }

    /// Sends it and gives the body as it comes, as for the logs of a pod. The time limit counts up to its beginning; the
    /// stream stands on a connection of watches and streams, which serves no requests.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn stream(self) -> Result<ByteStream> {
        let (client, call) = self.build()?;
        let response = client.send(&call).await?;
        Ok(ByteStream::new(response.into_body(), client.doing(&call)))
    }

    fn refuse(&mut self, fault: Error) {
        self.fault.get_or_insert(fault);
    }

    fn build(self) -> Result<(Client, Call)> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let mut target = match &self.absolute {
            Some(path) => Target::raw(path)?,
            None => Target::parts(&self.parts)?,
        };
        for (name, value) in &self.query {
            target.query(name, value);
        }
        if let Some(timeout) = self.timeout
            && !timeout.is_zero()
        {
            target.query("timeout", &format!("{}s", timeout.as_secs().max(1)));
        }
        let mut call = Call::new(self.method, target).headers(self.headers).timeout(self.timeout);
        if let Some(content_type) = self.content_type {
            call = call.owned_body(content_type, self.body);
        }
        Ok((self.client, call))
    }
}

// Bodies, queries and headers may hold what is secret.
impl fmt::Debug for RestRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestRequest")
            .field("method", &self.method)
            .field("parts", &self.parts)
            .field(
                "absolute",
                &self.absolute.as_deref().map(|path| path.split('?').next().unwrap_or_default()),
            )
            .field("body", &format_args!("{} bytes", self.body.len()))
            .finish_non_exhaustive()
    }
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue)> {
    let bad = |why: &str| Error::Request(format!("header {name:?}: {why}"));
    let name = HeaderName::try_from(name).map_err(|_| bad("this is not the name of a header"))?;
    if name == AUTHORIZATION || name == USER_AGENT || name.as_str().starts_with("impersonate-") {
        return Err(bad("who is asking is said by the client's identity; use Client::with_identity"));
    }
    if [CONTENT_LENGTH, TRANSFER_ENCODING, HOST, CONNECTION, TE, UPGRADE].contains(&name) {
        return Err(bad("this is for the transport to say"));
    }
    let value =
        HeaderValue::from_str(value).map_err(|_| bad("its value holds characters that HTTP cannot carry"))?;
    Ok((name, value))
}
