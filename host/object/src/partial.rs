//! [`PARTIAL_ANNOTATION`]: marks the body of a partial object that the host passes to a guest.
//!
//! Invariant: no text in a store has the annotation, and every text of a partial object that a guest reads has it. So
//! the host detects when a guest writes such a body back, and refuses the write before fields are lost.

use std::borrow::Cow;

use crate::object::Object;
use crate::pointer;

/// The annotation that marks a partial body. It is never stored: the host refuses writes that contain it.
pub const PARTIAL_ANNOTATION: &str = "pilothouse.dev/partial";

impl Object {
    /// The JSON for a reader that cannot call [`is_partial`](Object::is_partial): with [`PARTIAL_ANNOTATION`] added
    /// when the object is partial, else [`json`](Object::json) without a copy.
    #[must_use]
    pub fn marked_json(&self) -> Cow<'_, str> {
        let json = self.json();
        if !self.is_partial() || self.annotation(PARTIAL_ANNOTATION).is_some() {
            return Cow::Borrowed(json);
        }
        let mark = format!("{}:\"true\"", serde_json::Value::from(PARTIAL_ANNOTATION));
        match pointer::get(json, "/metadata/annotations") {
            Some(map) if map.starts_with('{') => Cow::Owned(with_member(json, map, &mark)),
            // The value is `null`.
            Some(other) => Cow::Owned(replaced(json, other, &format!("{{{mark}}}"))),
            None => {
                let metadata = pointer::get(json, "/metadata").unwrap_or(json);
                Cow::Owned(with_member(json, metadata, &format!("\"annotations\":{{{mark}}}")))
            }
        }
    }
}

/// Inserts a first member into the JSON object `map`, a slice of `text`.
fn with_member(text: &str, map: &str, member: &str) -> String {
    let rest = &map[1..];
    let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
    replaced(text, &map[..1], &format!("{{{member}{comma}"))
}

/// Replaces `part`, a slice of `text`.
fn replaced(text: &str, part: &str, by: &str) -> String {
    let at = part.as_ptr() as usize - text.as_ptr() as usize;
    format!("{}{by}{}", &text[..at], &text[at + part.len()..])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Projection;

    fn object(annotations: &Value) -> Object {
        let mut json = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v", "left": "out"},
        });
        if *annotations != json!("absent") {
            json["metadata"]["annotations"] = annotations.clone();
        }
        Object::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_partial_body_has_the_mark_among_its_annotations_and_is_else_the_same() {
        let projection = Projection::parse(["/data/k"]).unwrap();
        for (annotations, wanted) in [
            (json!("absent"), json!({PARTIAL_ANNOTATION: "true"})),
            (Value::Null, json!({PARTIAL_ANNOTATION: "true"})),
            (json!({}), json!({PARTIAL_ANNOTATION: "true"})),
            (json!({"b": "{"}), json!({PARTIAL_ANNOTATION: "true", "b": "{"})),
            (json!({PARTIAL_ANNOTATION: "own"}), json!({PARTIAL_ANNOTATION: "own"})),
        ] {
            let partial = projection.apply(&object(&annotations));
            let mut marked: Value = serde_json::from_str(&partial.marked_json()).unwrap();
            assert_eq!(marked["metadata"]["annotations"], wanted);
            let mut plain: Value = serde_json::from_str(partial.json()).unwrap();
            for text in [&mut marked, &mut plain] {
                text["metadata"].as_object_mut().unwrap().remove("annotations");
            }
            assert_eq!(marked, plain);
        }
    }

    #[test]
    fn a_whole_body_has_no_mark_and_is_not_copied() {
        let whole = object(&json!({"b": "c"}));
        assert!(matches!(whole.marked_json(), Cow::Borrowed(text) if text == whole.json()));
    }
}
