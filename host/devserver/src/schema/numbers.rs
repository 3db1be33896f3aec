//! Numbers against the rules of a schema, as a real server compares them.
//!
//! It checks a bound against the type first. A number without a fraction is compared with the whole part of a bound, so that
//! `minimum: 2.5` lets 2 pass and not 2.25. The words are the server's.

use serde_json::{Number, Value};

use super::types::{Bound, Kind, Rules};

/// How far a number may be from a whole one and still count as one, relative to its size.
const EPSILON: f64 = 1e-9;
/// The largest number that JSON in JavaScript holds whole.
const MAX_WHOLE: f64 = 9_007_199_254_740_991.0;

/// Whether a number lies on the wrong side of a bound.
type Order = fn(f64, f64) -> bool;

/// What is wrong with a number.
pub(super) enum Fault {
    /// It, or a bound of it, is not of the type or of the format: `Checked value must be of type …`.
    Type(String),
    /// `should be less than 3`
    Value(String),
    /// It can be no multiple of this.
    Factor(Value),
}

/// What is wrong with a number of a type with these rules.
pub(super) fn faults(kind: Kind, rules: &Rules, number: &Number) -> Vec<Fault> {
    let format = rules.format.as_ref().map_or("", |format| format.name());
    let type_fault = |what: &str, text: String| {
        let with =
            if format.is_empty() { "(default format)".to_owned() } else { format!("with format {format}") };
        let fits = fits(kind, format, &text);
        (!fits).then(|| Fault::Type(format!("{what} value must be of type {} {with}", kind.name())))
    };
    let text = |value: f64| value.to_string();
    let mut faults = Vec::new();
    let checked =
        number.as_i64().map_or_else(|| text(number.as_f64().unwrap_or(f64::NAN)), |whole| whole.to_string());
    faults.extend(type_fault("Checked", checked));
    if let Some(factor) = rules.multiple_of {
        let fault = type_fault("MultipleOf", text(factor));
        let whole = number.as_i64().filter(|_| fault.is_none());
        faults.extend(fault);
        faults.extend(factor_fault(number, whole, factor));
    }
    let bounds: [(_, _, _, Order); 2] = [
        (rules.minimum, "Minimum boundary", "greater", |number, bound| number < bound),
        (rules.maximum, "Maximum boundary", "less", |number, bound| number > bound),
    ];
    for (bound, what, order, is_beyond) in bounds {
        let Some(Bound { value, exclusive }) = bound else { continue };
        let fault = type_fault(what, text(value));
        let whole = number.as_i64().filter(|_| fault.is_none());
        faults.extend(fault);
        let or_equal = if exclusive { "" } else { " or equal to" };
        let (is_wrong, bound) = compare(number, whole, value, is_beyond, exclusive);
        faults.extend(is_wrong.then(|| Fault::Value(format!("should be {order} than{or_equal} {bound}"))));
    }
    faults
}

/// Whether a number, as a text, is one of a type with a format.
fn fits(kind: Kind, format: &str, text: &str) -> bool {
    match (kind, format) {
        (Kind::Integer, "int32") => text.parse::<i32>().is_ok(),
        (Kind::Integer, _) => text.parse::<i64>().is_ok(),
        (Kind::Number, "float") => text.parse::<f32>().is_ok_and(f32::is_finite),
        _ => true,
    }
}

/// Whether a number lies beyond a bound, and the bound as it was compared.
fn compare(
    number: &Number,
    whole: Option<i64>,
    bound: f64,
    is_beyond: Order,
    exclusive: bool,
) -> (bool, String) {
    // Beyond these the whole part of a bound is no whole number of this machine.
    let is_in_range = (-9.2e18..9.2e18).contains(&bound);
    if let Some(whole) = whole.filter(|_| is_in_range) {
        let bound = bound.trunc();
        let order = whole.cmp(&(bound as i64));
        // The order alone matters: as numbers that are small enough to be exact.
        let is_wrong = is_beyond(f64::from(order as i8), 0.0) || exclusive && order.is_eq();
        return (is_wrong, format!("{}", bound as i64));
    }
    let value = number.as_f64().unwrap_or(f64::NAN);
    (is_beyond(value, bound) || exclusive && value == bound, shown(bound))
}

fn factor_fault(number: &Number, whole: Option<i64>, factor: f64) -> Option<Fault> {
    if let Some(whole) = whole {
        let factor = factor.trunc() as i64;
        return match factor {
            ..=0 => Some(Fault::Factor(factor.into())),
            _ if whole % factor == 0 => None,
            _ => Some(Fault::Value(format!("should be a multiple of {factor}"))),
        };
    }
    if factor <= 0.0 {
        return Some(Fault::Factor(factor.into()));
    }
    let value = number.as_f64().unwrap_or(f64::NAN);
    let times = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
    (!is_near_whole(times)).then(|| Fault::Value(format!("should be a multiple of {}", shown(factor))))
}

/// A number as Go prints it: in powers of ten where it is very large or very small.
fn shown(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-4..1e21).contains(&size) {
        return value.to_string();
    }
    let text = format!("{value:e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, power) = power.strip_prefix('-').map_or(('+', power), |power| ('-', power));
    format!("{digits}e{sign}{power:0>2}")
}

/// Whether a value is a whole number, also one that is written as `1.0`.
pub(super) fn is_whole(value: &Value) -> bool {
    value.is_i64() || value.is_f64() && value.as_f64().is_some_and(is_near_whole)
}

fn is_near_whole(value: f64) -> bool {
    if !value.is_finite() || value.abs() > MAX_WHOLE {
        return false;
    }
    let whole = value.trunc();
    let apart = (value - whole).abs();
    apart == 0.0 || whole != 0.0 && apart / (value.abs() + whole.abs()) < EPSILON
}

/// Whether a number is that one of an enum: a server brings it to the other's type first.
pub(super) fn is_allowed(one: &Number, value: &Number) -> bool {
    match (one.as_i64(), value.as_i64()) {
        (Some(one), Some(value)) => one == value,
        (Some(one), None) => value.as_f64().is_some_and(|value| value.trunc() as i64 == one),
        (None, _) => one.as_f64() == value.as_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_in_go() {
        for (value, text) in [
            (0.0, "0"),
            (2.5, "2.5"),
            (-1e20, "-100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-07"),
            (1e300, "1e+300"),
        ] {
            assert_eq!(shown(value), text);
        }
    }

    #[test]
    fn nearly_whole_numbers_are_whole() {
        for (value, expected) in
            [(1.0, true), (1.000_000_000_1, true), (1.000_001, false), (0.5, false), (1e17, false)]
        {
            assert_eq!(is_near_whole(value), expected, "{value}");
        }
    }
}
