//! [`Proxy`]: through which proxy the server is reached, by `proxy-url` of the cluster, or by the environment as Go's
//! programs read it.
//!
//! Its user name and password are in no message and no debug print. `config` makes it, `dial` goes through it.

mod no_proxy;

use std::fmt;

use http::Uri;
use http::header::HeaderValue;
use hyper_util::client::proxy::matcher::Matcher;

use no_proxy::spares;

/// The port of a SOCKS proxy that names none (RFC 1928).
const SOCKS_PORT: u16 = 1080;

/// What proxies speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// `CONNECT`.
    Http,
    /// `CONNECT` under TLS.
    Https,
    /// SOCKS 5; the proxy resolves names.
    Socks5,
}

/// A proxy.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) protocol: Protocol,
    /// Without user name and password.
    pub(crate) address: Uri,
    /// `Proxy-Authorization`.
    pub(crate) basic: Option<HeaderValue>,
    /// User name and password for SOCKS.
    pub(crate) user: Option<(String, String)>,
    /// Who names it, for messages.
    pub(crate) origin: String,
}

/// What the environment says of proxies.
#[derive(Clone, Default)]
pub(crate) struct ProxyVariables {
    pub(crate) http: String,
    pub(crate) https: String,
    pub(crate) no: String,
}

impl ProxyVariables {
    pub(crate) fn of_process() -> Self {
        let first = |names: [&str; 2]| {
            names.into_iter().filter_map(|name| std::env::var(name).ok()).find(|v| !v.is_empty())
        };
        Self {
            http: first(["HTTP_PROXY", "http_proxy"]).unwrap_or_default(),
            https: first(["HTTPS_PROXY", "https_proxy"]).unwrap_or_default(),
            no: first(["NO_PROXY", "no_proxy"]).unwrap_or_default(),
        }
    }

    /// The proxy for a server, if any; the error says what is wrong with the variable.
    pub(crate) fn proxy(&self, server: &Uri) -> Result<Option<Proxy>, String> {
        let (name, url) = match server.scheme_str() {
            Some("https") => ("HTTPS_PROXY", &self.https),
            _ => ("HTTP_PROXY", &self.http),
        };
        if url.is_empty() || is_local(server) || spares(&self.no, server) {
            return Ok(None);
        }
        Proxy::parse(url, server, name).map(Some)
    }
}

impl Proxy {
    /// The proxy of a URL, for `server`; the error does not quote the URL.
    pub(crate) fn parse(url: &str, server: &Uri, origin: &str) -> Result<Self, String> {
        let error = |why: &str| {
            Err(format!(
                "{origin}: {why}; expected http://, https:// or socks5:// with [USER:PASSWORD@]HOST:PORT"
            ))
        };
        // The variables may leave the scheme out.
        let with_scheme = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let Ok(parsed) = with_scheme.parse::<Uri>() else { return error("not a URL") };
        let protocol = match parsed.scheme_str() {
            Some("http") => Protocol::Http,
            Some("https") => Protocol::Https,
            Some("socks5" | "socks5h") => Protocol::Socks5,
            _ => return error("another scheme"),
        };
        // It does without `NO_PROXY`, which it reads in another way than Go.
        let matcher = Matcher::builder().all(&with_scheme).build();
        let Some(found) = matcher.intercept(server) else { return error("not a URL of a proxy") };
        let mut address = found.uri().clone();
        if protocol == Protocol::Socks5 && address.port().is_none() {
            let authority = format!("{}:{SOCKS_PORT}", address.host().unwrap_or_default());
            let whole = Uri::builder().scheme("socks5").authority(authority).path_and_query("/").build();
            let Ok(whole) = whole else { return error("no host") };
            address = whole;
        }
        Ok(Self {
            protocol,
            address,
            basic: found.basic_auth().cloned(),
            user: found.raw_auth().map(|(user, password)| (user.to_owned(), password.to_owned())),
            origin: origin.to_owned(),
        })
    }
}

/// `proxy SCHEME://HOST:PORT (ORIGIN)`.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address.to_string();
        write!(f, "proxy {} ({})", address.trim_end_matches('/'), self.origin)
    }
}

/// Whether the server is this very machine. Go never goes through a proxy to it, unless the cluster names one.
pub(crate) fn is_local(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(variables: &ProxyVariables, server: &str) -> Option<String> {
        variables.proxy(&server.parse().unwrap()).unwrap().map(|proxy| proxy.to_string())
    }

    #[test]
    fn the_environment_counts_as_for_programs_of_go() {
        let variables = ProxyVariables {
            https: "http://me:s3cret@proxy:3128".to_owned(),
            http: "plain".to_owned(),
            no: "10.0.0.0/8, .corp, k8s.example:6443, other.example:1, [fd00::1]:6443,fd00::2, 192.168.1.1"
                .to_owned(),
        };
        let https = Some("proxy http://proxy:3128 (HTTPS_PROXY)".to_owned());
        for server in [
            "https://k8s",
            "https://k8s.example",
            "https://other.example:6443",
            "https://[fd00::1]",
            "https://192.168.1.2",
        ] {
            assert_eq!(chosen(&variables, server), https, "{server}");
        }
        for server in [
            "https://10.9.8.7:6443",
            "https://a.corp",
            "https://k8s.example:6443",
            "https://[fd00::1]:6443",
            "https://[fd00::2]:6443",
            "https://192.168.1.1",
            "https://localhost:6443",
            "https://127.0.0.1:6443",
            "https://[::1]:6443",
        ] {
            assert_eq!(chosen(&variables, server), None, "{server}");
        }
        assert_eq!(chosen(&variables, "http://k8s").as_deref(), Some("proxy http://plain (HTTP_PROXY)"));
        let all = ProxyVariables { no: "*".to_owned(), ..variables };
        assert_eq!(chosen(&all, "https://k8s"), None);
    }

    #[test]
    fn no_proxy_is_read_as_go_reads_it() {
        // An entry, servers it spares, servers it does not.
        let table: &[(&str, &[&str], &[&str])] = &[
            (
                "corp",
                &["corp", "a.corp", "a.b.corp", "CORP", "A.Corp", "corp:1"],
                &["xcorp", "corp.x", "k8s"],
            ),
            ("Corp", &["corp", "a.corp"], &["k8s"]),
            (".corp", &["a.corp", "a.b.corp"], &["corp", "xcorp"]),
            ("*.corp", &["a.corp", "a.b.corp"], &["corp", "xcorp"]),
            (".corp:6443", &["a.corp:6443"], &["a.corp", "corp:6443"]),
            ("*.corp:6443", &["a.corp:6443"], &["a.corp", "corp:6443"]),
            ("corp:443", &["corp", "corp:443", "a.corp"], &["corp:6443"]),
            (
                "10.0.0.0/8",
                &["10.1.2.3", "10.1.2.3:6443", "[::ffff:10.1.2.3]"],
                &["11.0.0.1", "[fd00::1]", "ten"],
            ),
            ("10.9.8.7/8", &["10.1.2.3"], &["11.0.0.1"]),
            ("0.0.0.0/0", &["10.1.2.3"], &["[fd00::1]", "k8s"]),
            ("10.0.0.0/33", &[], &["10.0.0.0", "10.1.2.3"]),
            ("10.0.0.0/08", &[], &["10.1.2.3"]),
            ("fd00::/8", &["[fd12::1]", "[fd12::1]:6443"], &["[fe00::1]", "10.0.0.1"]),
            ("10.0.0.1", &["10.0.0.1", "10.0.0.1:6443"], &["10.0.0.11", "110.0.0.1"]),
            ("10.0.0.1:6443", &["10.0.0.1:6443"], &["10.0.0.1"]),
            ("fd00::1", &["[fd00::1]", "[fd00:0::1]:6443"], &["[fd00::2]"]),
            ("[fd00::1]:6443", &["[fd00::1]:6443"], &["[fd00::1]"]),
            ("[fd00::1]", &[], &["[fd00::1]"]),
            ("*", &["k8s", "10.0.0.1", "[fd00::1]:1"], &[]),
            ("x, *", &["k8s", "10.0.0.1"], &[]),
            ("*corp", &[], &["corp", "a.corp", "xcorp"]),
            (" a , .b,,:1,c ", &["a", "x.b", "c"], &["b", "k8s"]),
            ("", &[], &["k8s"]),
        ];
        for (no, spared, others) in table {
            let variables =
                ProxyVariables { https: "proxy".to_owned(), no: (*no).to_owned(), ..Default::default() };
            for server in *spared {
                assert_eq!(chosen(&variables, &format!("https://{server}")), None, "{no}: {server}");
            }
            for server in *others {
                assert!(chosen(&variables, &format!("https://{server}")).is_some(), "{no}: {server}");
            }
        }
        let http = ProxyVariables { http: "proxy".to_owned(), no: "k8s:80".to_owned(), ..Default::default() };
        assert_eq!(chosen(&http, "http://k8s"), None);
        assert!(chosen(&http, "http://k8s:443").is_some());
    }

    #[test]
    fn urls_that_are_no_proxies_are_refused_without_being_quoted() {
        let server = "https://k8s".parse().unwrap();
        for url in [
            "ftp://me:s3cret@h",
            "http://me:s3cret@",
            "http://me:s3 cret@h",
            "socks4://me:s3cret@h",
            "http://",
        ] {
            let message = Proxy::parse(url, &server, "proxy-url").err().unwrap();
            assert!(message.contains("proxy-url") && message.contains("socks5://"), "{message}");
            assert!(!message.contains("s3cret") && !message.contains("s3 cret"), "{message}");
        }
        let proxy = Proxy::parse("socks5://me:s3%40cret@h", &server, "o").unwrap();
        assert_eq!(proxy.address, "socks5://h:1080/");
        assert_eq!(proxy.user, Some(("me".to_owned(), "s3@cret".to_owned())));
        assert!(!proxy.to_string().contains("cret"));
    }
}
