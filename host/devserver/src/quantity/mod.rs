//! Quantities (`1500m`, `2Gi`) in the form that the real server stores and shows.
//!
//! The server rewrites quantities: `1024Mi` to `1Gi`, `0.5` to `500m`. The suffix system stays; a binary quantity
//! falls back to the decimal one where it is no whole number or below 1024. What looks canonical at a glance stays as it
//! is, even if it is not: `1.125G`, `+1`.

use serde_json::Value;

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// From 10^-9 on, in steps of 10^3.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

#[derive(Clone, Copy, PartialEq)]
enum Format {
    Decimal,
    Exponent,
    Binary,
}

/// Powers of ten of the smallest units.
const NANO: i32 = -9;
const MILLI: i32 = -3;

/// The canonical form; a value that is no quantity, or too large to calculate with, as it is.
pub(crate) fn canonical(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    rewrite(&text, NANO).unwrap_or(text)
}

/// The canonical form of what a client sent.
///
/// # Errors
/// What the server says of a text that is no quantity.
pub(crate) fn read(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    check(text)?;
    Ok(rewrite(text, NANO).unwrap_or_else(|| text.to_owned()))
}

/// A quantity without what is less than a thousandth: that is rounded up, away from zero.
pub(crate) fn round_up_to_milli(text: &str) -> String {
    rewrite(text, MILLI).unwrap_or_else(|| text.to_owned())
}

/// Whether a text is a number with a suffix.
fn check(text: &str) -> Result<(), &'static str> {
    const FORM: &str =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    const SUFFIX: &str = "unable to parse quantity's suffix";
    const NUMBER: &str = "unable to parse numeric part of quantity";
    if text.is_empty() {
        return Err(FORM);
    }
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned.is_empty() {
        // Go takes a lone sign for zero.
        return Ok(());
    }
    let (whole, rest) = unsigned.split_at(digits(unsigned));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let letters = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let exponent = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    if digits(exponent) != exponent.len() {
        return Err(FORM);
    }
    let is_exponent =
        || suffix.strip_prefix(['e', 'E']).is_some_and(|exponent| exponent.parse::<i32>().is_ok());
    if !(DECIMAL.contains(&suffix) || BINARY.contains(&suffix) || is_exponent()) {
        return Err(SUFFIX);
    }
    if whole.is_empty() && fraction.is_empty() { Err(NUMBER) } else { Ok(()) }
}

/// The canonical form in units that are not smaller than `smallest`; `None` if the text needs no change for that, or cannot be
/// rewritten.
fn rewrite(text: &str, smallest: i32) -> Option<String> {
    if matches!(text, "+" | "-") {
        return Some("0".to_owned());
    }
    let number_end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let mut scale = -i32::try_from(fraction.len()).ok()?;

    let mut format = Format::Decimal;
    let mut thousands = 0;
    if let Some(power) = BINARY.iter().skip(1).position(|known| *known == suffix) {
        format = Format::Binary;
        thousands = power + 1;
        mantissa = mantissa.checked_mul(1 << (10 * thousands))?;
    } else if let Some(step) = DECIMAL.iter().position(|known| *known == suffix) {
        scale += 3 * (i32::try_from(step).ok()? - 3);
    } else {
        format = Format::Exponent;
        scale +=
            suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok().filter(|exponent| exponent.abs() < 30)?;
    }
    if smallest == NANO && looks_canonical(whole, fraction, scale, format, thousands) {
        return None;
    }
    if smallest == MILLI && scale >= MILLI {
        return None;
    }
    while scale < smallest {
        // What is below the smallest unit is rounded away from zero.
        let rounded_up = if mantissa % 10 == 0 { 0 } else { mantissa.signum() };
        mantissa = mantissa / 10 + rounded_up;
        scale += 1;
    }
    if mantissa == 0 {
        return Some("0".to_owned());
    }
    while mantissa % 10 == 0 {
        mantissa /= 10;
        scale += 1;
    }
    if format == Format::Binary && scale >= 0 {
        let whole = mantissa.checked_mul(10_i128.checked_pow(scale.unsigned_abs())?)?;
        if whole.abs() >= 1024 {
            // Larger ones are cut off, of this format only.
            return Some(binary(whole.clamp(-i128::from(i64::MAX), i64::MAX.into())));
        }
    }
    let padding = scale.rem_euclid(3);
    mantissa = mantissa.checked_mul(10_i128.pow(padding.unsigned_abs()))?;
    scale -= padding;
    let suffix = match (format, scale) {
        (Format::Exponent, 0) => String::new(),
        (Format::Exponent, scale) => format!("e{scale}"),
        _ => (*DECIMAL.get(usize::try_from(scale / 3 + 3).ok()?)?).to_owned(),
    };
    Some(format!("{mantissa}{suffix}"))
}

fn binary(mut whole: i128) -> String {
    let mut power = 0;
    while whole % 1024 == 0 && power + 1 < BINARY.len() {
        whole /= 1024;
        power += 1;
    }
    format!("{whole}{}", BINARY[power])
}

/// Whether the server keeps a quantity without a closer look: it checks some digits only, if there are not too many.
fn looks_canonical(whole: &str, fraction: &str, scale: i32, format: Format, thousands: usize) -> bool {
    let significant = whole.trim_start_matches(['+', '-']).trim_start_matches('0');
    let digits = format!("{}{fraction}", if significant.is_empty() { "0" } else { significant });
    match format {
        Format::Binary => {
            let short = digits.len() + 3 * thousands < 15;
            short && fraction.is_empty() && digits.parse::<u64>().is_ok_and(|number| number % 8 != 0)
        }
        _ => {
            let short = digits.len() <= 18;
            short && scale >= -9 && scale % 3 == 0 && !digits.starts_with('0') && !digits.ends_with("000")
        }
    }
}

/// How much a quantity in canonical form is, to be compared: in billionths, as far as a number of 128 bits goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Amount(i128);

const BILLION: i128 = 1_000_000_000;

impl Amount {
    pub(crate) const ZERO: Self = Self(0);

    /// The amount of a quantity; nothing if the text is none.
    pub(crate) fn of(text: &str) -> Self {
        Self::read(text).unwrap_or(Self::ZERO)
    }

    fn read(text: &str) -> Option<Self> {
        let number_end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
        let (number, suffix) = text.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
        let mut power = 9 - i32::try_from(fraction.len()).ok()?;
        let mut factor: i128 = 1;
        if let Some(thousands) = BINARY.iter().skip(1).position(|known| *known == suffix) {
            factor = 1 << (10 * (thousands + 1));
        } else if let Some(step) = DECIMAL.iter().position(|known| *known == suffix) {
            power += 3 * (i32::try_from(step).ok()? - 3);
        } else {
            power = power.saturating_add(suffix.strip_prefix(['e', 'E'])?.parse().ok()?);
        }
        let scaled = mantissa.saturating_mul(factor);
        let ten = 10_i128.saturating_pow(power.unsigned_abs());
        Some(Self(if power < 0 { scaled / ten } else { scaled.saturating_mul(ten) }))
    }

    /// Whether it is a whole number.
    pub(crate) fn is_whole(self) -> bool {
        self.0 % BILLION == 0
    }

    /// Whether it is a multiple of another.
    pub(crate) fn is_multiple_of(self, other: Self) -> bool {
        other.0 > 0 && self.0 % other.0 == 0
    }
}

#[cfg(test)]
mod tests;
