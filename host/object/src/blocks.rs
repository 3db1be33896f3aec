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
}

/// Goes from block to block and tells which bytes are within strings.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Strings {
    /// All ones: the next block begins within a string.
    inside: u64,
    /// 1: the first byte of the next block is escaped.
    escaped: u64,
}

impl Strings {
    /// The bits within strings, opening quotes included.
    #[inline]
    pub(crate) fn next(&mut self, block: &Block) -> u64 {
        let mut bits = block.quotes;
        if block.backslashes | self.escaped != 0 {
            bits &= !self.escaped(block.backslashes);
        }
        // Each bit becomes the parity of those up to it.
        for shift in [1, 2, 4, 8, 16, 32] {
            bits ^= bits << shift;
        }
        bits ^= self.inside;
        self.inside = 0_u64.wrapping_sub(bits >> 63);
        bits
    }

    /// The bits behind a backslash that is not escaped itself.
    fn escaped(&mut self, backslashes: u64) -> u64 {
        const EVEN: u64 = u64::MAX / 3;
        // The first of each run of backslashes escapes; from there every second one does. Adding the starts on odd places to
        // the runs carries out of these runs alone, and tells where they end.
        let backslashes = backslashes & !self.escaped;
        let follows = backslashes << 1 | self.escaped;
        let odd_starts = backslashes & !EVEN & !follows;
        let (ends, overflow) = odd_starts.overflowing_add(backslashes);
        self.escaped = u64::from(overflow);
        (EVEN ^ ends << 1) & follows
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
        fn strings_go_from_a_quote_to_the_one_before_the_next_that_is_not_escaped(
            text in prop::collection::vec(prop::sample::select(b"aaa\"\"\\\\\\".to_vec()), 256),
        ) {
            let (mut strings, mut inside, mut escaped) = (Strings::default(), false, false);
            for bytes in text.as_chunks::<64>().0 {
                let want = bytes.iter().enumerate().fold(0, |bits, (at, byte)| {
                    inside ^= *byte == b'"' && !escaped;
                    escaped = *byte == b'\\' && !escaped;
                    bits | u64::from(inside) << at
                });
                prop_assert_eq!(strings.next(&Block::of(bytes)), want);
            }
        }
    }
}
