//! URLs that a response names in relation to its own (RFC 3986, section 5.2): places of uploads, redirects, and pages of lists.
//! Called by `registry.rs`, which checks what comes out.

use pilothouse_plugin::ComponentUrl;

/// The URL that a reference of a response of `base` means. An absolute one stays as it is, since storage signs its text.
pub(crate) fn resolved(base: &ComponentUrl, reference: &str) -> String {
    let scheme = if base.is_https() { "https" } else { "http" };
    if let Some((scheme, rest)) = split_scheme(reference) {
        return format!("{}:{rest}", scheme.to_ascii_lowercase());
    }
    if reference.starts_with("//") {
        return format!("{scheme}:{reference}");
    }
    let (text, origin) = (base.to_string(), format!("{scheme}://{}", base.authority()));
    let (base_path, base_query) = split_query(text.strip_prefix(&origin).unwrap_or_default());
    match split_query(reference) {
        ("", "") => format!("{origin}{base_path}{base_query}"),
        ("", query) => format!("{origin}{base_path}{query}"),
        (path, query) if path.starts_with('/') => format!("{origin}{}{query}", without_dots(path)),
        (path, query) => {
            let folder = base_path.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{origin}{}{query}", without_dots(&format!("{folder}/{path}")))
        }
    }
}

/// The scheme of a reference that has one, and what follows its colon.
fn split_scheme(reference: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = reference.split_once(':')?;
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    (scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(is_inner))
        .then_some((scheme, rest))
}

/// The path, and the query with its question mark.
fn split_query(text: &str) -> (&str, &str) {
    text.split_at(text.find('?').unwrap_or(text.len()))
}

/// An absolute path without the segments `.` and `..`.
fn without_dots(path: &str) -> String {
    let mut kept = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            _ => {
                kept.push(segment);
                continue;
            }
        }
        // Such a segment at the end names a folder.
        if segments.peek().is_none() {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_as_the_rfc_does() {
        // Section 5.4, without the parameters and fragments of its examples.
        let base = ComponentUrl::parse("http://a/b/c/d?q").unwrap();
        for (reference, wanted) in [
            ("g:h", "g:h"),
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g"),
            ("?y", "http://a/b/c/d?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("", "http://a/b/c/d?q"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("..g", "http://a/b/c/..g"),
            ("./g/.", "http://a/b/c/g/"),
            ("g/./h", "http://a/b/c/g/h"),
            ("g/../h", "http://a/b/c/h"),
            ("g?y/../x:z", "http://a/b/c/g?y/../x:z"),
            ("HTTPS://g/a/../b", "https://g/a/../b"),
            ("/g:1", "http://a/g:1"),
        ] {
            assert_eq!(resolved(&base, reference), wanted, "{reference:?}");
        }
        let base = ComponentUrl::parse("https://a:5000?q").unwrap();
        assert_eq!(resolved(&base, "g"), "https://a:5000/g");
        assert_eq!(resolved(&base, "?y"), "https://a:5000?y");
    }
}
