//! Splits a URL into the parts that `wasi:http` needs. The host validates the parts; this module only ensures that
//! characters of one part cannot become a part of another.

/// The parts of a URL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Url<'a> {
    pub(super) https: bool,
    pub(super) authority: &'a str,
    /// Path and query, starting with a slash.
    pub(super) target: String,
}

impl<'a> Url<'a> {
    pub(super) fn parse(url: &'a str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let https = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err("the URL does not begin with http:// or https://".to_owned()),
        };
        let rest = rest.split_once('#').map_or(rest, |(url, _fragment)| url);
        let (authority, target) = rest.split_at(rest.find(['/', '?', '\\']).unwrap_or(rest.len()));
        if authority.is_empty() {
            return Err("the URL names no host".to_owned());
        }
        if authority.contains('@') {
            return Err("the URL has user information; use basic_auth".to_owned());
        }
        if let Some(c) = target.chars().find(|c| !c.is_ascii_graphic() || *c == '\\') {
            return Err(format!("the URL has {c:?}, which must be percent-encoded"));
        }
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Self { https, authority, target: format!("{slash}{target}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_three_parts() {
        for (url, https, authority, target) in [
            ("http://a:9200/_bulk?x=1#part", false, "a:9200", "/_bulk?x=1"),
            ("HTTPS://[::1]:1", true, "[::1]:1", "/"),
            ("https://a?x", true, "a", "/?x"),
            ("http://a/http://b/", false, "a", "/http://b/"),
        ] {
            assert_eq!(Url::parse(url), Ok(Url { https, authority, target: target.to_owned() }));
        }
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for url in [
            "",
            "a:9200/x",
            "ftp://a/",
            "http://",
            "http:///x",
            "http://?x",
            "http://u:p@a/",
            "http://a/b c",
            "http://a/b\r\nHost: evil",
            "http://a/ü",
            "http://a\\@b/",
        ] {
            assert!(Url::parse(url).is_err(), "{url}");
        }
    }
}
