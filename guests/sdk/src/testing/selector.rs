//! Label and field selectors.

use serde_json::Value;

/// A label selector in the syntax of kubectl.
pub(super) struct Selector(Vec<Requirement>);

enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Selector {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let requirements = split(text).into_iter().map(Requirement::parse).collect::<Result<_, _>>()?;
        Ok(Self(requirements))
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        let label = |name: &String| labels.get(name).and_then(Value::as_str);
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(name, values) => {
                label(name).is_some_and(|value| values.iter().any(|own| own == value))
            }
            Requirement::NotIn(name, values) => {
                label(name).is_none_or(|value| values.iter().all(|own| own != value))
            }
            Requirement::Exists(name) => label(name).is_some(),
            Requirement::Absent(name) => label(name).is_none(),
        })
    }
}

impl Requirement {
    fn parse(text: &str) -> Result<Self, String> {
        let malformed = || format!("`{text}` is not a part of a label selector");
        let name = |text: &str| {
            let text = text.trim();
            let is_name = !text.is_empty() && !text.contains([' ', '(', ')', '=', '!', ',']);
            is_name.then(|| text.to_owned()).ok_or_else(malformed)
        };
        let list = |text: &str| {
            let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
            Some(inner.split(',').map(|value| value.trim().to_owned()).collect::<Vec<_>>())
        };
        if let Some((label, values)) = text.split_once(" notin ") {
            return Ok(Self::NotIn(name(label)?, list(values).ok_or_else(malformed)?));
        }
        if let Some((label, values)) = text.split_once(" in ") {
            return Ok(Self::In(name(label)?, list(values).ok_or_else(malformed)?));
        }
        if let Some((label, value)) = text.split_once("!=") {
            return Ok(Self::NotIn(name(label)?, vec![value.trim().to_owned()]));
        }
        if let Some((label, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
            return Ok(Self::In(name(label)?, vec![value.trim().to_owned()]));
        }
        match text.strip_prefix('!') {
            Some(label) => Ok(Self::Absent(name(label)?)),
            None => Ok(Self::Exists(name(text)?)),
        }
    }
}

/// The parts between commas that are not in parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_u32, 0);
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// Checks the form of a field selector.
pub(super) fn check_fields(selector: &str) -> Result<(), String> {
    match split(selector).into_iter().find(|part| !part.contains('=')) {
        Some(part) => Err(format!("`{part}` is not a part of a field selector")),
        None => Ok(()),
    }
}

/// Whether an object has these fields. Every field can be selected by; the API server allows few for each kind.
pub(super) fn fields_match(selector: &str, object: &Value) -> bool {
    split(selector).into_iter().all(|part| {
        let (field, value, wanted) = match part.split_once("!=") {
            Some((field, value)) => (field, value, false),
            None => {
                let (field, value) = part.split_once('=').unwrap_or((part, ""));
                (field, value.trim_start_matches('='), true)
            }
        };
        let pointer = format!("/{}", field.trim().replace('.', "/"));
        let found = object.pointer(&pointer).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        (found.unwrap_or_default() == value.trim()) == wanted
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_selected_as_by_kubectl() {
        let object = json!({"metadata": {"labels": {"app": "web", "tier": "front"}}});
        for (selector, wanted) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier!=back", true),
            ("app in (web, api),tier", true),
            ("app notin (web)", false),
            ("!app", false),
            ("!other", true),
            ("other!=x", true),
            ("app=api", false),
        ] {
            assert_eq!(Selector::parse(selector).unwrap().matches(&object), wanted, "{selector}");
        }
        assert!(Selector::parse("a b").is_err() && Selector::parse("a in b").is_err());
    }

    #[test]
    fn fields_are_selected() {
        let object = json!({"metadata": {"name": "a"}, "spec": {"replicas": 3}});
        assert!(fields_match("metadata.name=a,spec.replicas=3", &object));
        assert!(fields_match("spec.nodeName!=b", &object) && !fields_match("metadata.name!=a", &object));
        assert!(check_fields("metadata.name").is_err());
    }
}
