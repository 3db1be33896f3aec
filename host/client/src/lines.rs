//! [`Lines`]: chunks of a body to lines, without copying those that lie in one chunk.
//!
//! Invariants: every byte of a chunk is looked at once; `partial` is cleared, not freed, after each line, unless an
//! unusually long one has made it large.

use bytes::Bytes;

/// A buffer grown above this is given back after its line.
const KEEP: usize = 256 << 10;

/// Splits a stream of chunks at line breaks.
pub(crate) struct Lines {
    limit: usize,
    /// Bytes that have not been scanned.
    chunk: Bytes,
    /// Beginning of a line whose end is in a later chunk.
    partial: Vec<u8>,
    /// Whether `partial` is a line that has been handed out.
    spent: bool,
    /// The line handed out, when it lay in one chunk.
    line: Bytes,
    /// Whether the chunk begins within a line that is too long.
    skipping: bool,
}

impl Lines {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            chunk: Bytes::new(),
            partial: Vec::new(),
            spent: false,
            line: Bytes::new(),
            skipping: false,
        }
    }

    /// Adds a chunk. The one before must have been used up: `next` gave `None`.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty());
        self.chunk = chunk;
    }

    /// The next line, without its break; `None` when another chunk is needed.
    ///
    /// # Errors
    /// When a line is longer than the limit: how much of it has come. The rest of it is skipped.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, usize> {
        if std::mem::take(&mut self.spent) {
            self.partial.clear();
            self.partial.shrink_to(KEEP);
        }
        let mut found = memchr::memchr(b'\n', &self.chunk);
        if self.skipping {
            self.skip_to(found);
            if found.is_none() {
                return Ok(None);
            }
            found = memchr::memchr(b'\n', &self.chunk);
        }
        let length = self.partial.len() + found.unwrap_or(self.chunk.len());
        if length > self.limit {
            self.partial = Vec::new();
            self.skip_to(found);
            return Err(length);
        }
        let Some(end) = found else {
            self.partial.extend_from_slice(&self.chunk);
            // An idle watch holds no chunk.
            self.chunk = Bytes::new();
            self.line = Bytes::new();
            return Ok(None);
        };
        self.line = self.chunk.split_to(end + 1);
        self.line.truncate(end);
        if self.partial.is_empty() {
            return Ok(Some(&self.line));
        }
        self.partial.extend_from_slice(&self.line);
        self.spent = true;
        Ok(Some(&self.partial))
    }

    /// Skips the chunk up to a line break, or all of it.
    fn skip_to(&mut self, line_break: Option<usize>) {
        self.skipping = line_break.is_none();
        match line_break {
            Some(end) => drop(self.chunk.split_to(end + 1)),
            None => self.chunk = Bytes::new(),
        }
    }

    /// The bytes behind the last line break.
    pub(crate) fn rest(&self) -> &[u8] {
        if self.spent { &[] } else { &self.partial }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]], limit: usize) -> Result<(Vec<String>, String), usize> {
        let mut lines = Lines::new(limit);
        let mut out = Vec::new();
        for chunk in chunks {
            lines.push(Bytes::copy_from_slice(chunk));
            while let Some(line) = lines.next()? {
                out.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        Ok((out, String::from_utf8(lines.rest().to_vec()).unwrap()))
    }

    proptest::proptest! {
        #[test]
        fn lines_do_not_depend_on_where_chunks_end(text in "[a-c\n]{0,60}", cuts in proptest::collection::vec(0usize..60, 0..8)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|w| &text.as_bytes()[w[0]..w[1]]).collect();
            let mut wanted: Vec<String> = text.split('\n').map(str::to_owned).collect();
            let rest = wanted.pop().unwrap();
            proptest::prop_assert_eq!(lines(&chunks, 100).unwrap(), (wanted, rest));
        }
    }

    #[test]
    fn a_line_over_the_limit_is_an_error_in_one_chunk_or_many() {
        assert_eq!(lines(&[b"12345\n"], 5).unwrap().0, ["12345"]);
        assert_eq!(lines(&[b"123456\n"], 5).unwrap_err(), 6);
        assert!(lines(&[b"123", b"456"], 5).is_err());
        assert!(lines(&[b"123", b"456\n"], 5).is_err());
    }

    #[test]
    fn the_buffer_of_a_long_line_is_given_back() {
        let mut lines = Lines::new(16 << 20);
        lines.push(vec![b'x'; 4 << 20].into());
        assert!(lines.next().unwrap().is_none());
        lines.push(Bytes::from_static(b"\n"));
        assert_eq!(lines.next().unwrap().unwrap().len(), 4 << 20);
        assert!(lines.next().unwrap().is_none());
        assert!(lines.partial.capacity() <= KEEP);
    }
}
