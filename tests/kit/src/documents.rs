//! The documents of the repository and their code blocks, for tests that check the documents against the code.

use std::fs;
use std::io;

use crate::paths;

/// A code block of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The text after the opening fence: `yaml`, `console`, …
    pub language: String,
    /// The lines of the block.
    pub text: String,
}

/// The pages of `docs`, README.md and CONTRIBUTING.md, as paths relative to the root of the repository.
///
/// # Errors
/// When `docs` cannot be read.
pub fn documents() -> io::Result<Vec<String>> {
    let mut documents = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for entry in fs::read_dir(paths::repository().join("docs"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            documents.push(format!("docs/{name}"));
        }
    }
    Ok(documents)
}

/// The code blocks of a document.
///
/// # Errors
/// When the document cannot be read.
pub fn blocks(document: &str) -> io::Result<Vec<Block>> {
    Ok(blocks_of(&fs::read_to_string(paths::repository().join(document))?))
}

/// The texts of a document's code blocks of one language.
///
/// # Errors
/// When the document cannot be read.
pub fn blocks_in(document: &str, language: &str) -> io::Result<Vec<String>> {
    let blocks = blocks(document)?.into_iter();
    Ok(blocks.filter(|block| block.language == language).map(|block| block.text).collect())
}

/// The commands of the `console` blocks, with the path of the document: lines with a prompt, without comments.
///
/// # Errors
/// When a document cannot be read.
pub fn commands() -> io::Result<Vec<(String, String)>> {
    let mut commands = Vec::new();
    for document in documents()? {
        for block in blocks_in(&document, "console")? {
            let typed = block.lines().filter_map(|line| line.strip_prefix("$ "));
            commands.extend(typed.map(|command| {
                let command = command.split(" #").next().unwrap_or_default();
                (document.clone(), command.trim().to_owned())
            }));
        }
    }
    Ok(commands)
}

fn blocks_of(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            let ended = |line: &&str| !line.trim_start().starts_with("```");
            let block: Vec<&str> = lines.by_ref().take_while(ended).collect();
            blocks.push(Block { language: language.to_owned(), text: block.join("\n") });
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_told_apart_by_their_fences_and_languages() {
        let text = "a\n```yaml\nb: 1\nc: 2\n```\nd\n```\ne\n```\n```console\n```\n";
        let block =
            |language: &str, text: &str| Block { language: language.to_owned(), text: text.to_owned() };
        assert_eq!(blocks_of(text), [block("yaml", "b: 1\nc: 2"), block("", "e"), block("console", "")]);
    }
}
