//! The header `Link` (RFC 8288), which names the next page of a list. Called by `referrers.rs`.

use http::HeaderMap;
use http::header::LINK;

/// The target of the first link with the relation `next`; none if no link has it.
///
/// # Errors
/// The reason, if a value before it cannot be read: it may have been the link to the next page. It quotes nothing of the value.
pub(crate) fn next_of(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    for value in headers.get_all(LINK) {
        if let Some(target) = next_in(&String::from_utf8_lossy(value.as_bytes()))? {
            return Ok(Some(target));
        }
    }
    Ok(None)
}

/// The target of the first link of one value with the relation `next`.
fn next_in(value: &str) -> Result<Option<String>, &'static str> {
    let mut rest = value;
    loop {
        let link = rest.trim_start_matches([',', ' ', '\t']);
        if link.is_empty() {
            return Ok(None);
        }
        let link = link.strip_prefix('<').ok_or("a link does not begin with <")?;
        let (target, parameters) = link.split_once('>').ok_or("a link has no > at its end")?;
        let (parameters, others) = split(parameters, ',')?;
        let (between, mut parameters) = split(parameters, ';')?;
        if !between.trim().is_empty() {
            return Err("a link and its parameters have no semicolon between them");
        }
        while !parameters.is_empty() {
            let (parameter, others) = split(parameters, ';')?;
            if is_next(parameter) {
                return Ok(Some(target.to_owned()));
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
fn split(text: &str, separator: char) -> Result<(&str, &str), &'static str> {
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
    match end {
        None if is_quoted => Err("the quotes of a link have no end"),
        None => Ok((text, "")),
        Some(end) => Ok((&text[..end], &text[end + separator.len_utf8()..])),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn next(values: &[&str]) -> Result<Option<String>, &'static str> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(LINK, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        next_of(&headers)
    }

    #[test]
    fn the_next_page_is_found_among_links_as_servers_write_them() {
        for (values, wanted) in [
            (&[r#"</v2/a?last=b&n=1>; rel="next""#][..], Some("/v2/a?last=b&n=1")),
            (&["<https://r.example/a>;rel=next"], Some("https://r.example/a")),
            (&["<> ; rel=next"], Some("")),
            (&[r#"</a,b;c>; REL = "prev NEXT""#], Some("/a,b;c")),
            (&[r#"</1>; rel="first", </2>; title="a, \"<b>;"; rel="next", </3>; rel="next""#], Some("/2")),
            (&["</1>; rel=preload", "</2>; rel=next"], Some("/2")),
            (&["</1>; rel=next", "/2; rel=next"], Some("/1")),
            (&["</é>; rel=next"], Some("/é")),
            (&[r#"</1>; rel="prev""#], None),
            (&[r#"</1>; title="rel=next""#], None),
            (&["</1>; next", "</2>", "</3>;", ",", ""], None),
            (&[], None),
        ] {
            assert_eq!(next(values), Ok(wanted.map(str::to_owned)), "{values:?}");
        }
    }

    #[test]
    fn a_link_that_cannot_be_read_is_not_the_end_of_the_list() {
        for (values, words) in [
            (&["/1; rel=next"][..], "does not begin with <"),
            (&["/1; rel=next", "</2>; rel=next"], "does not begin with <"),
            (&["</1>; rel=prev, /2; rel=next"], "does not begin with <"),
            (&["</1; rel=next"], "no > at its end"),
            (&["</1> rel=next"], "no semicolon"),
            (&[r#"</1>; title="; rel=next"#], "quotes of a link have no end"),
            (&[r#"</1>; rel="next"#], "quotes of a link have no end"),
        ] {
            let error = next(values).unwrap_err();
            assert!(error.contains(words), "{values:?}: {error}");
        }
    }
}
