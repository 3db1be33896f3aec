//! Objects whose body follows from their key and version, so that whoever sees one can tell whether it is whole, and
//! which of its kind it is: a body of another version, as from a stale copy, is found out.

use pilothouse_object::Object;
use serde_json::{Value, json};

/// After so many versions objects are made of other words, so that a dictionary does not fit for ever.
const EPOCH: u64 = 1500;
const WORDS: u64 = 40;

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (number ^ (number >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn seed(key: &str, version: u64) -> u64 {
    key.bytes().fold(version, |hash, byte| mixed(hash ^ u64::from(byte)))
}

fn stamp(key: &str, version: u64) -> String {
    format!("{key}@{version}")
}

/// The value in the index `colour` of an object.
pub(super) fn colour(key: &str, version: u64) -> String {
    format!("c{}", seed(key, version) % 7)
}

/// The body of an object: rare words of its epoch, each in many objects, about 1 KB.
pub(super) fn body(key: &str, version: u64) -> Value {
    let word = |number: u64| -> String {
        (0..5).map(|part| format!("{:08x}", mixed(number * 31 + part) >> 32)).collect()
    };
    let first = version / EPOCH % 5 * WORDS;
    let words: Vec<String> =
        (0..20).map(|place| word(first + mixed(seed(key, version) + place) % WORDS)).collect();
    json!({"data": {"stamp": stamp(key, version), "colour": colour(key, version), "words": words}})
}

/// Whether an object's body is that of its key and version.
pub(super) fn is_whole(object: &Object) -> bool {
    let version = object.resource_version().parse().unwrap_or_default();
    let stamp = stamp(object.key().as_str(), version);
    object.get("/data/stamp") == Some(&*format!("\"{stamp}\""))
}
