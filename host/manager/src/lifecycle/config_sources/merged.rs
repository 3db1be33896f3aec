//! [`MergedConfig`]: a configuration as the guest gets it. It is never logged: values of `spec.configFrom` are secret.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Holds, MOST_BYTES, Unusable};

/// Values shorter than this are words and numbers that stand in texts anyway.
const SHORTEST_HIDDEN: usize = 4;

/// Replaces a hidden value.
const HIDDEN: &str = "[hidden]";

/// A configuration as the guest gets it; a cheap clone. Two are equal when the guest would see the same.
#[derive(Clone)]
pub(crate) struct MergedConfig {
    json: Arc<[u8]>,
    /// The values that are not from the manifest.
    from: Arc<[Holds]>,
    /// The members that are from Secrets or files, at the top level.
    secret: Arc<[String]>,
}

impl MergedConfig {
    /// The manifest's own, and over it, key by key at the top level, what the entries hold, in their order: each with whether it
    /// is a ConfigMap, whose values are no secrets to a recording.
    pub(super) fn new(own: &Map<String, Value>, from: Vec<(Holds, bool)>) -> Result<Self, Unusable> {
        let mut all = own.clone();
        let mut secret = BTreeSet::new();
        for (holds, is_open) in &from {
            for key in holds.keys() {
                if *is_open {
                    secret.remove(key);
                } else {
                    secret.insert(key.clone());
                }
            }
            all.extend(holds.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        let json = Value::Object(all).to_string().into_bytes();
        if json.len() > MOST_BYTES {
            let message = format!(
                "spec.configFrom: the merged configuration has {} bytes, the maximum is {MOST_BYTES}; remove fields that the plugin does not need",
                json.len()
            );
            return Err(Unusable { message, waits: false });
        }
        let from = from.into_iter().map(|(holds, _)| holds).collect();
        Ok(Self { json: json.into(), from, secret: secret.into_iter().collect() })
    }

    /// A configuration without fields.
    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        Self { json: Arc::from(&b"{}"[..]), from: Arc::default(), secret: Arc::default() }
    }

    /// JSON for the guest. May be secret: never to be logged.
    pub(crate) fn json(&self) -> &Arc<[u8]> {
        &self.json
    }

    /// The members that are from Secrets or files.
    pub(crate) fn secret_members(&self) -> Arc<[String]> {
        Arc::clone(&self.secret)
    }

    /// A text about this configuration that may quote it, such as a guest's, without the values of `spec.configFrom`: as they
    /// are, and as they look between quotes. Short ones stay; they would be found everywhere.
    pub(crate) fn hide(&self, mut text: String) -> String {
        let mut hidden = Vec::new();
        self.from.iter().flat_map(|holds| holds.values()).for_each(|value| scalars(value, &mut hidden));
        // The longest first: one may be a part of another.
        hidden.sort_by_key(|value| std::cmp::Reverse(value.len()));
        for value in hidden {
            if text.contains(&value) {
                text = text.replace(&value, HIDDEN);
            }
        }
        text
    }
}

/// Collects the texts by which the scalars of a value may be quoted.
fn scalars(value: &Value, found: &mut Vec<String>) {
    let mut add = |text: &str| {
        if text.len() >= SHORTEST_HIDDEN {
            found.push(text.to_owned());
        }
    };
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => add(&number.to_string()),
        Value::String(text) => {
            add(text.trim());
            let quoted = format!("{text:?}");
            let quoted = &quoted[1..quoted.len() - 1];
            if quoted != text {
                add(quoted);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| scalars(value, found)),
        Value::Object(values) => values.values().for_each(|value| scalars(value, found)),
    }
}

impl PartialEq for MergedConfig {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

impl fmt::Debug for MergedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MergedConfig").field("bytes", &self.json.len()).finish_non_exhaustive()
    }
}
