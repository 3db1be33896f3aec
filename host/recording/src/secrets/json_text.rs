//! [`rewrite`]: changes strings of a JSON text and leaves all else as it is, byte by byte.

use std::borrow::Cow;

/// Deeper texts are not read.
const MAX_DEPTH: usize = 256;

enum Level<'a> {
    Object { key: Cow<'a, str>, expects_key: bool },
    Array { index: usize },
}

/// Where a string of a JSON text is.
pub(super) struct StringPath<'a> {
    levels: &'a [Level<'a>],
    /// It is the name of a member.
    pub(super) is_name: bool,
}

impl StringPath<'_> {
    /// The names of members and the indices that lead to it. Made when it is asked for: most strings need none.
    pub(super) fn parts(&self) -> Vec<Cow<'_, str>> {
        let levels = &self.levels[..self.levels.len() - usize::from(self.is_name)];
        let parts = levels.iter().map(|level| match level {
            Level::Object { key, .. } => Cow::Borrowed(&**key),
            Level::Array { index } => Cow::Owned(index.to_string()),
        });
        parts.collect()
    }
}

/// Calls `change` with each string (where it is, and its text) and puts in what it returns. The text as it is now if anything
/// changed; an error where it is no JSON as far as it was read.
pub(super) fn rewrite(
    text: &str,
    mut change: impl FnMut(&StringPath<'_>, &str) -> Option<String>,
) -> Result<Option<String>, NoJson> {
    let bytes = text.as_bytes();
    let mut levels: Vec<Level<'_>> = Vec::new();
    let mut out: Option<String> = None;
    let (mut at, mut copied) = (0, 0);
    let mut is_anything = false;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'{' => levels.push(Level::Object { key: Cow::default(), expects_key: true }),
            b'[' => levels.push(Level::Array { index: 0 }),
            b'}' | b']' => drop(levels.pop().ok_or(NoJson)?),
            b',' => match levels.last_mut().ok_or(NoJson)? {
                Level::Object { expects_key, .. } => *expects_key = true,
                Level::Array { index } => *index += 1,
            },
            b'"' => {
                let end = string_end(bytes, at).ok_or(NoJson)?;
                let mut string = Cow::Borrowed(&text[at + 1..end - 1]);
                if string.contains('\\') {
                    string = Cow::Owned(serde_json::from_str(&text[at..end]).map_err(|_| NoJson)?);
                }
                let mut is_name = false;
                if let Some(Level::Object { key, expects_key }) = levels.last_mut()
                    && std::mem::take(expects_key)
                {
                    is_name = true;
                    key.clone_from(&string);
                }
                if let Some(by) = change(&StringPath { levels: &levels, is_name }, &string) {
                    let out = out.get_or_insert_default();
                    out.push_str(&text[copied..at]);
                    out.push_str(&serde_json::Value::from(by).to_string());
                    copied = end;
                }
                is_anything = true;
                at = end;
                continue;
            }
            _ => {}
        }
        if levels.len() > MAX_DEPTH {
            return Err(NoJson);
        }
        is_anything |= !byte.is_ascii_whitespace();
        at += 1;
    }
    if !levels.is_empty() || !is_anything {
        return Err(NoJson);
    }
    Ok(out.map(|mut out| {
        out.push_str(&text[copied..]);
        out
    }))
}

/// The text is no JSON.
#[derive(Debug)]
pub(super) struct NoJson;

/// Where the string that begins at `start` ends.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_have_their_paths_and_only_those_that_change_are_written_anew() {
        let text = " {\"a\" : [1.0, \"x\\u0041\", {\"b\":\"y\"}],\n\"c\":{\"d\\\"\":\"z\"} } ";
        let mut seen = Vec::new();
        let none = rewrite(text, |path, string| {
            seen.push(format!("{}{}={string}", path.parts().join("/"), if path.is_name { "?" } else { "" }));
            None
        });
        assert!(none.unwrap().is_none());
        assert_eq!(seen, ["?=a", "a/1=xA", "a/2?=b", "a/2/b=y", "?=c", "c?=d\"", "c/d\"=z"]);
        let changed = rewrite(text, |path, _| (path.parts() == ["a", "2", "b"]).then(|| "n\n".to_owned()));
        assert_eq!(changed.unwrap().unwrap(), text.replace("\"y\"", "\"n\\n\""));
    }

    #[test]
    fn what_is_no_json_is_said() {
        for text in ["", "{\"a\":\"b", "]", "{", "\"\\u12\"", &"[".repeat(300)] {
            assert!(rewrite(text, |_, _| None).is_err(), "{text}");
        }
    }
}
