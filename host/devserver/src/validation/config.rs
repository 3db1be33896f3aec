//! ConfigMaps, Secrets, namespaces.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::metadata::standard_finalizer;
use super::node::{Node, field};
use crate::api::{JsonMap, syntax};
use crate::schema::Causes;

/// What the data of a ConfigMap or a Secret may have.
const DATA: usize = 1 << 20;

/// The number of bytes that a text of base64 encodes, without decoding it.
fn encoded_length(text: &str) -> usize {
    (text.len() / 4 * 3).saturating_sub(text.bytes().rev().take_while(|byte| *byte == b'=').count().min(2))
}

fn key(at: &Node<'_, '_>, key: &str, causes: &mut Causes) {
    at.faults_of(causes, key, syntax::config_key(key));
}

pub(super) fn config_map(object: &JsonMap, causes: &mut Causes) {
    let (data, binary) = (field(object, "data"), field(object, "binaryData"));
    let mut size = 0;
    for (name, value) in data.entries() {
        key(&value, name, causes);
        if binary.key(name).is_set() {
            value.invalid_as(causes, &name.into(), "duplicate of key present in binaryData");
        }
        size += value.text().len();
    }
    for (name, value) in binary.entries() {
        key(&value, name, causes);
        size += encoded_length(value.text());
    }
    if size > DATA {
        field(object, "[]").too_long(causes, DATA);
    }
}

pub(super) fn secret(object: &JsonMap, causes: &mut Causes) {
    let data = field(object, "data");
    let mut size = 0;
    for (name, value) in data.entries() {
        key(&value, name, causes);
        size += encoded_length(value.text());
    }
    if size > DATA {
        data.too_long(causes, DATA);
    }
    let required = |name: &str, causes: &mut Causes| {
        if !data.key(name).is_set() {
            data.key(name).required(causes, "");
        }
    };
    match field(object, "type").text() {
        "kubernetes.io/service-account-token" => {
            let metadata = field(object, "metadata");
            let annotations = metadata.field("annotations");
            let account = annotations.key("kubernetes.io/service-account.name");
            account.is_given(causes);
        }
        "kubernetes.io/dockercfg" => json_object(&data.key(".dockercfg"), causes),
        "kubernetes.io/dockerconfigjson" => json_object(&data.key(".dockerconfigjson"), causes),
        "kubernetes.io/basic-auth" if !data.key("username").is_set() && !data.key("password").is_set() => {
            required("username", causes);
            required("password", causes);
        }
        "kubernetes.io/ssh-auth" => {
            data.key("ssh-privatekey").is_given(causes);
        }
        "kubernetes.io/tls" => {
            required("tls.crt", causes);
            required("tls.key", causes);
        }
        _ => {}
    }
}

/// An entry that must be there and hold a JSON object.
fn json_object(entry: &Node<'_, '_>, causes: &mut Causes) {
    const HIDDEN: &str = "<secret contents redacted>";
    if !entry.is_set() {
        return entry.required(causes, "");
    }
    let bytes = STANDARD.decode(entry.text()).unwrap_or_default();
    let why = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(_) => "must be a JSON object".to_owned(),
        Err(error) => error.to_string(),
    };
    entry.invalid_as(causes, &HIDDEN.into(), &why);
}

pub(super) fn namespace(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    let finalizers = spec.field("finalizers");
    for finalizer in finalizers.each() {
        let finalizer = finalizer.placed(&finalizers);
        finalizer.faults(causes, syntax::qualified_name(finalizer.text()));
        standard_finalizer(&finalizer, causes);
    }
}
