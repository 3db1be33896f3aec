//! [`HttpImports`]: the host side of outgoing HTTP, `wasi:http/outgoing-handler`.

use std::sync::Arc;

use bytes::Bytes;

use crate::http::{HttpClient, HttpFailure};

/// The head of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequestHead {
    /// The method.
    pub method: String,
    /// The whole URL.
    pub url: String,
    /// The headers that the guest set.
    pub headers: Vec<(String, Vec<u8>)>,
}

/// The head of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponseHead {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: Vec<(String, Vec<u8>)>,
}

/// A response that comes from elsewhere than from the network.
#[derive(Debug, Clone)]
pub struct HttpResponse {
    /// The head.
    pub head: HttpResponseHead,
    /// The body, in the pieces in which the guest reads it.
    pub body: Vec<Bytes>,
    /// The failure that ends the body early.
    pub failure: Option<HttpFailure>,
}

/// Told what happens in one exchange. Called on the runtime of the requests or on a guest's thread; must not block.
pub trait HttpExchange: Send + Sync + 'static {
    /// A piece of the request's body was sent.
    fn sent(&self, bytes: &[u8]);
    /// The request's body was sent to its end. Not told where `Content-Length` says how long it is.
    fn sent_all(&self) {}
    /// The head of the response has arrived, or the request has failed.
    fn answered(&self, _answer: Result<&HttpResponseHead, &HttpFailure>) {}
    /// The guest has read a piece of the response's body.
    fn received(&self, _bytes: &[u8]) {}
    /// The response's body ended early.
    fn failed(&self, _failure: &HttpFailure) {}
}

/// Where a request goes.
pub enum HttpRoute {
    /// To the network.
    Network(Arc<dyn HttpExchange>),
    /// Nowhere: this is the answer, after the request's body was read.
    Answered(Arc<dyn HttpExchange>, Result<HttpResponse, HttpFailure>),
}

/// Sees each request of an instance before it is checked and sent.
pub trait HttpExchanges: Send + Sync + 'static {
    /// A request begins.
    fn begin(&self, head: HttpRequestHead) -> HttpRoute;
}

/// Outgoing HTTP requests of the plugin.
pub trait HttpImports {
    /// The client that sends the plugin's requests and knows the granted hosts. With `None` every request is denied.
    fn http(&self) -> Option<HttpClient> {
        None
    }
    /// Sees the requests; `None`: nobody.
    fn exchanges(&self) -> Option<Arc<dyn HttpExchanges>> {
        None
    }
    /// Called for each request that is denied for lack of a permission; the argument describes the request.
    fn denied(&self, _what: &str) {}
}
