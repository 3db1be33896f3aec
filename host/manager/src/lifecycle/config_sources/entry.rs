//! From the content of a file, a Secret or a ConfigMap to keys of the configuration's top level. Errors name the key and, of a
//! document, line and column; a parser's own words may quote a value and are left out.

use std::collections::BTreeMap;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilothouse_plugin::Position;
use pilothouse_plugin::yaml::{options, position};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::MOST_BYTES;
use super::object::Kind;

/// Endings of the keys whose value is a document.
const DOCUMENTS: [&str; 3] = [".json", ".yaml", ".yml"];

/// What a Secret and a ConfigMap have in common.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    data: Option<BTreeMap<String, String>>,
    binary_data: Option<BTreeMap<String, IgnoredAny>>,
}

/// Reads one JSON or YAML object.
///
/// # Errors
/// Why it is none.
pub(super) fn document(content: &[u8]) -> Result<Map<String, Value>, String> {
    let content = std::str::from_utf8(content).map_err(|_| "it is not UTF-8 text".to_owned())?;
    let read =
        serde_saphyr::from_str_with_options(content, options()).map_err(|error| match position(&error) {
            Some(Position { line, column }) => {
                format!("it does not hold one JSON or YAML object (line {line}, column {column})")
            }
            None => "it does not hold one JSON or YAML object".to_owned(),
        });
    read.and_then(bounded)
}

/// Aliases and escapes make much of a short text; what nobody could use must not be kept.
fn bounded(read: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut room = Room(MOST_BYTES);
    match serde_json::to_writer(&mut room, &read) {
        Ok(()) => Ok(read),
        Err(_) => Err(format!("it has more than {MOST_BYTES} bytes as JSON")),
    }
}

/// Takes so many bytes and no more.
struct Room(usize);

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the JSON of a Secret or a ConfigMap: first the documents among its keys, in the order of the keys, then each other
/// key over them as a string.
///
/// # Errors
/// The key, if it is to blame, and why.
pub(super) fn keys(kind: Kind, json: &[u8]) -> Result<Map<String, Value>, String> {
    let data: Data =
        serde_json::from_slice(json).map_err(|_| "its data is not of the API's form".to_owned())?;
    if let Some(key) = data.binary_data.unwrap_or_default().keys().next() {
        return Err(format!("key {key:?}: it is binary, and a configuration is text"));
    }
    let (mut merged, mut strings) = (Map::new(), Map::new());
    for (key, text) in data.data.unwrap_or_default() {
        let of_key = |reason: String| format!("key {key:?}: {reason}");
        let text = match kind {
            Kind::ConfigMap => text,
            Kind::Secret => {
                let bytes = STANDARD.decode(&text).map_err(|_| of_key("it is not base64".to_owned()))?;
                String::from_utf8(bytes).map_err(|_| of_key("it is not UTF-8 text".to_owned()))?
            }
        };
        if DOCUMENTS.iter().any(|ending| key.ends_with(ending)) {
            merged.extend(document(text.as_bytes()).map_err(of_key)?);
        } else {
            strings.insert(key, Value::String(text));
        }
    }
    merged.extend(strings);
    bounded(merged)
}
