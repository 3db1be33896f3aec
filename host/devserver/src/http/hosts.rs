//! [`AllowedHosts`]: keeps pages in the developer's browser away from the server.
//!
//! A page may send requests to 127.0.0.1 without reading the answers, and may read them when its own name is made to point
//! to 127.0.0.1 (DNS rebinding). The first carries an `Origin` or `Sec-Fetch-Site` header, the second the page's name as
//! its host; programs that are no browsers send neither.

use std::net::{IpAddr, SocketAddr};

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderName, HeaderValue, StatusCode, Uri};

use crate::api::ApiError;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The names and addresses by which a server may be addressed.
#[derive(Debug)]
pub(crate) struct AllowedHosts {
    /// The address on which the server listens.
    bound: IpAddr,
    /// Further names, in lower case.
    names: Vec<String>,
}

impl AllowedHosts {
    pub(crate) fn new(bound: SocketAddr, names: &[String]) -> Self {
        Self { bound: bound.ip(), names: names.iter().map(|name| name.to_ascii_lowercase()).collect() }
    }

    /// # Errors
    /// 403 for a request that a page in a browser may have sent.
    pub(super) fn check(&self, parts: &Parts) -> Result<(), ApiError> {
        let headers = |name| parts.headers.get_all(name).iter().map(HeaderValue::as_bytes);
        let mut hosts: Vec<Authority> = parts.uri.authority().cloned().into_iter().collect();
        for host in headers(HOST) {
            hosts.push(Authority::try_from(host).map_err(|_| foreign_host(&String::from_utf8_lossy(host)))?);
        }
        if let Some(foreign) = hosts.iter().find(|host| !self.is_own(host.host())) {
            return Err(foreign_host(foreign.as_str()));
        }
        for origin in headers(ORIGIN) {
            let uri = Uri::try_from(origin).ok();
            let authority = uri.as_ref().and_then(Uri::authority);
            // Authorities are the same whatever the case of their letters.
            if !authority.is_some_and(|authority| hosts.contains(authority)) {
                return Err(page(&format!("of the page {:?}", String::from_utf8_lossy(origin))));
            }
        }
        match headers(SEC_FETCH_SITE).find(|site| matches!(*site, b"cross-site" | b"same-site")) {
            Some(site) => Err(page(&format!("that are {}", String::from_utf8_lossy(site)))),
            None => Ok(()),
        }
    }

    fn is_own(&self, host: &str) -> bool {
        let name = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        match name.parse::<IpAddr>() {
            // Whoever listens everywhere has addresses that are not known here. No name was resolved to one that is given.
            Ok(address) => {
                address.is_loopback()
                    || address == self.bound
                    || self.bound.is_unspecified()
                    || self.names.contains(&name)
            }
            Err(_) => name == "localhost" || self.names.contains(&name),
        }
    }
}

fn foreign_host(host: &str) -> ApiError {
    forbidden(format!(
        "{host:?} is not a name of this development server: requests must be sent to localhost, 127.0.0.1 or [::1], to the \
         address on which it listens, or to a name given with `--api-host`"
    ))
}

fn page(which: &str) -> ApiError {
    forbidden(format!(
        "requests {which} are refused: this development server has no access control and answers no pages of other sites; \
         use a program that sends neither `Origin` nor `Sec-Fetch-Site`, such as kubectl or curl"
    ))
}

fn forbidden(message: String) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "Forbidden", message)
}
