//! [`ComponentUrl`]: where a Plugin of the cluster says that its component is; [`ComponentHosts`]: the hosts from which the
//! operator of a host lets it be fetched.
//!
//! Invariant: the default allows nothing. A Plugin is written by a tenant and fetched by the host, which reaches addresses
//! that the tenant may not.

use std::fmt;

use crate::outgoing_hosts::{Host, OutgoingHost, OutgoingHostError, OutgoingHosts, split_port};

/// Maximum length in bytes of a URL that a manifest names.
const MAX_URL: usize = 2048;
/// Maximum length in bytes of a URL that a server leads to. Storage signs them with tokens of some kilobytes.
const MAX_LOCATION: usize = 8 << 10;

/// An absolute URL with the scheme `https` or `http`, without user information and fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentUrl {
    text: String,
    scheme: Scheme,
    host: Host,
    port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Https,
    Http,
}

/// Splits the scheme off.
fn split_scheme(text: &str) -> Option<(Scheme, &str)> {
    let https = text.strip_prefix("https://").map(|rest| (Scheme::Https, rest));
    https.or_else(|| text.strip_prefix("http://").map(|rest| (Scheme::Http, rest)))
}

impl ComponentUrl {
    /// Parses a URL of a manifest.
    ///
    /// # Errors
    /// The reason.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_URL {
            return Err("it is longer than 2,048 bytes");
        }
        Self::parse_location(text)
    }

    /// Parses a URL that a server leads to.
    ///
    /// # Errors
    /// The reason.
    pub fn parse_location(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_LOCATION {
            return Err("it is longer than 8,192 bytes");
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("it has a character that is to be escaped");
        }
        let (scheme, rest) = split_scheme(text).ok_or("it does not begin with https://")?;
        if rest.contains('#') {
            return Err("it has a fragment");
        }
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err("it has user information");
        }
        let (host, port) = split_port(authority)?;
        let port = port.unwrap_or(match scheme {
            Scheme::Https => 443,
            Scheme::Http => 80,
        });
        Ok(Self { text: text.to_owned(), scheme, host: Host::parse(host)?, port })
    }

    /// Host and port, as the URL has them.
    #[must_use]
    pub fn authority(&self) -> &str {
        let rest = split_scheme(&self.text).map_or("", |(_, rest)| rest);
        rest.split(['/', '?']).next().unwrap_or_default()
    }

    /// Whether what is sent there is encrypted.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// Whether both URLs have the same scheme, host and port.
    #[must_use]
    pub fn has_origin_of(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port) == (other.scheme, &other.host, other.port)
    }
}

impl fmt::Display for ComponentUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// One entry of the list of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentHost(Scheme, OutgoingHost);

impl ComponentHost {
    /// Parses `HOST[:PORT]`, for HTTPS, or `http://HOST[:PORT]`, for plain HTTP; the host as in `spec.outgoingHosts`.
    ///
    /// # Errors
    /// Reason and remedy.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, host) = split_scheme(text).unwrap_or((Scheme::Https, text));
        let host = host
            .parse::<OutgoingHost>()
            .map_err(|error| format!("{error}; {}", OutgoingHostError::REMEDY))?;
        Ok(Self(scheme, host))
    }
}

/// The hosts from which components may be fetched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComponentHosts {
    https: OutgoingHosts,
    http: OutgoingHosts,
}

impl FromIterator<ComponentHost> for ComponentHosts {
    fn from_iter<T: IntoIterator<Item = ComponentHost>>(entries: T) -> Self {
        let (https, http): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|ComponentHost(scheme, _)| *scheme == Scheme::Https);
        let hosts =
            |entries: Vec<ComponentHost>| entries.into_iter().map(|ComponentHost(_, host)| host).collect();
        Self { https: hosts(https), http: hosts(http) }
    }
}

impl ComponentHosts {
    /// The entries that hold for a URL: those of its scheme, if one of them permits its host and port. The resolved address
    /// needs a check of its own ([`OutgoingHosts::permits_address`]).
    #[must_use]
    pub fn of(&self, url: &ComponentUrl) -> Option<&OutgoingHosts> {
        let hosts = match url.scheme {
            Scheme::Https => &self.https,
            Scheme::Http => &self.http,
        };
        hosts.permits(&url.host, url.port).then_some(hosts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(entries: &[&str], url: &str) -> bool {
        let hosts: ComponentHosts =
            entries.iter().map(|entry| ComponentHost::parse(entry).unwrap()).collect();
        hosts.of(&ComponentUrl::parse(url).unwrap()).is_some()
    }

    #[test]
    fn a_url_is_allowed_by_an_entry_of_its_scheme_host_and_port() {
        let entries = ["files.example.com", "https://mirror.example.com:8443", "http://127.0.0.1:8080"];
        for (url, wanted) in [
            ("https://files.example.com/a.wasm", true),
            ("https://Files.Example.com.:443/a.wasm?x=/@", true),
            ("http://files.example.com/a.wasm", false),
            ("https://files.example.com:8443/a.wasm", false),
            ("https://mirror.example.com:8443/a.wasm", true),
            ("https://mirror.example.com/a.wasm", false),
            ("http://127.0.0.1:8080/a.wasm", true),
            ("https://127.0.0.1:8080/a.wasm", false),
            ("https://evil.example/files.example.com", false),
        ] {
            assert_eq!(allowed(&entries, url), wanted, "{url}");
            assert!(!allowed(&[], url), "{url}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_no_url() {
        for url in [
            "ftp://files.example.com/a.wasm",
            "files.example.com/a.wasm",
            "https://user@files.example.com/a.wasm",
            "https://files.example.com:80@evil.example/",
            "https://files.example.com/#a",
            "https://files.example.com/a b",
            "https://files.example.com/ä",
            "https://127.1/a.wasm",
            "https://0x7f.1/a.wasm",
            "https:///a.wasm",
            "https://files.example.com:0/",
        ] {
            assert!(ComponentUrl::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_url_that_a_server_leads_to_may_be_longer() {
        let url = |path| format!("https://a.example/{}", "a".repeat(path));
        assert!(ComponentUrl::parse(&url(MAX_URL)).is_err());
        assert!(ComponentUrl::parse_location(&url(MAX_URL)).is_ok());
        assert!(ComponentUrl::parse_location(&url(MAX_LOCATION)).is_err());
    }

    #[test]
    fn an_entry_is_a_host_and_not_a_url() {
        for entry in ["", "https://files.example.com/a", "*", "*.com", "ftp://a.example"] {
            let error = ComponentHost::parse(entry).unwrap_err();
            assert!(error.contains("write host:port"), "{entry}: {error}");
        }
    }
}
