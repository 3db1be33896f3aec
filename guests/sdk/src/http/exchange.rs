//! One exchange over `wasi:http`: sends the request and its body, waits, and reads the response.
//!
//! Handles must be dropped in order: a stream before its body, a pollable before its resource. Each handle is in the
//! innermost block that needs it.

use std::time::Duration;

use wasip2::clocks::monotonic_clock;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    Fields, FutureIncomingResponse, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest,
    RequestOptions, Scheme, http_error_code,
};
use wasip2::io::poll::{self, Pollable};
use wasip2::io::streams::{OutputStream, StreamError};

use super::url::Url;
use super::{Error, ErrorKind, Headers, Request, Response};
use crate::Context;

/// Maximum number of bytes of one read.
const READ: u64 = 64 << 10;

pub(super) fn run(_ctx: &Context, request: &Request) -> Result<Response, Error> {
    let url = Url::parse(&request.url).map_err(|reason| Error::new(ErrorKind::Invalid, reason))?;
    let deadline = request.timeout.map(|whole| monotonic_clock::subscribe_duration(nanoseconds(whole)));
    let exchange = Exchange { authority: url.authority, deadline };
    let outgoing = outgoing(request, &url)?;
    // Calling `body` makes a request without `Content-Length` chunked, even if nothing is written.
    let body = match request.body.as_slice() {
        [] => None,
        _ => Some(outgoing.body().map_err(|()| Error::new(ErrorKind::Other, "the request has no body"))?),
    };
    let options = RequestOptions::new();
    if let Some(limit) = request.connect_timeout {
        // A host that does not support the option uses its own limit.
        let _ = options.set_connect_timeout(Some(nanoseconds(limit)));
    }
    let answer = outgoing_handler::handle(outgoing, Some(options)).map_err(|code| exchange.error(&code))?;
    let unsent = match body {
        Some(body) => exchange.send(body, &request.body, &answer)?,
        None => None,
    };
    let response = exchange.answer(&answer)?;
    let read = exchange.read(&response);
    // Dropped after the response was read, because dropping an unfinished body ends the exchange.
    drop(unsent);
    read
}

fn outgoing(request: &Request, url: &Url<'_>) -> Result<OutgoingRequest, Error> {
    let headers = Fields::new();
    for (name, value) in &request.headers {
        headers.append(name, value).map_err(|error| Error::from_header(name, error))?;
    }
    let method = method(&request.method);
    if !request.body.is_empty() || matches!(method, Method::Post | Method::Put | Method::Patch) {
        let length = request.body.len().to_string();
        headers
            .set("Content-Length", &[length.into_bytes()])
            .map_err(|error| Error::from_header("Content-Length", error))?;
    }
    let invalid = |what: &str| Error::new(ErrorKind::Invalid, format!("{what} is malformed"));
    let outgoing = OutgoingRequest::new(headers);
    let scheme = if url.https { Scheme::Https } else { Scheme::Http };
    outgoing.set_method(&method).map_err(|()| invalid("the method"))?;
    outgoing.set_scheme(Some(&scheme)).map_err(|()| invalid("the scheme"))?;
    outgoing.set_authority(Some(url.authority)).map_err(|()| invalid("the host of the URL"))?;
    outgoing.set_path_with_query(Some(&url.target)).map_err(|()| invalid("the path of the URL"))?;
    Ok(outgoing)
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

struct Exchange<'a> {
    authority: &'a str,
    /// Becomes ready when the timeout expires.
    deadline: Option<Pollable>,
}

impl Exchange<'_> {
    fn error(&self, code: &wasip2::http::types::ErrorCode) -> Error {
        Error::from_code(code, self.authority)
    }

    /// Waits until one of the pollables is ready; an error when the timeout expires first.
    fn wait<'a>(&'a self, mut ready: Vec<&'a Pollable>) -> Result<(), Error> {
        ready.extend(&self.deadline);
        let deadline = ready.len() - 1;
        let which = poll::poll(&ready);
        if self.deadline.is_some() && which.iter().all(|index| *index as usize == deadline) {
            return Err(Error::new(
                ErrorKind::Timeout,
                format!("the exchange with {} took longer than the request's own timeout", self.authority),
            ));
        }
        Ok(())
    }

    /// Writes the body. Returns the unfinished body if the response arrives first.
    fn send(
        &self,
        body: OutgoingBody,
        bytes: &[u8],
        answer: &FutureIncomingResponse,
    ) -> Result<Option<OutgoingBody>, Error> {
        let whole = {
            let stream = body.write().map_err(|()| Error::new(ErrorKind::Other, "the body has no stream"))?;
            self.write(&stream, bytes, answer)?
        };
        if !whole {
            return Ok(Some(body));
        }
        // If the request has failed, its response returns the error.
        let _ = OutgoingBody::finish(body, None);
        Ok(None)
    }

    fn write(
        &self,
        stream: &OutputStream,
        mut bytes: &[u8],
        answer: &FutureIncomingResponse,
    ) -> Result<bool, Error> {
        let (writable, answered) = (stream.subscribe(), answer.subscribe());
        while !bytes.is_empty() {
            // An error means that the server no longer reads the body; the response contains the reason.
            let Ok(room) = stream.check_write() else { return Ok(false) };
            if room == 0 {
                self.wait(vec![&writable, &answered])?;
                if answered.ready() {
                    return Ok(false);
                }
                continue;
            }
            let (now, rest) = bytes.split_at(bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
            if stream.write(now).is_err() {
                return Ok(false);
            }
            bytes = rest;
        }
        Ok(true)
    }

    fn answer(&self, answer: &FutureIncomingResponse) -> Result<IncomingResponse, Error> {
        let answered = answer.subscribe();
        loop {
            match answer.get() {
                Some(Ok(Ok(response))) => return Ok(response),
                Some(Ok(Err(code))) => return Err(self.error(&code)),
                Some(Err(())) => return Err(Error::new(ErrorKind::Other, "the answer was taken before")),
                None => self.wait(vec![&answered])?,
            }
        }
    }

    fn read(&self, response: &IncomingResponse) -> Result<Response, Error> {
        let headers = Headers(response.headers().entries());
        let body =
            response.consume().map_err(|()| Error::new(ErrorKind::Other, "the body was taken before"))?;
        let bytes = self.read_body(&body)?;
        Ok(Response { status: response.status(), headers, body: bytes })
    }

    fn read_body(&self, body: &IncomingBody) -> Result<Vec<u8>, Error> {
        let stream = body.stream().map_err(|()| Error::new(ErrorKind::Other, "the body was taken before"))?;
        let readable = stream.subscribe();
        let mut bytes = Vec::new();
        loop {
            match stream.read(READ) {
                Ok(chunk) if chunk.is_empty() => self.wait(vec![&readable])?,
                Ok(chunk) => bytes.extend_from_slice(&chunk),
                Err(StreamError::Closed) => return Ok(bytes),
                Err(StreamError::LastOperationFailed(error)) => {
                    return Err(match http_error_code(&error) {
                        Some(code) => self.error(&code),
                        None => Error::new(ErrorKind::ConnectionLost, error.to_debug_string()),
                    });
                }
            }
        }
    }
}
