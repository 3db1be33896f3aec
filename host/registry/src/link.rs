//! The header `Link` (RFC 8288), which names the next page of a list. Called by `referrers.rs`.

use http::HeaderMap;
use http::header::LINK;

/// The target of the first link with the relation `next`. A value that cannot be read has none.
pub(crate) fn next_of(headers: &HeaderMap) -> Option<String> {
    headers.get_all(LINK).iter().find_map(|value| next_in(&String::from_utf8_lossy(value.as_bytes())))
}

/// The target of the first link of one value with the relation `next`.
fn next_in(value: &str) -> Option<String> {
    let mut rest = value;
    loop {
        let link = rest.trim_start_matches([',', ' ', '\t']).strip_prefix('<')?;
        let (target, parameters) = link.split_once('>')?;
        let (mut parameters, others) = split(parameters, ',');
        while !parameters.is_empty() {
            let (parameter, others) = split(parameters, ';');
            if is_next(parameter) {
                return Some(target.to_owned());
            }
            parameters = others;
        }
        rest = others;
    }
}

/// Whether a parameter of a link is a relation, or a list of relations, with `next`.
fn is_next(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else { return false };
    let mut relations = value.trim().trim_matches('"').split_ascii_whitespace();
    name.trim().eq_ignore_ascii_case("rel") && relations.any(|relation| relation.eq_ignore_ascii_case("next"))
}

/// The text before the first separator outside of quotes, and the text after it.
fn split(text: &str, separator: char) -> (&str, &str) {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let end = text.find(|character: char| {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            _ => {}
        }
        character == separator && !is_quoted
    });
    end.map_or((text, ""), |end| (&text[..end], &text[end + separator.len_utf8()..]))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_next_page_is_found_among_links_as_servers_write_them() {
        for (values, wanted) in [
            (&[r#"</v2/a?last=b&n=1>; rel="next""#][..], Some("/v2/a?last=b&n=1")),
            (&["<https://r.example/a>;rel=next"], Some("https://r.example/a")),
            (&[r#"</a,b;c>; REL = "prev NEXT""#], Some("/a,b;c")),
            (&[r#"</1>; rel="first", </2>; title="a, \"<b>;"; rel="next", </3>; rel="next""#], Some("/2")),
            (&["</1>; rel=preload", "</2>; rel=next"], Some("/2")),
            (&["/1; rel=next", "</2>; rel=next"], Some("/2")),
            (&["</é>; rel=next"], Some("/é")),
            (&[r#"</1>; rel="prev""#], None),
            (&[r#"</1>; title="rel=next""#], None),
            (&[r#"</1>; title="; rel=next"#], None),
            (&["</1>; next", "</2>", "</3", ",", ""], None),
            (&[], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(LINK, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            assert_eq!(next_of(&headers).as_deref(), wanted, "{values:?}");
        }
    }
}
