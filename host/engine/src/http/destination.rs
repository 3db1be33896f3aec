//! [`Destination`]: the scheme, host and port of a request, parsed once. The same value is compared with the grants,
//! used to connect, and sent to the server as `Host`.

use std::fmt;

use http::Uri;
use http::uri::{PathAndQuery, Scheme};
use pilothouse_plugin::{Host, split_port};

/// The destination of a request. Requests with equal destinations share connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Destination {
    pub(super) tls: bool,
    pub(super) host: Host,
    pub(super) port: u16,
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Destination {
    /// Parses the URI of a request; the error is the reason, human-readable.
    pub(super) fn of(uri: &Uri) -> Result<Self, &'static str> {
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err("the scheme is neither http nor https"),
        };
        let authority = uri.authority().ok_or("there is no host")?.as_str();
        if authority.contains('@') {
            return Err("user information in the URL; send it in the header Authorization");
        }
        let (host, port) = split_port(authority)?;
        let port = port.unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { tls, host: Host::parse(host)?, port })
    }

    /// The value of the header `Host`, without the port when it is the default of the scheme.
    pub(super) fn host_header(&self) -> String {
        if self.port == if self.tls { 443 } else { 80 } { self.host.to_string() } else { self.to_string() }
    }
}

/// The request target in origin form (RFC 9112, section 3.2.1). The result is always a path, so a guest cannot send a
/// URL to a proxy or server as target.
pub(super) fn origin_form(uri: &Uri) -> Result<Uri, http::Error> {
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let mut parts = http::uri::Parts::default();
    parts.path_and_query = Some(path.parse::<PathAndQuery>()?);
    Ok(Uri::from_parts(parts)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_has_one_form() {
        for (uri, form, header) in [
            ("http://Search.Example.com.:9200/x", "search.example.com:9200", "search.example.com:9200"),
            ("http://a.example/", "a.example:80", "a.example"),
            ("https://a.example:443/", "a.example:443", "a.example"),
            ("https://a.example:80/", "a.example:80", "a.example:80"),
            ("http://[::FFFF:127.0.0.1]/", "127.0.0.1:80", "127.0.0.1"),
            ("https://[::1]:9200/", "[::1]:9200", "[::1]:9200"),
        ] {
            let destination = Destination::of(&uri.parse().unwrap()).expect(uri);
            assert_eq!(
                (destination.to_string().as_str(), destination.host_header().as_str()),
                (form, header)
            );
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for uri in [
            "http://allowed@evil.example/",
            "http://allowed:80@evil.example/",
            "http://a.example:0/",
            "http://a.example:/",
            "http://a.example:99999/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://a_%2eexample/",
            "ftp://a.example/",
            "//a.example/",
            "/path",
        ] {
            let read = uri.parse::<Uri>().map_err(|_| "no URI").and_then(|uri| Destination::of(&uri));
            assert!(read.is_err(), "{uri}: {read:?}");
        }
    }

    #[test]
    fn the_target_is_a_path_whatever_was_given() {
        for (uri, target) in [
            ("http://a.example", "/"),
            ("http://a.example?x=1", "/?x=1"),
            ("http://a.example/http://b.example/?y", "/http://b.example/?y"),
            ("http://a.example//b.example/", "//b.example/"),
        ] {
            let target_of = origin_form(&uri.parse().unwrap()).unwrap();
            assert_eq!(target_of.path_and_query().map(PathAndQuery::as_str), Some(target));
            assert_eq!((target_of.scheme(), target_of.authority()), (None, None));
        }
    }
}
