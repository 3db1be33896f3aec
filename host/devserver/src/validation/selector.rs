//! Label selectors: their form, and whether they match labels.

use serde_json::Value;

use super::metadata::labels;
use super::node::Node;
use crate::api::syntax;
use crate::schema::Causes;

/// The form of a selector, which may be absent.
pub(super) fn selector(selector: &Node<'_, '_>, causes: &mut Causes) {
    labels(&selector.field("matchLabels"), causes);
    for requirement in selector.field("matchExpressions").each() {
        let values = requirement.field("values");
        match requirement.field("operator").text() {
            "In" | "NotIn" if values.is_empty() => {
                values.required(causes, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                values
                    .forbidden(causes, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => requirement.field("operator").invalid(causes, "not a valid selector operator"),
        }
        let key = requirement.field("key");
        key.faults(causes, syntax::qualified_name(key.text()));
        for value in values.each() {
            value.faults(causes, syntax::label_value(value.text()));
        }
    }
}

/// Whether nothing is asked of labels.
pub(super) fn is_empty(selector: &Node<'_, '_>) -> bool {
    selector.field("matchLabels").is_empty() && selector.field("matchExpressions").is_empty()
}

/// Whether labels match a selector; `None` if it cannot be read. One that is absent matches nothing.
pub(super) fn matches(selector: &Node<'_, '_>, labels: &Value) -> Option<bool> {
    if !selector.is_set() {
        return Some(false);
    }
    let mut matches = true;
    for (key, value) in selector.field("matchLabels").entries() {
        is_readable(key, [value.text()])?;
        matches &= labels[key] == value.text();
    }
    for requirement in selector.field("matchExpressions").each() {
        let (key, values) = (requirement.field("key"), requirement.field("values"));
        is_readable(key.text(), values.texts())?;
        let label = labels[key.text()].as_str();
        let is_among = || label.is_some_and(|label| values.texts().any(|value| value == label));
        matches &= match requirement.field("operator").text() {
            "In" if !values.is_empty() => is_among(),
            "NotIn" if !values.is_empty() => !is_among(),
            "Exists" if values.is_empty() => label.is_some(),
            "DoesNotExist" if values.is_empty() => label.is_none(),
            _ => return None,
        };
    }
    Some(matches)
}

fn is_readable<'a>(key: &str, values: impl IntoIterator<Item = &'a str>) -> Option<()> {
    let is_readable = syntax::qualified_name(key).is_empty()
        && values.into_iter().all(|value| syntax::label_value(value).is_empty());
    is_readable.then_some(())
}
