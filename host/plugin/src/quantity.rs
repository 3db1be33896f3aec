//! Amounts of memory in manifests: `64Mi`, `1.5Gi`, `128M`, or a plain number of bytes.
//!
//! Supports the forms of a Kubernetes quantity that make sense for memory: no exponents, no milli-bytes. Called by
//! [`crate::manifest`].

/// The reason why a text is not an amount of memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an amount of memory: {reason}; write one like 64Mi, 1Gi, 128M or a number of bytes")]
pub struct QuantityError {
    text: String,
    reason: &'static str,
}

const SUFFIXES: [(&str, u64); 7] = [
    ("", 1),
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
];

/// Parses a number of bytes. A fraction of a byte is rounded up.
///
/// # Errors
/// When the text has another form or the number is too large.
pub fn parse_memory(text: &str) -> Result<u64, QuantityError> {
    let error = |reason| QuantityError { text: text.to_owned(), reason };
    let (number, suffix) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()));
    let (_, unit) = SUFFIXES
        .iter()
        .find(|(name, _)| *name == suffix)
        .ok_or_else(|| error("the suffixes are Ki, Mi, Gi, k, M and G"))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let malformed = || error("the number is malformed or too large");
    // Nine digits of a fraction are more than anyone writes, and keep the product below within 128 bits.
    if fraction.is_empty() || fraction.len() > 9 {
        return Err(malformed());
    }
    let whole: u128 = whole.parse().map_err(|_| malformed())?;
    let part: u128 = fraction.parse().map_err(|_| malformed())?;
    let scale = 10_u128.pow(u32::try_from(fraction.len()).map_err(|_| malformed())?);
    let bytes = whole
        .checked_mul(scale)
        .and_then(|n| n.checked_add(part))
        .and_then(|n| n.checked_mul(u128::from(*unit)))
        .map(|n| n.div_ceil(scale))
        .ok_or_else(malformed)?;
    u64::try_from(bytes).map_err(|_| malformed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_suffixes_of_both_kinds() {
        for (text, bytes) in [
            ("64Mi", 64 << 20),
            ("1Gi", 1 << 30),
            ("512Ki", 512 << 10),
            ("128M", 128_000_000),
            ("5k", 5_000),
            ("1.5Gi", 3 << 29),
            ("0.3Ki", 308),
            ("67108864", 67_108_864),
        ] {
            assert_eq!(parse_memory(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest_and_says_how_to_write_it() {
        for text in
            ["", "Mi", "64MB", "64mi", "64 Mi", "-1", "1e3", "1.", "1..2", "99999999999999999999999Gi", "1m"]
        {
            let error = parse_memory(text).unwrap_err().to_string();
            assert!(
                error.contains("is not an amount of memory") && error.contains("64Mi"),
                "{text}: {error}"
            );
        }
    }
}
