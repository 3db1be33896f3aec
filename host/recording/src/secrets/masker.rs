//! [`Masker`]: puts tokens in place of secret values, in all strings of a recorded call.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::body::{Body, Leaf};
use super::dictionary::{Dictionary, LONGEST, SHORTEST};
use super::json_text::rewrite;
use super::token::Tokens;

/// Most values that are looked for.
const MAX_VALUES: usize = 4096;

/// Most bytes that they have together.
const MAX_BYTES: usize = 1 << 20;

/// There are more secret values than can be looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the plugins read more than {MAX_VALUES} secret values, or {MAX_BYTES} bytes of them, so that not all could be masked"
)]
pub(crate) struct TooManyValues;

/// Puts tokens in place of secret values.
pub(crate) struct Masker {
    /// None at replay: values have the tokens that they were paired with.
    tokens: Option<Tokens>,
    dictionary: Dictionary,
}

impl Masker {
    /// A masker of a recording, with a key of its own.
    pub(crate) fn with_key() -> Self {
        Self { tokens: Some(Tokens::new()), dictionary: Dictionary::default() }
    }

    /// A masker that knows pairs only.
    pub(crate) fn of_pairs() -> Self {
        Self { tokens: None, dictionary: Dictionary::default() }
    }

    fn token(&self, value: &[u8]) -> Option<String> {
        let known = self.dictionary.get(value).map(str::to_owned);
        known.or_else(|| self.tokens.as_ref().map(|tokens| tokens.token(value)))
    }

    fn add(&mut self, value: &[u8], token: String) -> Result<(), TooManyValues> {
        if self.dictionary.get(value).is_some() {
            return Ok(());
        }
        let (values, bytes) = self.dictionary.size();
        if values == MAX_VALUES || bytes + value.len() > MAX_BYTES {
            return Err(TooManyValues);
        }
        self.dictionary.add(value, token);
        Ok(())
    }

    /// A value is secret, wherever it comes from.
    pub(crate) fn learn(&mut self, value: &[u8]) -> Result<(), TooManyValues> {
        match &self.tokens {
            Some(tokens)
                if (SHORTEST..=LONGEST).contains(&value.len()) && self.dictionary.get(value).is_none() =>
            {
                let token = tokens.token(value);
                self.add(value, token)
            }
            _ => Ok(()),
        }
    }

    /// A value has this token. The first of two counts.
    pub(crate) fn pair(&mut self, value: &[u8], token: &[u8]) {
        if let Ok(token) = std::str::from_utf8(token)
            && value.len() == token.len()
        {
            // One more than fits is compared as it is.
            let _ = self.add(value, token.to_owned());
        }
    }

    /// Learns the secret values of the bodies in `value`.
    pub(crate) fn learn_from(&mut self, value: &Value) -> Result<(), TooManyValues> {
        let mut learned = Ok(());
        secrets_of(value, &mut |_, secret| learned = learned.and_then(|()| self.learn(&secret)));
        learned
    }

    /// Masks all strings of `value`.
    pub(crate) fn mask(&mut self, value: &mut Value) {
        self.dictionary.index();
        self.strings(value);
    }

    fn strings(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(by) = self.text(text) {
                    *text = by;
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.strings(value)),
            Value::Object(members) => self.members(members),
            _ => {}
        }
    }

    fn members(&self, members: &mut Map<String, Value>) {
        let body = Body::of(members).map(|body| self.body(&body));
        if let Some(by) = body {
            if let Some(by) = by {
                members.insert("json".to_owned(), by.into());
            }
            return;
        }
        for (name, value) in members {
            match value {
                Value::String(text) if name == "base64" => {
                    let bytes = STANDARD.decode(&*text).ok();
                    if let Some(by) = bytes.and_then(|bytes| self.dictionary.replace(&bytes)) {
                        *text = STANDARD.encode(by);
                    }
                }
                value => self.strings(value),
            }
        }
    }

    /// The text of a body, if it changes.
    fn body(&self, body: &Body<'_>) -> Option<String> {
        if self.dictionary.is_empty() && !(body.has_secrets() && self.tokens.is_some()) {
            return None;
        }
        let rewritten = rewrite(body.text, |path, text| match body.leaf(path, text) {
            Leaf::Secret(value, encoding) => self.token(&value).map(|token| encoding.write(&token)),
            Leaf::Nested => self.body(&Body::nested(text)),
            Leaf::Text => self.text(text),
        });
        rewritten.unwrap_or_else(|_| self.text(body.text))
    }

    fn text(&self, text: &str) -> Option<String> {
        let by = self.dictionary.replace(text.as_bytes())?;
        Some(
            String::from_utf8(by)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        )
    }
}

/// Calls `found` with each secret value of the bodies in `value`, and where it stands.
pub(crate) fn secrets_of(value: &Value, found: &mut dyn FnMut(String, Vec<u8>)) {
    match value {
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                secrets_of(value, &mut |path, secret| found(format!("{index}/{path}"), secret));
            }
        }
        Value::Object(members) => match Body::of(members) {
            Some(body) => body.secrets(found),
            None => {
                for (name, value) in members {
                    secrets_of(value, &mut |path, secret| found(format!("{name}/{path}"), secret));
                }
            }
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn masked(mut value: Value) -> (Masker, Value) {
        let mut masker = Masker::with_key();
        masker.learn_from(&value).unwrap();
        masker.mask(&mut value);
        (masker, value)
    }

    #[test]
    fn values_of_a_secret_become_tokens_wherever_they_are() {
        let data = STANDARD.encode("hunter22!");
        let applied =
            json!({"data": {"old": STANDARD.encode("former-one")}, "metadata": {"namespace": "ns"}});
        let secret = json!({"kind": "Secret", "metadata": {"name": "namespace-of", "namespace": "kube-system",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied.to_string()}},
            "data": {"a": data, "short": STANDARD.encode("abc"), "none": null, "empty": "", "ns": STANDARD.encode("kube-system")},
            "stringData": {"b": "hunter22!"}});
        let (_, value) = masked(json!({
            "imports": [{"json": secret.to_string(), "of": "Secret"}, ["it is hunter22!", format!("u:{data}")]],
            "base64": STANDARD.encode("\u{0}hunter22!"),
            "patch": {"json": json!([{"op": "add", "path": "/data/x", "value": STANDARD.encode("by-patch")},
                {"value": {"y": "unencoded"}, "op": "add", "path": "/stringData"}]).to_string(), "of": "Secret", "patch": "json"},
        }));
        let text = value.to_string();
        let secrets = ["hunter22!", "former-one", "abc", "by-patch", "unencoded"];
        for secret in secrets {
            assert!(!text.contains(secret) && !text.contains(&STANDARD.encode(secret)), "{secret}: {text}");
        }
        assert!(!text.contains(&STANDARD.encode("\u{0}hunter22!")), "{text}");
        let body: Value = serde_json::from_str(value["imports"][0]["json"].as_str().unwrap()).unwrap();
        let token = body["stringData"]["b"].as_str().unwrap();
        assert_eq!(body["data"]["a"], STANDARD.encode(token));
        assert_eq!(value["imports"][1][0], format!("it is {token}"));
        assert_eq!(body["data"]["ns"], STANDARD.encode("kube-system"), "the metadata shows it");
        assert_eq!(STANDARD.decode(body["data"]["short"].as_str().unwrap()).unwrap().len(), 3);
    }

    #[test]
    fn the_token_of_a_token_request_and_the_secret_members_of_a_configuration_are_masked() {
        let (_, value) = masked(json!({
            "answer": {"json": json!({"status": {"token": "ey.token"}, "spec": {"token": "public"}}).to_string(), "of": "TokenRequest"},
            "config": {"json": json!({"password": "in-config", "mode": "in-plain"}).to_string(), "of": "config", "keys": ["password"]},
            "log": "ey.token in-config in-plain",
        }));
        let text = value.to_string();
        assert!(!text.contains("ey.token") && !text.contains("in-config"), "{text}");
        assert!(text.contains("public") && text.contains("in-plain"), "{text}");
    }

    #[test]
    fn pairs_turn_the_values_of_a_replay_into_the_tokens_of_the_recording() {
        let mut masker = Masker::of_pairs();
        masker.pair(b"fresh-value", b"TOKEN-TOKEN");
        masker.pair(b"fresh-value", b"OTHER-OTHER");
        masker.pair(b"too long", b"T");
        let mut value = json!({"log": "got fresh-value", "body": {"of": "Secret", "json": json!({"stringData": {"a": "fresh-value", "b": "unknown"}}).to_string()}});
        masker.mask(&mut value);
        assert_eq!(value["log"], "got TOKEN-TOKEN");
        assert_eq!(
            value["body"]["json"],
            json!({"stringData": {"a": "TOKEN-TOKEN", "b": "unknown"}}).to_string()
        );
    }

    #[test]
    fn too_many_values_are_an_error() {
        let mut masker = Masker::with_key();
        for value in 0..MAX_VALUES {
            masker.learn(format!("value-{value:06}").as_bytes()).unwrap();
        }
        assert_eq!(masker.learn(b"value-000000"), Ok(()));
        assert_eq!(masker.learn(b"one more"), Err(TooManyValues));
    }
}
