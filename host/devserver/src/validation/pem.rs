//! PEM as Go reads it: blocks in base64 between lines that name them, with any text around. What is no block is skipped.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// What its first line says that it is.
    pub(super) kind: String,
    /// Whether there are lines with a name and a value in front of its content.
    pub(super) has_headers: bool,
    pub(super) bytes: Vec<u8>,
}

/// The blocks of a text.
pub(super) fn blocks(text: &[u8]) -> impl Iterator<Item = Block> {
    let mut begun: Option<(&str, Vec<&str>)> = None;
    let lines =
        text.split(|byte| *byte == b'\n').map(|line| std::str::from_utf8(line).unwrap_or("?").trim_end());
    lines.filter_map(move |line| {
        let name = |start: &str| line.strip_prefix(start)?.strip_suffix("-----");
        if let Some(kind) = name("-----BEGIN ") {
            begun = Some((kind, Vec::new()));
            return None;
        }
        if !line.starts_with("-----END ") {
            if let Some((_, content)) = &mut begun {
                content.push(line);
            }
            return None;
        }
        let (kind, content) = begun.take()?;
        if name("-----END ") == Some(kind) { block(kind, &content) } else { None }
    })
}

fn block(kind: &str, content: &[&str]) -> Option<Block> {
    let headers = content.iter().take_while(|line| line.contains(':')).count();
    let letters: String = content[headers..].concat().split([' ', '\t', '\r']).collect();
    let bytes = STANDARD.decode(letters).ok()?;
    Some(Block { kind: kind.to_owned(), has_headers: headers > 0, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The blocks of a text, as texts.
    fn read(text: &str) -> Vec<(String, bool, String)> {
        let shown = |block: Block| (block.kind, block.has_headers, String::from_utf8(block.bytes).unwrap());
        blocks(text.as_bytes()).map(shown).collect()
    }

    #[test]
    fn blocks_are_found_among_other_lines() {
        let text = "hello\n-----BEGIN A-----\n-----BEGIN B-----\naGVs\nbG8=\n-----END B-----\n-----BEGIN C-----\nx: y\n\nYQ==\n\
                    -----END C-----";
        let found = read(text);
        assert_eq!(found, [("B".into(), false, "hello".into()), ("C".into(), true, "a".into())]);
    }

    #[test]
    fn what_is_no_block_is_skipped() {
        for text in [
            "",
            "-----BEGIN A-----\naGVsbG8=",
            "-----BEGIN A-----\naGVsbG8=\n-----END B-----",
            "-----BEGIN A-----\n!\n-----END A-----",
            " -----BEGIN A-----\nYQ==\n-----END A-----",
            "-----END A-----",
        ] {
            assert_eq!(read(text), [], "{text}");
        }
    }
}
