//! [`ResponseBody`]: the body of a response, with its place on a connection.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tower::BoxError;

use super::connection::Slot;

/// The body of a response.
pub struct ResponseBody(BodySource);

enum BodySource {
    /// From a connection; the slot is held until the body is dropped.
    Connection(Incoming, Option<Slot>),
    /// From middleware, or from a service in place of the transport.
    Service(UnsyncBoxBody<Bytes, BoxError>),
}

impl ResponseBody {
    /// A body of middleware, or of a service in place of the transport, as `http_body_util::Full`.
    pub fn new<B>(body: B) -> Self
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        Self(BodySource::Service(body.map_err(Into::into).boxed_unsync()))
    }

    pub(super) fn of_connection(body: Incoming, slot: Option<Slot>) -> Self {
        Self(BodySource::Connection(body, slot))
    }

    /// The peer is silent: no new call goes over the connection of this body.
    pub(crate) fn take_connection_out_of_use(&self) {
        if let BodySource::Connection(_, Some(slot)) = &self.0 {
            slot.broken();
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            BodySource::Connection(body, _) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
            }
            BodySource::Service(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodySource::Connection(body, _) => body.is_end_stream(),
            BodySource::Service(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodySource::Connection(body, _) => body.size_hint(),
            BodySource::Service(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}
