//! [`Writer`] and [`Fields`]: the JSON of the parts of a descriptor. Written by hand, since every component has this code,
//! and serde's is several times larger. Its functions are not inlined for the same reason: a descriptor is written once.
//!
//! Builders write their JSON when they are called and not at the end, so that a component has no code for builders that
//! it does not call.

/// One JSON object in the making.
pub(super) struct Writer {
    json: String,
    /// Names that are not written: another part of the document has them.
    skipped: Vec<String>,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self::without(Vec::new())
    }

    pub(super) fn without(skipped: Vec<String>) -> Self {
        Self { json: "{".to_owned(), skipped }
    }

    /// A field whose value is a JSON text.
    #[inline(never)]
    pub(super) fn raw(&mut self, name: &str, json: &str) {
        if self.skipped.iter().any(|skipped| skipped == name) {
            return;
        }
        if self.json.len() > 1 {
            self.json.push(',');
        }
        self.json.push_str(&quoted(name));
        self.json.push(':');
        self.json.push_str(json);
    }

    #[inline(never)]
    pub(super) fn text(&mut self, name: &str, text: &str) {
        self.raw(name, &quoted(text));
    }

    /// A flag, if it is set.
    #[inline(never)]
    pub(super) fn flag(&mut self, name: &str, flag: bool) {
        if flag {
            self.raw(name, "true");
        }
    }

    /// A list of JSON texts.
    #[inline(never)]
    pub(super) fn list(&mut self, name: &str, values: &[String]) {
        self.raw(name, &format!("[{}]", values.join(",")));
    }

    /// A list of texts.
    #[inline(never)]
    pub(super) fn texts(&mut self, name: &str, texts: &[String]) {
        let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
        self.list(name, &texts);
    }

    /// Writes all further fields.
    pub(super) fn skip_nothing(&mut self) {
        self.skipped.clear();
    }

    pub(super) fn end(mut self) -> String {
        self.json.push('}');
        self.json
    }
}

/// Fields that were set, each with its JSON text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Sets a field, or replaces it.
    #[inline(never)]
    pub(super) fn set(&mut self, name: &str, json: String) {
        self.remove(name);
        self.0.push((name.to_owned(), json));
    }

    pub(super) fn set_text(&mut self, name: &str, text: &str) {
        self.set(name, quoted(text));
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|(other, _)| other != name);
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }

    #[inline(never)]
    pub(super) fn write(&self, writer: &mut Writer) {
        for (name, json) in &self.0 {
            writer.raw(name, json);
        }
    }
}

/// A text as a JSON string, with its quotes.
#[inline(never)]
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_read_back() {
        let text: String = (0..0x80).filter_map(char::from_u32).chain("é\u{2028}😀".chars()).collect();
        let mut writer = Writer::without(vec!["skipped".to_owned()]);
        writer.text("a\"b", &text);
        writer.text("skipped", "x");
        writer.texts("c", &["d".to_owned(), "e".to_owned()]);
        let value: serde_json::Value = serde_json::from_str(&writer.end()).unwrap();
        assert_eq!(value, serde_json::json!({"a\"b": text, "c": ["d", "e"]}));
    }
}
