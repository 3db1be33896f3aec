//! [`ShortText`]: a text of up to 15 bytes stored inline, so that reading it follows no pointer.

/// An inline text of at most 15 bytes, or a marker that the text is longer and stored elsewhere.
#[derive(Clone, Copy)]
pub(crate) struct ShortText {
    /// Length in bytes; [`LONG`](Self::LONG) when the text is not stored here.
    len: u8,
    bytes: [u8; ShortText::MOST],
}

impl ShortText {
    const MOST: usize = 15;
    const LONG: u8 = u8::MAX;

    pub(crate) fn new(text: &str) -> Self {
        let mut bytes = [0; Self::MOST];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(here), Ok(len)) => {
                here.copy_from_slice(text.as_bytes());
                Self { len, bytes }
            }
            _ => Self { len: Self::LONG, bytes },
        }
    }

    /// The text; `None` when it is too long to be stored here.
    pub(crate) fn get(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes.get(..usize::from(self.len))?).ok()
    }
}

impl std::fmt::Debug for ShortText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::ShortText;

    #[test]
    fn a_text_comes_back_or_is_elsewhere() {
        for text in ["", "7", "123456789012345"] {
            assert_eq!(ShortText::new(text).get(), Some(text));
        }
        assert_eq!(ShortText::new("1234567890123456").get(), None);
    }
}
