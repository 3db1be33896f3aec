//! [`WatchStream`]: the events of one watch, decoded straight from the lines of its body.
//!
//! Invariants: after the end, or an error other than [`Error::Event`], the stream is over, and `next` gives `None`; an event is given only when its
//! line is complete; events that were received are given before the watch is reported dead. The reflector of `pilothouse-cache` and
//! [`RetryWatcher`](crate::RetryWatcher) call this.

mod event;
mod patience;

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use hyper::body::Body as _;

use crate::client::Call;
use crate::client::Client;
use crate::client::failure;
use crate::error::{Error, Result};
use crate::params::{ApiResource, WatchEvent, WatchParams};
use crate::transport::ResponseBody;
use crate::url::Target;

use event::{CutOff, EventDecoder};
use patience::Patience;

/// The events of one watch; also a `Stream`. Dropping it closes the watch.
pub struct WatchStream {
    body: ResponseBody,
    events: EventDecoder,
    doing: String,
    patience: Patience,
    over: bool,
}

impl Client {
    /// Opens a watch.
    ///
    /// # Errors
    /// As the server answers; a version that is too old may be reported here or by the stream.
    pub async fn watch(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        params: &WatchParams,
    ) -> Result<WatchStream> {
        let mut target = Target::collection(resource, namespace)?;
        target.watch(params);
        let call = Call::watch(target, params);
        let patience = Patience::new(params.timeout_seconds, params.bookmark_age);
        let response = self.send(&call).await?;
        Ok(WatchStream {
            body: response.into_body(),
            events: EventDecoder::new(resource.gvk.clone()),
            doing: self.doing(&call).replacen("GET", "watching", 1),
            patience,
            over: false,
        })
    }
}

impl WatchStream {
    /// The next event; `None` when the server has ended the watch.
    ///
    /// Cancel-safe: a call that is dropped loses nothing.
    ///
    /// # Errors
    /// [`Error::Api`] for an `ERROR` frame; [`Error::Transport`] when the connection broke or ended in the middle of an event, and with
    /// `timeout` when it is taken for dead: still open half a minute after `timeout_seconds`, or silent for
    /// [`WatchParams::bookmark_age`]; [`Error::Protocol`] for an `ERROR` event without a `Status`. The stream is over
    /// then; after an [`Error::Transport`] another watch can go on from the last version.
    ///
    /// [`Error::Event`] when one event cannot be decoded, or its object is longer than 16 MiB: the stream is not over, and a
    /// caller that can do without the event logs the error and calls this again.
    pub async fn next(&mut self) -> Option<Result<WatchEvent>> {
        poll_fn(|cx| self.poll_next_event(cx)).await
    }

    fn poll_next_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchEvent>>> {
        if self.over {
            return Poll::Ready(None);
        }
        let next = ready!(self.poll_event(cx));
        if !matches!(next, Some(Ok(_) | Err(Error::Event { .. }))) {
            self.over = true;
        }
        Poll::Ready(next)
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchEvent>>> {
        loop {
            match self.events.next() {
                Ok(Some(event)) => {
                    if matches!(event, WatchEvent::Bookmark { initial_events_end: false, .. }) {
                        self.patience.bookmark();
                    }
                    return Poll::Ready(Some(Ok(event)));
                }
                Ok(None) => {}
                Err(fault) => return Poll::Ready(Some(Err(fault.error(&self.doing)))),
            }
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.patience.heard();
                    if let Ok(data) = frame.into_data() {
                        self.events.push(data);
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(failure::of_transport(self.doing.clone(), &error))));
                }
                Poll::Ready(None) => return Poll::Ready(self.last()),
                Poll::Pending => {
                    let dead = ready!(self.patience.poll(cx));
                    self.body.take_connection_out_of_use();
                    return Poll::Ready(Some(Err(self.broken(dead.message(), true))));
                }
            }
        }
    }

    /// The event behind the last line break, when the body has ended.
    fn last(&mut self) -> Option<Result<WatchEvent>> {
        self.over = true;
        let last = self.events.finish();
        last.map_err(|CutOff| self.broken("ended in the middle of an event".to_owned(), false)).transpose()
    }

    fn broken(&self, message: String, timeout: bool) -> Error {
        Error::Transport {
            doing: self.doing.clone(),
            message,
            connection_refused: false,
            timeout,
            unsent: false,
        }
    }
}

impl Stream for WatchStream {
    type Item = Result<WatchEvent>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_next_event(cx)
    }
}

impl std::fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchStream")
            .field("doing", &self.doing)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}
