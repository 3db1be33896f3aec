//! [`ShortText`]: a text of up to 15 bytes that lies where it is used, so that reading it costs no memory access of its
//! own.

/// A text of at most 15 bytes.
#[derive(Clone, Copy)]
pub(crate) struct ShortText {
    len: u8,
    bytes: [u8; ShortText::MOST],
}

impl ShortText {
    const MOST: usize = 15;

    /// `None` when the text is longer than that.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; Self::MOST];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Self { len: u8::try_from(text.len()).ok()?, bytes })
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl std::fmt::Debug for ShortText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::ShortText;

    #[test]
    fn a_text_comes_back_or_is_too_long() {
        for text in ["", "7", "123456789012345"] {
            assert_eq!(ShortText::new(text).unwrap().as_str(), text);
        }
        assert!(ShortText::new("1234567890123456").is_none());
    }
}
