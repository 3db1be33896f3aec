//! [`ResponseBody`]: the body of a response, with its place on a connection.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::connection::Slot;

/// The body of a response; the slot of its connection is held until it is dropped.
pub(crate) struct ResponseBody(Incoming, Option<Slot>);

impl ResponseBody {
    pub(super) fn of_connection(body: Incoming, slot: Option<Slot>) -> Self {
        Self(body, slot)
    }

    /// The peer is silent: no new call goes over the connection of this body.
    pub(crate) fn take_connection_out_of_use(&self) {
        if let Some(slot) = &self.1 {
            slot.broken();
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}
