//! The generation of a DaemonSet's template, which is an annotation: how often the template was changed. The real server has a
//! field for it in its own form of the object, so each DaemonSet has the annotation.

use crate::api::{ApiError, JsonMap, Metadata};

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The generation that an object has; 0 if it has none or one that is no number.
fn template_generation(object: &JsonMap) -> i64 {
    let annotations = object.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let text = annotations.and_then(|annotations| annotations[TEMPLATE_GENERATION].as_str());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn put(object: &mut JsonMap, generation: i64) -> Result<(), ApiError> {
    Metadata::of(object)?.set_annotation(TEMPLATE_GENERATION, &generation.to_string());
    Ok(())
}

/// As it is read from a client.
pub(crate) fn read(object: &mut JsonMap) {
    // Whose metadata is no object is refused later.
    let _ = put(object, template_generation(object));
}

/// A new one begins with 1, or with what the client says.
pub(super) fn create(object: &mut JsonMap) -> Result<(), ApiError> {
    put(object, template_generation(object).max(1))
}

/// A client cannot change it: each change of the template counts.
pub(super) fn update(old: &JsonMap, new: &mut JsonMap) -> Result<(), ApiError> {
    let template = |object: &JsonMap| object.get("spec").and_then(|spec| spec.get("template")).cloned();
    let changed = template(old) != template(new);
    put(new, template_generation(old) + i64::from(changed))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn daemon_set(image: &str, annotations: &Value) -> JsonMap {
        let spec = json!({"template": {"spec": {"containers": [{"image": image}]}}});
        let object = json!({"metadata": {"annotations": annotations}, "spec": spec});
        object.as_object().unwrap().clone()
    }

    #[test]
    fn each_change_of_the_template_counts_and_nothing_else() {
        let mut old = daemon_set("a", &json!({}));
        read(&mut old);
        assert_eq!(old["metadata"]["annotations"][TEMPLATE_GENERATION], "0");
        create(&mut old).unwrap();
        let mut same = daemon_set("a", &json!({TEMPLATE_GENERATION: "7", "a": "b"}));
        update(&old, &mut same).unwrap();
        assert_eq!(same["metadata"]["annotations"], json!({TEMPLATE_GENERATION: "1", "a": "b"}));
        let mut next = daemon_set("b", &json!({}));
        update(&same, &mut next).unwrap();
        assert_eq!(template_generation(&next), 2);
    }
}
