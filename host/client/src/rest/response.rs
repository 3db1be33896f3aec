//! [`RestResponse`] and [`ByteStream`]: what came back.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, StatusCode};
use hyper::body::Body as _;
use serde::de::DeserializeOwned;

use crate::client::failure;
use crate::client::{FullResponse, failure::unexpected};
use crate::error::Result;
use crate::transport::ResponseBody;
use crate::warnings::{self, Warning};

/// An answer that was read whole.
pub struct RestResponse {
    pub(super) doing: String,
    pub(super) answer: FullResponse,
}

impl RestResponse {
    /// Its HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.answer.status
    }

    /// Its headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.answer.headers
    }

    /// What the server warns of, such as a version of an API that will go. Each text has also reached the log, once.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        warnings::of(&self.answer.headers)
    }

    /// Its body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.answer.body
    }

    /// Its body, read as JSON.
    ///
    /// # Errors
    /// [`Error::Protocol`](crate::Error::Protocol) when it is something else.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.answer.body).map_err(|e| unexpected(self.doing.clone(), &e))
    }
}

// Bodies and headers may hold what is secret.
impl fmt::Debug for RestResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestResponse")
            .field("doing", &self.doing)
            .field("status", &self.answer.status)
            .field("body", &format_args!("{} bytes", self.answer.body.len()))
            .finish_non_exhaustive()
    }
}

/// A body as it comes; a `Stream` of its pieces. Dropping it ends the request.
pub struct ByteStream {
    body: ResponseBody,
    doing: String,
    over: bool,
}

impl ByteStream {
    pub(super) fn new(body: ResponseBody, doing: String) -> Self {
        Self { body, doing, over: false }
    }

    /// The next piece; `None` at the end. Cancel-safe.
    ///
    /// # Errors
    /// [`Error::Transport`](crate::Error::Transport) when the connection broke; the stream is over then.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        std::future::poll_fn(|cx| self.poll_piece(cx)).await
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        while !self.over {
            match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Some(Err(error)) => {
                    self.over = true;
                    return Poll::Ready(Some(Err(failure::of_transport(self.doing.clone(), &error))));
                }
                None => self.over = true,
            }
        }
        Poll::Ready(None)
    }
}

impl Stream for ByteStream {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_piece(cx)
    }
}

impl fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteStream").field("doing", &self.doing).finish_non_exhaustive()
    }
}
