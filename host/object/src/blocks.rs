//! SIMD scanning of JSON text: finds the first byte that needs attention within a string, and the positions of quotes,
//! backslashes and brackets in a block of 64 bytes. Only `scan` calls this module.

use wide::u8x16;

/// Number of bytes that [`first_special`] examines.
pub(crate) const WIDTH: usize = 16;

/// Index of the first quote, backslash or control character; [`WIDTH`] when there is none.
#[inline]
pub(crate) fn first_special(bytes: &[u8; WIDTH]) -> usize {
    (special(bytes) | 1 << WIDTH).trailing_zeros() as usize
}

/// Bit masks of the positions of quotes, backslashes and brackets in 64 bytes; bit n is byte n.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BlockMasks {
    pub(crate) quotes: u64,
    pub(crate) backslashes: u64,
    /// `{` and `[`.
    pub(crate) opening: u64,
    /// `}` and `]`.
    pub(crate) closing: u64,
}

impl BlockMasks {
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
}

/// Computes which bytes are within strings, block by block.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StringScanner {
    /// All ones when the next block begins within a string, else zero.
    inside: u64,
    /// 1 when the first byte of the next block is escaped, else 0.
    escaped: u64,
}

impl StringScanner {
    /// The mask of bytes within strings: opening quotes are included, closing quotes are not.
    #[inline]
    pub(crate) fn next(&mut self, block: &BlockMasks) -> u64 {
        let mut bits = block.quotes;
        if block.backslashes | self.escaped != 0 {
            bits &= !self.escaped(block.backslashes);
        }
        // Prefix XOR: each bit becomes the parity of the quotes up to and including it.
        for shift in [1, 2, 4, 8, 16, 32] {
            bits ^= bits << shift;
        }
        bits ^= self.inside;
        self.inside = 0_u64.wrapping_sub(bits >> 63);
        bits
    }

    /// The mask of bytes that follow an unescaped backslash.
    fn escaped(&mut self, backslashes: u64) -> u64 {
        const EVEN: u64 = u64::MAX / 3;
        // In a run of backslashes the first one escapes, the third one, and so on. Adding the start bits of the runs
        // that begin at odd positions carries through those runs only; the carry marks their ends.
        let backslashes = backslashes & !self.escaped;
        let follows = backslashes << 1 | self.escaped;
        let odd_starts = backslashes & !EVEN & !follows;
        let (ends, overflow) = odd_starts.overflowing_add(backslashes);
        self.escaped = u64::from(overflow);
        (EVEN ^ ends << 1) & follows
    }
}

/// The only bit in which `{` differs from `[`, and `}` from `]`.
const CASE: u8 = 0x20;

fn each(byte: u8) -> u8x16 {
    u8x16::splat(byte)
}

/// Mask of quotes, backslashes and control characters.
#[inline]
fn special(bytes: &[u8; WIDTH]) -> u32 {
    let bytes = u8x16::new(*bytes);
    let found = bytes.simd_eq(each(b'"')) | bytes.simd_eq(each(b'\\')) | bytes.simd_eq(bytes.min(each(0x1f)));
    found.to_bitmask()
}

/// Masks of quotes, backslashes, opening brackets and closing brackets.
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
        fn strings_go_from_a_quote_to_the_one_before_the_next_that_is_not_escaped(
            text in prop::collection::vec(prop::sample::select(b"aaa\"\"\\\\\\".to_vec()), 256),
        ) {
            let (mut strings, mut inside, mut escaped) = (StringScanner::default(), false, false);
            for bytes in text.as_chunks::<64>().0 {
                let want = bytes.iter().enumerate().fold(0, |bits, (at, byte)| {
                    inside ^= *byte == b'"' && !escaped;
                    escaped = *byte == b'\\' && !escaped;
                    bits | u64::from(inside) << at
                });
                prop_assert_eq!(strings.next(&BlockMasks::of(bytes)), want);
            }
        }
    }
}
