//! [`HttpImports`]: the host side of outgoing HTTP, `wasi:http/outgoing-handler`.

use crate::http::HttpClient;

/// Outgoing HTTP requests of the plugin.
pub trait HttpImports {
    /// The client that sends the plugin's requests and knows the granted hosts. With `None` every request is denied.
    fn http(&self) -> Option<HttpClient> {
        None
    }
    /// Called for each request that is denied for lack of a permission; the argument describes the request.
    fn denied(&self, _what: &str) {}
}
