//! Numbers that can be shares: `3` or `25%`.

use serde_json::Value;

use super::node::Node;
use crate::api::syntax;
use crate::schema::Causes;

/// The number in front of the sign, if it is a share.
fn share(of: &Node<'_, '_>) -> Option<i64> {
    let text = of.value().as_str().filter(|text| syntax::percent(text).is_empty())?;
    // Go stops counting at the largest number.
    Some(text.trim_end_matches('%').parse().unwrap_or(i64::MAX))
}

/// The number, of a share without its sign; 0 if it is none.
pub(super) fn value(of: &Node<'_, '_>) -> i64 {
    match of.value() {
        Value::String(text) => share(of).or_else(|| text.parse().ok()).unwrap_or_default(),
        number => number.as_i64().unwrap_or_default(),
    }
}

/// A number that is not negative, or a share.
pub(super) fn non_negative(of: &Node<'_, '_>, causes: &mut Causes) {
    match of.value() {
        Value::String(text) => of.faults(causes, syntax::percent(text)),
        _ => of.non_negative(causes),
    }
}

/// No share of more than all.
pub(super) fn at_most_all(of: &Node<'_, '_>, causes: &mut Causes) {
    if share(of).is_some_and(|share| share > 100) {
        of.invalid(causes, "must not be greater than 100%");
    }
}
