//! [`Endpoint`]: where the search server is. Part of the settings.
//!
//! Invariant: it holds no credentials, so it may be shown in errors and logs.

use pilothouse_sdk::serde::Deserialize;

/// What is wanted of an answer: whether all went well, and why something did not. Without it each document is answered with half a
/// dozen fields that nobody reads.
const FIELDS: &str =
    "error.type,error.reason,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by";

/// The URL of a search server, perhaps below a path of a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Endpoint {
    /// Without a slash at its end.
    url: String,
    /// Name and port.
    authority: String,
}

impl Endpoint {
    /// Where documents go.
    pub(crate) fn bulk(&self) -> String {
        format!("{}/_bulk?filter_path={FIELDS}", self.url)
    }

    /// Name and port, as `outgoingHosts` of the manifest names them.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }
}

impl TryFrom<String> for Endpoint {
    type Error = String;

    fn try_from(url: String) -> Result<Self, String> {
        let (scheme, default_port, rest) = match url.split_once("://") {
            Some(("https", rest)) => ("https", 443, rest),
            Some(("http", rest)) => ("http", 80, rest),
            _ => return Err("write a URL, as https://search.example.com:9200".to_owned()),
        };
        let rest = rest.trim_end_matches('/');
        // Not shown, since it may hold a password.
        if rest.contains('@') {
            return Err("a URL with a user is not taken: write `username` and `password`, best in a file or Secret that \
                 `configFrom` of the manifest names"
                .to_owned());
        }
        if let Some(bad) = rest.chars().find(|c| "?#\\".contains(*c) || c.is_whitespace() || c.is_control()) {
            return Err(format!("`{}` has no place in it", bad.escape_default()));
        }
        let authority = rest.split('/').next().unwrap_or_default();
        let authority = match port(authority) {
            _ if authority.is_empty() || authority.starts_with(':') => Err("it names no host".to_owned()),
            Some(port) if port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(authority.to_owned()),
            Some(port) => Err(format!("`{port}` is no port")),
            None => Ok(format!("{authority}:{default_port}")),
        }?;
        Ok(Self { url: format!("{scheme}://{rest}"), authority })
    }
}

/// What stands behind the name; the colons of an IPv6 address stand in brackets.
fn port(authority: &str) -> Option<&str> {
    let behind = authority.rfind(']').unwrap_or_default();
    authority[behind..].rsplit_once(':').map(|(_, port)| port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str) -> Result<Endpoint, String> {
        Endpoint::try_from(url.to_owned())
    }

    #[test]
    fn documents_go_to_bulk_below_the_endpoint() {
        for (url, bulk, authority) in [
            ("http://127.0.0.1:9200", "http://127.0.0.1:9200/_bulk?", "127.0.0.1:9200"),
            ("https://a.example/", "https://a.example/_bulk?", "a.example:443"),
            ("http://a/search//", "http://a/search/_bulk?", "a:80"),
            ("https://[::1]:9200/x", "https://[::1]:9200/x/_bulk?", "[::1]:9200"),
            ("https://[::1]", "https://[::1]/_bulk?", "[::1]:443"),
        ] {
            let endpoint = endpoint(url).unwrap();
            assert!(endpoint.bulk().starts_with(bulk), "{}", endpoint.bulk());
            assert_eq!(endpoint.authority(), authority);
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for (url, reason) in [
            ("", "write a URL"),
            ("localhost:9200", "write a URL"),
            ("ftp://a", "write a URL"),
            ("http://", "names no host"),
            ("http://:9200", "names no host"),
            ("http://a:0", "`0` is no port"),
            ("http://a:port", "`port` is no port"),
            ("http://a:99999/b", "`99999` is no port"),
            ("http://a/?b=c", "`?` has no place"),
            ("http://a b", "` ` has no place"),
        ] {
            let error = endpoint(url).unwrap_err();
            assert!(error.contains(reason), "{url}: {error}");
        }
    }

    #[test]
    fn credentials_in_the_url_are_refused_and_not_repeated() {
        let error = endpoint("https://me:hunter2@search:9200").unwrap_err();
        assert!(error.contains("write `username` and `password`") && !error.contains("hunter2"), "{error}");
    }
}
