//! [`RequestObserver`]: what a client did, for metrics.

use std::time::{Duration, SystemTime};

/// Is called for each request, for metrics. Calls are on the path of requests: they must not block.
pub trait RequestObserver: Send + Sync {
    /// A request has its answer's head, or will get none.
    fn request(&self, request: &ObservedRequest<'_>);

    /// A request has had its turn of the rate limits, which it waited for this long. Not called where there are none.
    fn rate_limited(&self, method: &str, host: &str, waited: Duration) {
        let _ = (method, host, waited);
    }

    /// The answer of a request asked to come again, and it will.
    fn retried(&self, method: &str, host: &str, code: u16) {
        let _ = (method, host, code);
    }

    /// An exec plugin for credentials has run.
    fn exec_plugin(&self, _event: &ExecPluginEvent) {}
}

/// What an exec plugin for credentials did, for metrics.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ExecPluginEvent {
    /// The program has run, or could not.
    Called {
        /// Its exit code; 1 when it did not run, -1 when a signal ended it.
        code: i32,
        /// client-go's word for the outcome: `no_error`, `plugin_execution_error`, `plugin_not_found_error` or
        /// `client_internal_error`.
        status: &'static str,
    },
    /// The certificate in use; reported after each run.
    Certificate {
        /// When it expires; `None` when the program gives tokens only.
        expires: Option<SystemTime>,
    },
    /// A certificate was replaced by another.
    Rotated {
        /// Age of the old one.
        age: Duration,
    },
}

/// One request, as an observer sees it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ObservedRequest<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Host and port of the server.
    pub host: &'a str,
    /// HTTP status; `None` when no answer came, or the caller stopped waiting for it.
    pub code: Option<u16>,
    /// From sending to the answer's head.
    pub duration: Duration,
    /// `User-Agent` of the identity that sent it.
    pub user_agent: &'a str,
    /// Whether it opens a watch.
    pub watch: bool,
}
