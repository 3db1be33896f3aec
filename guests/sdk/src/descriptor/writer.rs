//! [`Writer`]: the JSON of the parts of a descriptor. Written by hand, since every component has this code, and serde's is
//! several times larger. Its functions are not inlined for the same reason: a descriptor is written once.

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
        string(&mut self.json, name);
        self.json.push(':');
        self.json.push_str(json);
    }

    #[inline(never)]
    pub(super) fn text(&mut self, name: &str, text: &str) {
        let mut json = String::new();
        string(&mut json, text);
        self.raw(name, &json);
    }

    /// A text, if there is one.
    #[inline(never)]
    pub(super) fn optional(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    #[inline(never)]
    pub(super) fn number(&mut self, name: &str, number: Option<u32>) {
        if let Some(number) = number {
            self.raw(name, &number.to_string());
        }
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
        let text = |text: &String| {
            let mut json = String::new();
            string(&mut json, text);
            json
        };
        self.list(name, &texts.iter().map(text).collect::<Vec<_>>());
    }

    pub(super) fn end(mut self) -> String {
        self.json.push('}');
        self.json
    }
}

/// Writes a string with its quotes.
fn string(json: &mut String, text: &str) {
    json.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                json.push('\\');
                json.push(letter);
            }
            '\u{0}'..='\u{1f}' => {
                let digit = |value: u32| char::from_digit(value, 16).unwrap_or('0');
                json.push_str("\\u00");
                json.push(digit(letter as u32 >> 4));
                json.push(digit(letter as u32 & 15));
            }
            letter => json.push(letter),
        }
    }
    json.push('"');
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
