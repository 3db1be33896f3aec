//! Many bytes of JSON text at once: where the first byte is that a string does not just contain, and where quotes and
//! brackets stand. Called by `scan` alone.

use wide::u8x16;

/// How many bytes [`first_special`] looks at.
pub(crate) const WIDTH: usize = 16;

/// The place of the first quote, backslash or control character; [`WIDTH`] when there is none.
#[inline]
pub(crate) fn first_special(bytes: &[u8; WIDTH]) -> usize {
    (special(bytes) | 1 << WIDTH).trailing_zeros() as usize
}

/// Where bytes of some kinds stand among 64, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) quotes: u64,
    pub(crate) backslashes: u64,
    /// `{` and `[`.
    pub(crate) opening: u64,
    /// `}` and `]`.
    pub(crate) closing: u64,
}

impl Block {
    #[inline]
    pub(crate) fn of(bytes: &[u8; 64]) -> Self {
        let mut block = Self::default();
        let (parts, _) = bytes.as_chunks::<WIDTH>();
        for (at, part) in parts.iter().enumerate() {
            let shift = at * WIDTH;
            let [quotes, backslashes, opening, closing] = kinds(part);
            block.quotes |= u64::from(quotes) << shift;
            block.backslashes |= u64::from(backslashes) << shift;
            block.opening |= u64::from(opening) << shift;
            block.closing |= u64::from(closing) << shift;
        }
        block
    }

    /// Only the first so many bytes, fewer than 64.
    pub(crate) fn first(&self, bytes: u32) -> Self {
        let mask = (1 << bytes) - 1;
        Self {
            quotes: self.quotes & mask,
            backslashes: self.backslashes & mask,
            opening: self.opening & mask,
            closing: self.closing & mask,
        }
    }

    /// The bits within strings, opening quotes included, if nothing is escaped; `inside`: all ones when the block begins
    /// within a string.
    #[inline]
    pub(crate) fn strings(&self, inside: u64) -> u64 {
        let mut bits = self.quotes;
        for shift in [1, 2, 4, 8, 16, 32] {
            bits ^= bits << shift;
        }
        bits ^ inside
    }
}

/// `{` and `[` differ in this bit alone, as do `}` and `]`.
const CASE: u8 = 0x20;

fn each(byte: u8) -> u8x16 {
    u8x16::splat(byte)
}

#[inline]
fn special(bytes: &[u8; WIDTH]) -> u32 {
    let bytes = u8x16::new(*bytes);
    let found = bytes.simd_eq(each(b'"')) | bytes.simd_eq(each(b'\\')) | bytes.simd_eq(bytes.min(each(0x1f)));
    found.to_bitmask()
}

/// Quotes, backslashes, opening and closing brackets.
#[inline]
fn kinds(bytes: &[u8; WIDTH]) -> [u32; 4] {
    let bytes = u8x16::new(*bytes);
    let folded = bytes & each(!CASE);
    [(bytes, b'"'), (bytes, b'\\'), (folded, b'['), (folded, b']')]
        .map(|(bytes, byte)| bytes.simd_eq(each(byte)).to_bitmask())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn places(bytes: &[u8; WIDTH], is: impl Fn(u8) -> bool) -> u32 {
        bytes.iter().enumerate().fold(0, |bits, (at, byte)| bits | u32::from(is(*byte)) << at)
    }

    /// Bytes of which many are of the kinds looked for, or one bit beside them.
    fn bytes() -> impl Strategy<Value = [u8; WIDTH]> {
        let byte = prop_oneof![
            any::<u8>(),
            prop::sample::select(b"\"\\{}[]\x1f\x20\x21#\xa2\xdc\x00\x5f\x7f;=\xdb".to_vec())
        ];
        prop::collection::vec(byte, WIDTH).prop_map(|bytes| bytes.try_into().expect("as many"))
    }

    proptest! {
        #[test]
        fn the_bytes_of_each_kind_are_marked(bytes in bytes()) {
            let specials = places(&bytes, |byte| matches!(byte, b'"' | b'\\' | 0..0x20));
            let by_kind = [
                places(&bytes, |byte| byte == b'"'),
                places(&bytes, |byte| byte == b'\\'),
                places(&bytes, |byte| matches!(byte, b'{' | b'[')),
                places(&bytes, |byte| matches!(byte, b'}' | b']')),
            ];
            prop_assert_eq!((special(&bytes), kinds(&bytes)), (specials, by_kind));
        }

        #[test]
        fn strings_are_the_bytes_from_a_quote_to_the_one_before_the_next(bytes: [u8; 8], inside: bool) {
            let quotes = u64::from_le_bytes(bytes);
            let block = Block { quotes, ..Block::default() };
            let mut now = inside;
            let want = (0..64).fold(0, |bits, at| {
                now ^= quotes >> at & 1 == 1;
                bits | u64::from(now) << at
            });
            prop_assert_eq!(block.strings(if inside { u64::MAX } else { 0 }), want);
        }
    }
}
