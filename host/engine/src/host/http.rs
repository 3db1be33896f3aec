//! [`HttpImports`]: outgoing HTTP, `wasi:http/outgoing-handler`.

use crate::http::HttpClient;

/// HTTP requests of the plugin.
pub trait HttpImports {
    /// What the plugin sends HTTP requests with, and what it may reach; without it every request is denied.
    fn http(&self) -> Option<HttpClient> {
        None
    }
    /// Called with a description of each request that is refused for lack of a permission.
    fn denied(&self, _what: &str) {}
}
