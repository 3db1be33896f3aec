//! How much of the capacity of a shared device a request may ask for.

use std::collections::HashSet;

use super::devices::has_at_most;
use super::node::Node;
use crate::quantity::{self, Amount};
use crate::schema::{Causes, shown};

/// Amounts in a list of those that can be asked for.
const MAX_VALUES: usize = 10;

/// The policy of a capacity.
pub(super) fn check(policy: &Node<'_, '_>, capacity: &str, causes: &mut Causes) {
    let (values, range) = (policy.field("validValues"), policy.field("validRange"));
    let default = policy.field("default");
    if !values.is_empty() && range.is_set() {
        let why = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
        policy.forbidden(causes, why);
    } else if !values.is_empty() {
        if default.is_set() {
            valid_values(&values, default.text(), capacity, causes);
        } else {
            default.required(causes, "required when validValues is defined");
        }
    } else if range.is_set() {
        if default.is_set() {
            valid_range(&range, default.text(), capacity, causes);
        } else {
            default.required(causes, "required when validRange is defined");
        }
    }
}

/// The amounts themselves, in ascending order; the default is one of them.
fn valid_values(values: &Node<'_, '_>, default: &str, capacity: &str, causes: &mut Causes) {
    let amounts: Vec<Amount> = values.texts().map(Amount::of).collect();
    for index in 1..amounts.len() {
        if amounts[index - 1] > amounts[index] {
            values.index(index).invalid(causes, "values must be sorted in ascending order");
        }
    }
    let mut has_default = false;
    if has_at_most(values, MAX_VALUES, causes) {
        for (value, amount) in values.each().zip(&amounts) {
            if *amount > Amount::of(capacity) {
                value.invalid(causes, &format!("option is larger than capacity value: {capacity}"));
            }
            has_default |= *amount == Amount::of(default);
        }
        let mut seen = HashSet::new();
        for (value, amount) in values.each().zip(&amounts) {
            if !seen.insert(amount.rounded_up()) {
                value.duplicate_as(causes, &shown(&amount.rounded_up().to_string().into()), "");
            }
        }
    }
    if !has_default {
        values.invalid_as(
            causes,
            &default.into(),
            "default value is not valid according to the requestPolicy",
        );
    }
}

/// A range, in steps from its begin on; the default is in it.
fn valid_range(range: &Node<'_, '_>, default: &str, capacity: &str, causes: &mut Causes) {
    let (min, max, step) = (range.field("min"), range.field("max"), range.field("step"));
    if !min.is_set() {
        return min.required(causes, "required when validRange is defined");
    }
    let (least, most, whole) = (Amount::of(min.text()), Amount::of(max.text()), Amount::of(capacity));
    if least > whole {
        min.invalid(causes, &format!("min is larger than capacity value: {capacity}"));
    }
    if Amount::of(default) < least {
        min.invalid_as(causes, &default.into(), &format!("default is less than min: {}", min.text()));
    }
    if max.is_set() {
        if least > most {
            max.invalid_as(causes, min.value(), &format!("min is larger than max: {}", max.text()));
        }
        if most > whole {
            max.invalid(causes, &format!("max is larger than capacity value: {capacity}"));
        }
        if Amount::of(default) > most {
            max.invalid_as(causes, &default.into(), &format!("default is more than max: {}", max.text()));
        }
    }
    if !step.is_set() {
        return;
    }
    let first = quantity::sum(min.text(), step.text());
    if Amount::of(&first) > whole {
        step.invalid(causes, &format!("one step {first} is larger than capacity value: {capacity}"));
    }
    let amounts = std::iter::once(default).chain(max.is_set().then(|| max.text()));
    for amount in amounts {
        let beyond = Amount::of(amount).rounded_up().wrapping_sub(least.rounded_up());
        // A real server fails at a step of nothing.
        if beyond.checked_rem(Amount::of(step.text()).rounded_up()).unwrap_or_default() != 0 {
            let why =
                format!("value is not a multiple of a given step ({}) from ({})", step.text(), min.text());
            step.invalid_as(causes, &amount.into(), &why);
        }
    }
}
