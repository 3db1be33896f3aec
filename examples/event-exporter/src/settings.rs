//! [`Settings`]: the plugin's configuration, read and checked by `describe` and by each instance.
//!
//! Invariant: no secret is ever in an error or in a `Debug` text; errors go to the log of the host.

use std::fmt;

use pilothouse_sdk::duration;
use pilothouse_sdk::prelude::*;
use pilothouse_sdk::serde::de::{self, Deserializer, IgnoredAny};

use crate::endpoint::Endpoint;
use crate::index::IndexPattern;

/// Bounds of `batch.maxEvents`. More than some thousands make no batch cheaper.
const MAX_EVENTS: std::ops::RangeInclusive<u32> = 1..=10_000;
/// Bounds of `batch.maxBytes`. A batch is held in the guest's memory twice while it is sent.
const MAX_BYTES: std::ops::RangeInclusive<usize> = (16 << 10)..=(12 << 20);
/// Bounds of `batch.maxAge`.
const MAX_AGE: std::ops::RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(60);
/// Bounds of `timeout`. The host allows no call more than ten minutes.
const TIMEOUT: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(600);

/// The configuration.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Settings {
    /// The URL of the search server.
    pub(crate) endpoint: Endpoint,
    /// The names of indices.
    #[serde(default)]
    pub(crate) index: IndexPattern,
    /// Only Events of these namespaces; of all when empty.
    #[serde(default)]
    pub(crate) namespaces: Vec<String>,
    username: Option<Secret>,
    password: Option<Secret>,
    api_key: Option<Secret>,
    /// When Events are sent.
    #[serde(default)]
    pub(crate) batch: Batch,
    /// How long a request may take.
    #[serde(default = "default_timeout", deserialize_with = "read_duration")]
    pub(crate) timeout: Duration,
}

/// What makes a batch complete, whichever is first.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Batch {
    /// So many Events wait.
    pub(crate) max_events: u32,
    /// The body of a request would be larger. A larger batch goes in several requests.
    pub(crate) max_bytes: usize,
    /// The first Event has waited so long.
    #[serde(deserialize_with = "read_duration")]
    pub(crate) max_age: Duration,
}

impl Default for Batch {
    fn default() -> Self {
        Self { max_events: 500, max_bytes: 5 << 20, max_age: Duration::from_secs(1) }
    }
}

impl Settings {
    /// Reads and checks a configuration. The error is for the operator.
    pub(crate) fn read(config: &Config) -> Result<Self, String> {
        let settings: Self = config.parse()?;
        settings.check()?;
        Ok(settings)
    }

    /// A request with the credentials, if there are any.
    pub(crate) fn authorize(&self, request: http::Request) -> http::Request {
        match (&self.username, &self.password, &self.api_key) {
            (Some(username), Some(password), _) => request.basic_auth(&username.0, &password.0),
            (_, _, Some(key)) => request.header("Authorization", format!("ApiKey {}", key.0)),
            _ => request,
        }
    }

    fn check(&self) -> Result<(), String> {
        let refused = |field: &str, reason: &str| {
            Err(format!("the configuration cannot be read: field `{field}`: {reason}"))
        };
        match (&self.username, &self.password, &self.api_key) {
            (Some(_), None, _) => return refused("username", "there is no `password` to it"),
            (None, Some(_), _) => return refused("password", "there is no `username` to it"),
            (Some(_), _, Some(_)) => {
                return refused("apiKey", "there is a `username` too; only one of both can be sent");
            }
            _ => {}
        }
        if self.username.as_ref().is_some_and(|name| name.0.contains(':')) {
            return refused("username", "it must not have a colon, which ends the name in basic credentials");
        }
        for (field, secret) in
            [("username", &self.username), ("password", &self.password), ("apiKey", &self.api_key)]
        {
            match secret {
                Some(Secret(text)) if text.is_empty() => return refused(field, "it is empty"),
                // A file that ends in a line feed, mostly.
                Some(Secret(text)) if text.chars().any(char::is_control) => {
                    return refused(field, "it has a line feed or another control character");
                }
                _ => {}
            }
        }
        if self.api_key.as_ref().is_some_and(|key| !key.0.bytes().all(|byte| byte.is_ascii_graphic())) {
            return refused(
                "apiKey",
                "it must be the encoded key, in base64: `encoded` of the answer that made it",
            );
        }
        let Batch { max_events, max_bytes, max_age } = &self.batch;
        if !MAX_EVENTS.contains(max_events) {
            return refused("batch.maxEvents", &bounds(MAX_EVENTS.start(), MAX_EVENTS.end()));
        }
        if !MAX_BYTES.contains(max_bytes) {
            return refused("batch.maxBytes", &bounds(MAX_BYTES.start(), MAX_BYTES.end()));
        }
        for (field, value, allowed) in
            [("batch.maxAge", max_age, MAX_AGE), ("timeout", &self.timeout, TIMEOUT)]
        {
            if !allowed.contains(value) {
                let (least, most) = (duration::format(*allowed.start()), duration::format(*allowed.end()));
                return refused(field, &bounds(&least, &most));
            }
        }
        Ok(())
    }
}

fn bounds(least: &impl fmt::Display, most: &impl fmt::Display) -> String {
    format!("it must be {least} to {most}")
}

fn default_timeout() -> Duration {
    Duration::from_secs(10)
}

fn read_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    duration::parse(&String::deserialize(from)?).map_err(de::Error::custom)
}

/// Text that is never shown.
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Serde's own error for a password of digits that nobody has put into quotes would quote it.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Value {
            Text(String),
            Other(IgnoredAny),
        }
        match Value::deserialize(from)? {
            Value::Text(text) => Ok(Self(text)),
            Value::Other(_) => Err(de::Error::custom("it is no text; put it into quotes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut more: pilothouse_sdk::serde_json::Value) -> Result<Settings, String> {
        more["endpoint"] = json!("http://search:9200");
        Settings::read(&Config::from_json(more.to_string()))
    }

    #[test]
    fn only_the_endpoint_is_needed() {
        let settings = read(json!({})).unwrap();
        assert_eq!((settings.index, settings.timeout), (IndexPattern::default(), Duration::from_secs(10)));
        let Batch { max_events, max_bytes, max_age } = settings.batch;
        assert_eq!((max_events, max_bytes, max_age), (500, 5_242_880, Duration::from_secs(1)));
        let error = Settings::read(&Config::from_json("{}")).unwrap_err();
        assert!(error.contains("missing field `endpoint`"), "{error}");
    }

    #[test]
    fn all_fields_are_read() {
        let settings = read(json!({
            "index": "k8s-%Y", "namespaces": ["a"], "timeout": "1m30s",
            "batch": {"maxEvents": 7, "maxBytes": 65536, "maxAge": "250ms"},
        }))
        .unwrap();
        assert_eq!((settings.namespaces, settings.timeout), (vec!["a".to_owned()], Duration::from_secs(90)));
        let Batch { max_events, max_bytes, max_age } = settings.batch;
        assert_eq!((max_events, max_bytes, max_age), (7, 65_536, Duration::from_millis(250)));
    }

    #[test]
    fn what_is_unknown_or_out_of_bounds_is_named() {
        for (config, field, reason) in [
            (json!({"idnex": "a"}), "idnex", "unknown field"),
            (json!({"batch": {"size": 1}}), "batch.size", "unknown field"),
            (json!({"batch": {"maxEvents": 0}}), "batch.maxEvents", "1 to 10000"),
            (json!({"batch": {"maxBytes": 1}}), "batch.maxBytes", "16384 to 12582912"),
            (json!({"batch": {"maxAge": "2m"}}), "batch.maxAge", "0s to 1m"),
            (json!({"batch": {"maxAge": "soon"}}), "batch.maxAge", "`soon` is not a duration"),
            (json!({"timeout": "1ms"}), "timeout", "100ms to 10m"),
            (json!({"index": "A"}), "index", "`A` is not allowed"),
            (json!({"username": "a"}), "username", "no `password`"),
            (json!({"password": "a"}), "password", "no `username`"),
            (json!({"username": "a", "password": "b", "apiKey": "c"}), "apiKey", "only one"),
            (json!({"username": "a:b", "password": "b"}), "username", "colon"),
            (json!({"username": "a", "password": ""}), "password", "empty"),
            (json!({"apiKey": "id key"}), "apiKey", "base64"),
        ] {
            let error = read(config).unwrap_err();
            assert!(
                error.contains(&format!("field `{field}`")) && error.contains(reason),
                "{field}: {error}"
            );
        }
    }

    #[test]
    fn no_error_and_no_debug_text_shows_a_secret() {
        for config in [
            json!({"username": "a", "password": 12_345_678}),
            json!({"username": "a", "password": {"12345678": 1}}),
            json!({"username": "a", "password": ["12345678"]}),
            json!({"username": "a", "password": "12345678\n"}),
            json!({"apiKey": 12_345_678}),
            json!({"apiKey": "1234 12345678"}),
            json!({"apiKey": "12345678", "username": "a", "password": "12345678"}),
        ] {
            let error = read(config).unwrap_err();
            assert!(!error.contains("12345678"), "{error}");
        }
        let settings = read(json!({"username": "a", "password": "12345678"})).unwrap();
        assert!(!format!("{settings:?}").contains("12345678"));
    }
}
