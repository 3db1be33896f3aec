//! [`Body`]: a text of JSON in a recording, and which of its strings are secret.
//!
//! A body is a JSON object with the member `json`: the text as it was. `of` says what it is: a `Secret`, a `TokenRequest`, the
//! `config`; `patch` is `json` for a JSON patch; `keys` are the members of a configuration that are from Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::json_text::{StringPath, rewrite};

const LAST_APPLIED: [&str; 3] =
    ["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"];

/// Which strings of a body are secret.
pub(super) struct Body<'a> {
    pub(super) text: &'a str,
    of: Of,
    /// The object's own names, which are no secrets: its metadata shows them.
    names: Vec<String>,
}

enum Of {
    Secret,
    TokenRequest,
    /// A JSON patch of a Secret: where each operation writes.
    Patch(Vec<Vec<String>>),
    Config(Vec<String>),
    Other,
}

/// What a string of a body is.
pub(super) enum Leaf {
    /// A secret value.
    Secret(Vec<u8>, Encoding),
    /// A Secret as JSON.
    Nested,
    /// Text.
    Text,
}

/// How a secret value is written.
#[derive(Clone, Copy)]
pub(super) enum Encoding {
    Plain,
    Base64,
}

impl Encoding {
    pub(super) fn write(self, token: &str) -> String {
        match self {
            Self::Plain => token.to_owned(),
            Self::Base64 => STANDARD.encode(token),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    metadata: Metadata,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
}

#[derive(Deserialize)]
struct Operation {
    #[serde(default)]
    path: String,
}

impl<'a> Body<'a> {
    /// The body that a member of a recording is, if it is one.
    pub(super) fn of(value: &'a Map<String, Value>) -> Option<Self> {
        let text = value.get("json")?.as_str()?;
        let of = match (value.get("of").and_then(Value::as_str), value.get("patch").and_then(Value::as_str)) {
            (Some("Secret"), Some("json")) => {
                let operations: Vec<Operation> = serde_json::from_str(text).unwrap_or_default();
                let path = |op: Operation| {
                    op.path
                        .split('/')
                        .skip(1)
                        .map(|part| part.replace("~1", "/").replace("~0", "~"))
                        .collect()
                };
                Of::Patch(operations.into_iter().map(path).collect())
            }
            (Some("Secret"), _) => Of::Secret,
            (Some("TokenRequest"), _) => Of::TokenRequest,
            (Some("config"), _) => {
                let keys = value.get("keys").and_then(Value::as_array).into_iter().flatten();
                Of::Config(keys.filter_map(Value::as_str).map(str::to_owned).collect())
            }
            _ => Of::Other,
        };
        Some(Self { text, names: names(text, &of), of })
    }

    /// The Secret in an annotation of one.
    pub(super) fn nested(text: &'a str) -> Self {
        Self { text, names: names(text, &Of::Secret), of: Of::Secret }
    }

    /// Whether any of its strings may be secret by its place.
    pub(super) fn has_secrets(&self) -> bool {
        !matches!(self.of, Of::Other)
    }

    /// What a string is. No name is a secret.
    pub(super) fn leaf(&self, path: &StringPath<'_>, text: &str) -> Leaf {
        if path.is_name || !self.has_secrets() {
            return Leaf::Text;
        }
        let path = path.parts();
        let path: &[&str] = &path.iter().map(|part| &**part).collect::<Vec<_>>();
        let is_own_name = |value: &[u8]| self.names.iter().any(|name| name.as_bytes() == value);
        let secret = |value: Vec<u8>, encoding| {
            if value.is_empty() || is_own_name(&value) { Leaf::Text } else { Leaf::Secret(value, encoding) }
        };
        let of_secret = |path: &[&str]| match path {
            ["data", _] => match STANDARD.decode(text) {
                Ok(value) => secret(value, Encoding::Base64),
                Err(_) => secret(text.into(), Encoding::Plain),
            },
            ["stringData", _] => secret(text.into(), Encoding::Plain),
            path if path == LAST_APPLIED => Leaf::Nested,
            _ => Leaf::Text,
        };
        match &self.of {
            Of::Secret => of_secret(path),
            Of::TokenRequest if path == ["status", "token"] => secret(text.into(), Encoding::Plain),
            Of::Patch(places) => {
                let [index, "value", rest @ ..] = path else { return Leaf::Text };
                let place = index.parse().ok().and_then(|index: usize| places.get(index));
                let Some(place) = place else { return Leaf::Text };
                let whole: Vec<&str> = place.iter().map(String::as_str).chain(rest.iter().copied()).collect();
                of_secret(&whole)
            }
            Of::Config(keys) if path.first().is_some_and(|first| keys.iter().any(|key| key == first)) => {
                secret(text.into(), Encoding::Plain)
            }
            _ => Leaf::Text,
        }
    }

    /// Calls `found` with each secret value and its path.
    pub(super) fn secrets(&self, found: &mut dyn FnMut(String, Vec<u8>)) {
        if !self.has_secrets() {
            return;
        }
        // What is no JSON has no places.
        let _ = rewrite(self.text, |path, text| {
            match self.leaf(path, text) {
                Leaf::Secret(value, _) => found(path.parts().join("/"), value),
                Leaf::Nested => Body::nested(text).secrets(&mut |below, value| {
                    found(format!("{}/{below}", path.parts().join("/")), value);
                }),
                Leaf::Text => {}
            }
            None
        });
    }
}

fn names(text: &str, of: &Of) -> Vec<String> {
    if !matches!(of, Of::Secret) {
        return Vec::new();
    }
    let named: Named = serde_json::from_str(text).unwrap_or_default();
    named.metadata.name.into_iter().chain(named.metadata.namespace).collect()
}
