//! [`Tokens`]: from a secret value to a token of the same length.

use ring::hmac;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The largest multiple of 62 that a byte can have: bytes from here on would make some digits more frequent.
const FAIR: u8 = 248;

/// A keyed hash. The key lives as long as the recording and is nowhere else, so that nobody can try values out on a file.
pub(super) struct Tokens(hmac::Key);

impl Tokens {
    /// A hash with a key of its own.
    pub(super) fn new() -> Self {
        Self::with_key(&rand::random::<[u8; 32]>())
    }

    fn with_key(key: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// As many digits and letters as `value` has bytes.
    pub(super) fn token(&self, value: &[u8]) -> String {
        let mut token = String::with_capacity(value.len());
        let mut block = 0_u64;
        while token.len() < value.len() {
            let mut context = hmac::Context::with_key(&self.0);
            context.update(&block.to_le_bytes());
            context.update(value);
            let hash = context.sign();
            let fair = hash.as_ref().iter().filter(|byte| **byte < FAIR);
            let digits = fair.map(|byte| char::from(DIGITS[usize::from(byte % 62)]));
            token.extend(digits.take(value.len() - token.len()));
            block += 1;
        }
        token
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn a_token_has_the_length_of_its_value_and_depends_on_value_and_key(value in proptest::collection::vec(any::<u8>(), 0..300)) {
            let tokens = Tokens::with_key(&[7; 32]);
            let token = tokens.token(&value);
            prop_assert_eq!(token.len(), value.len());
            prop_assert!(token.bytes().all(|byte| DIGITS.contains(&byte)));
            prop_assert_eq!(&token, &tokens.token(&value));
            if value.len() >= 8 {
                prop_assert_ne!(&token, &Tokens::with_key(&[8; 32]).token(&value));
                let mut other = value.clone();
                other[0] ^= 1;
                prop_assert_ne!(&token, &tokens.token(&other));
                prop_assert_ne!(token.as_bytes(), &*value);
            }
        }
    }
}
