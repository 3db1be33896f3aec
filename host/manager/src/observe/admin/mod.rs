//! The admin endpoints: health, `/metrics`, `/plugins`, `/plugins/NAME`, `/caches`, `/log`, the web page of these, and commands
//! of operators.
//!
//! ```text
//!  --health-addr ─► /livez /readyz /healthz: a word, and no data
//!  --listen ──────► the same, with reasons for those who may read /plugins
//!             └───► / /page.css /page.js: the web page without its data, which a browser asks for with a token
//!             └───► /metrics /plugins /caches /log ─► access: a token, unless on a loopback address
//!             └───► POST /plugins/NAME/COMMAND ─► access: a token on every address ─► one line of the log
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `access` | who may ask what |
//! | `connections` | a bounded number of connections, each for a bounded time |
//! | `endpoints` | paths and their answers |
//! | `web_page` | the files of the web page |

mod access;
mod connections;
mod endpoints;
mod web_page;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;

use self::access::AdminAccess;
use self::connections::serve_connections;
use self::endpoints::{Endpoints, Health};
use crate::manager::Manager;
use crate::observe::metrics::Metrics;
use crate::observe::recent_log::RecentLog;

/// Where the endpoints are served, and to whom.
#[derive(Debug)]
pub struct AdminOptions {
    /// The address of all endpoints.
    pub listener: TcpListener,
    /// An address of health alone, if there is one.
    pub health: Option<TcpListener>,
    /// The file with the token that is asked for, in place of tokens that the API server knows.
    pub token_file: Option<PathBuf>,
    /// The last lines of the log, where they are kept.
    pub log: Option<RecentLog>,
}

/// Serves the endpoints until the future is dropped.
pub async fn serve(options: AdminOptions, manager: Manager, metrics: Metrics) {
    let AdminOptions { listener, health, token_file, log } = options;
    // Of a listener that has none nothing is known, as of one that everybody reaches.
    let is_loopback = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let access = AdminAccess::new(is_loopback, token_file, manager.access_asker());
    let endpoints = Arc::new(Endpoints::new(manager.clone(), metrics, access, log));
    let health_only = async {
        match health {
            Some(listener) => serve_connections(listener, Arc::new(Health(manager))).await,
            None => std::future::pending().await,
        }
    };
    tokio::join!(serve_connections(listener, endpoints), health_only);
}

/// Binds an address; `flag` is the option that names it.
///
/// # Errors
/// When the address is taken or not this machine's.
pub async fn bind(flag: &str, address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|e| {
        format!(
            "cannot listen on {address}: {e}; choose another address with {flag} (port 0 takes a free one)"
        )
    })
}

#[cfg(test)]
mod tests;
