//! [`Warnings`]: what a request is told beside its answer, in `Warning` headers.

use std::sync::Arc;

use http::HeaderValue;
use parking_lot::Mutex;

/// How many letters the warnings of one answer may have together, as by a real server: more do not fit in headers that
/// every client takes.
const MAX_TOTAL: usize = 4096;
/// How many letters one may have once all together have too many.
const MAX_ONE: usize = 256;

/// The warnings of a request, each once; added from wherever something is noticed. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    pub(crate) fn add(&self, warnings: impl IntoIterator<Item = String>) {
        let mut list = self.0.lock();
        for warning in warnings {
            // A verb that is tried again says the same again.
            if !list.contains(&warning) {
                list.push(warning);
            }
        }
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    /// The values of the headers: `299 - "unknown field \"spec.x\""`.
    pub(crate) fn headers(&self) -> Vec<HeaderValue> {
        let list = self.0.lock();
        let total: usize = list.iter().map(|warning| warning.chars().count()).sum();
        let longest = if total > MAX_TOTAL { MAX_ONE } else { usize::MAX };
        let mut left = MAX_TOTAL;
        let mut headers = Vec::new();
        for warning in &*list {
            let text: String =
                warning.chars().take(longest).map(|c| if c.is_control() { ' ' } else { c }).collect();
            let Some(rest) = left.checked_sub(text.chars().count()) else { break };
            left = rest;
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            headers.extend(HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()));
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_quoted_told_once_and_bounded() {
        let warnings = Warnings::default();
        warnings.add([
            "unknown field \"a\"".to_owned(),
            "line\nbreak".to_owned(),
            "unknown field \"a\"".to_owned(),
        ]);
        let headers = warnings.headers();
        assert_eq!(headers, [r#"299 - "unknown field \"a\"""#, r#"299 - "line break""#]);
        warnings.add((0..1000).map(|i| format!("{i}{}", "ä".repeat(1000))));
        let total: usize = warnings.headers().iter().map(HeaderValue::len).sum();
        assert!(total < 3 * MAX_TOTAL, "{total}");
    }
}
