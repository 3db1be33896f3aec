//! Exchanges that somebody sees: bodies that are told of ([`Told`]), and answers that come from elsewhere ([`answered`]).

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use wasmtime_wasi_http::{Error, WasiBody};

use super::failure::HttpFailure;
use crate::host::{HttpExchange, HttpRequestHead, HttpResponse, HttpResponseHead};

/// The head of a request.
pub(super) fn request_head(request: &Request<WasiBody>) -> HttpRequestHead {
    HttpRequestHead {
        method: request.method().to_string(),
        url: request.uri().to_string(),
        headers: headers(request.headers()),
    }
}

fn headers(map: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    map.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

/// A request whose body is told of.
pub(super) fn told_request(
    request: Request<WasiBody>,
    exchange: &Arc<dyn HttpExchange>,
) -> Request<WasiBody> {
    if request.body().is_end_stream() {
        exchange.sent_all();
    }
    request
        .map(|body| Told { body, exchange: Arc::clone(exchange), direction: Direction::Sent }.boxed_unsync())
}

/// Tells of the head of an answer, and returns it with a body that is told of.
pub(super) fn told_answer(
    answer: Result<Response<WasiBody>, Error>,
    exchange: Arc<dyn HttpExchange>,
) -> Result<Response<WasiBody>, Error> {
    match answer {
        Err(error) => {
            exchange.answered(Err(&HttpFailure::of(&error)));
            Err(error)
        }
        Ok(response) => {
            let head =
                HttpResponseHead { status: response.status().as_u16(), headers: headers(response.headers()) };
            exchange.answered(Ok(&head));
            Ok(response.map(|body| Told { body, exchange, direction: Direction::Received }.boxed_unsync()))
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Sent,
    Received,
}

/// A body whose pieces are told of.
struct Told {
    body: WasiBody,
    exchange: Arc<dyn HttpExchange>,
    direction: Direction,
}

impl Body for Told {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    match self.direction {
                        Direction::Sent => self.exchange.sent(data),
                        Direction::Received => self.exchange.received(data),
                    }
                }
            }
            None if self.direction == Direction::Sent => self.exchange.sent_all(),
            Some(Err(error)) if self.direction == Direction::Received => {
                self.exchange.failed(&HttpFailure::of(error));
            }
            _ => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Reads a request to its end and answers it without a network.
pub(super) async fn answered(
    request: Request<WasiBody>,
    exchange: Arc<dyn HttpExchange>,
    answer: Result<HttpResponse, HttpFailure>,
) -> Result<Response<WasiBody>, Error> {
    let mut body = request.into_body();
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(data) = frame.data_ref() {
            exchange.sent(data);
        }
    }
    let HttpResponse { head, body, failure } = answer.map_err(HttpFailure::error)?;
    let mut response = Response::new(Pieces { left: body.into(), failure }.boxed_unsync());
    let unreadable = |what: &str| Error::InternalError(Some(format!("the answer has a malformed {what}")));
    *response.status_mut() = head.status.try_into().map_err(|_| unreadable("status"))?;
    for (name, value) in head.headers {
        let name: HeaderName = name.parse().map_err(|_| unreadable("header"))?;
        let value = HeaderValue::from_bytes(&value).map_err(|_| unreadable("header"))?;
        response.headers_mut().append(name, value);
    }
    Ok(response)
}

/// A body that is there already.
struct Pieces {
    left: VecDeque<Bytes>,
    failure: Option<HttpFailure>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        Poll::Ready(match self.left.pop_front() {
            Some(piece) => Some(Ok(Frame::data(piece))),
            None => self.failure.take().map(|failure| Err(failure.error())),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty() && self.failure.is_none()
    }
}
