//! The files of the web page. They have no data: their script asks for it, with a token where one is needed, so that they are
//! the same for everybody. The browser takes scripts, styles and data from this address alone, and no text for markup.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

use super::endpoints::typed;

/// What the page may load, do and be shown in. Trusted Types: no text becomes markup, whatever the script is made to do.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// The file of a path, if there is one.
pub(super) fn file(path: &str) -> Option<Response<Full<Bytes>>> {
    let (content_type, body) = match path {
        "/" => ("text/html; charset=utf-8", include_str!("web_page/page.html")),
        "/page.css" => ("text/css; charset=utf-8", include_str!("web_page/page.css")),
        "/page.js" => ("text/javascript; charset=utf-8", include_str!("web_page/page.js")),
        _ => return None,
    };
    let mut response = typed(StatusCode::OK, content_type, Bytes::from_static(body.as_bytes()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // A newer host has another page at the same address.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_names_nothing_that_is_not_here() {
        let files = ["page.html", "page.css", "page.js"].map(|name| {
            let path = if name == "page.html" { "/".to_owned() } else { format!("/{name}") };
            assert!(file(&path).is_some(), "{path}");
            std::fs::read_to_string(format!(
                "{}/src/observe/admin/web_page/{name}",
                env!("CARGO_MANIFEST_DIR")
            ))
            .unwrap()
        });
        assert!(files.iter().map(String::len).sum::<usize>() < 40 << 10);
        for text in &files {
            for word in
                ["http://", "https://", "innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("]
            {
                assert!(!text.contains(word), "{word}");
            }
        }
        // A stopped process answers no request: each request needs a time limit, or the page goes on showing old data as new.
        assert_eq!(files[2].matches("fetch(").count(), 1, "requests are made in one place");
        assert!(files[2].contains("signal: AbortSignal.timeout(LONGEST_WAIT)"), "and each has an end");
        // What a policy without 'unsafe-inline' leaves out without a word.
        for inline in ["<style", " style=", " onclick=", "<script>"] {
            assert!(!files[0].contains(inline), "{inline}");
        }
    }
}
