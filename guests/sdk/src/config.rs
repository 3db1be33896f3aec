//! [`Config`]: the configuration of the plugin's manifest, an argument of `describe` and `new`.

use serde::de::DeserializeOwned;

use crate::sys;

/// The configuration of the plugin's manifest, as JSON; `{}` if the manifest has none.
#[derive(Debug, Clone)]
pub struct Config(Vec<u8>);

impl Config {
    /// Reads the configuration from the host. Rarely needed, because `describe` and `new` have it as an argument.
    pub fn fetch() -> Self {
        Self(sys::config())
    }

    /// A configuration from its JSON text, for tests.
    pub fn from_json(json: impl Into<Vec<u8>>) -> Self {
        Self(json.into())
    }

    /// Parses the configuration into your own type.
    ///
    /// Give the type `#[serde(rename_all = "camelCase", deny_unknown_fields, default)]`: a misspelt field is then an
    /// error instead of being ignored.
    ///
    /// # Errors
    /// When the configuration does not have the form of `T`. The message names the field and the reason, for the
    /// operator.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, String> {
        let mut json = serde_json::Deserializer::from_slice(&self.0);
        serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let field = error.path().to_string();
            let reason = error.into_inner().to_string();
            // The position refers to JSON, but the operator wrote YAML.
            let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(reason, _)| reason);
            if field == "." {
                format!("the configuration cannot be read: {reason}")
            } else {
                format!("the configuration cannot be read: field `{field}`: {reason}")
            }
        })
    }

    /// The JSON text.
    pub fn as_json(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize, Default)]
    #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
    struct Settings {
        namespace: String,
        nested: Nested,
    }

    #[derive(Debug, PartialEq, Deserialize, Default)]
    #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
    struct Nested {
        max_size: u32,
    }

    fn error(json: &str) -> String {
        Config::from_json(json).parse::<Settings>().unwrap_err()
    }

    #[test]
    fn absent_fields_have_their_default() {
        let settings: Settings = Config::from_json(r#"{"nested": {"maxSize": 7}}"#).parse().unwrap();
        assert_eq!(settings, Settings { namespace: String::new(), nested: Nested { max_size: 7 } });
    }

    #[test]
    fn the_error_names_the_field() {
        let message = error(r#"{"nested": {"maxSize": "many"}}"#);
        assert!(message.contains("field `nested.maxSize`") && message.contains("expected u32"), "{message}");
        let message = error(r#"{"namespce": "a"}"#);
        assert_eq!(
            message,
            "the configuration cannot be read: field `namespce`: unknown field `namespce`, \
             expected `namespace` or `nested`"
        );
        assert!(error("[1").starts_with("the configuration cannot be read"));
    }
}
