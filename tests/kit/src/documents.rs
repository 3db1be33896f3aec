//! The documents of the repository and their code blocks, for tests that check the documents against the code.

use std::collections::BTreeSet;
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
    documents.extend(pages("docs")?);
    Ok(documents)
}

/// As [`documents`], with the changelog, the records of decisions and the internal pages.
///
/// # Errors
/// When `docs` cannot be read.
pub fn all_documents() -> io::Result<Vec<String>> {
    let mut all = documents()?;
    all.push("CHANGELOG.md".to_owned());
    for folder in ["docs/decisions", "docs/internal"] {
        all.extend(pages(folder)?);
    }
    Ok(all)
}

fn pages(folder: &str) -> io::Result<Vec<String>> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(paths::repository().join(folder))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            pages.push(format!("{folder}/{name}"));
        }
    }
    Ok(pages)
}

/// Where the links of a document lead, as it has them. Those to other sites and those in code blocks are left out.
///
/// # Errors
/// When the document cannot be read.
pub fn links(document: &str) -> io::Result<Vec<String>> {
    Ok(links_of(&fs::read_to_string(paths::repository().join(document))?))
}

/// The anchors of a document's headings, as GitHub makes them of headings that are there once.
///
/// # Errors
/// When the document cannot be read.
pub fn anchors(document: &str) -> io::Result<BTreeSet<String>> {
    Ok(anchors_of(&fs::read_to_string(paths::repository().join(document))?))
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

/// The lines outside of code blocks.
fn prose(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let outside = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    outside.collect()
}

fn links_of(text: &str) -> Vec<String> {
    let prose = prose(text).join("\n");
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let targets = targets.map(|(target, _)| target.to_owned());
    targets.filter(|target| !target.contains("://")).collect()
}

fn anchors_of(text: &str) -> BTreeSet<String> {
    let headings = prose(text).into_iter().filter(|line| line.starts_with('#'));
    let kept = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ');
    let anchors = headings.map(|heading| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        words.replace(|c: char| !kept(c), "").replace(' ', "-")
    });
    anchors.collect()
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

    #[test]
    fn links_and_anchors_are_those_outside_of_code_blocks() {
        let text =
            "# A `b_c`, d\n[e](f.md#g) [h](https://i) [j\nk](#l)\n```\n# m\n[n](o.md)\n```\n### `--p`: Q-r\n";
        assert_eq!(links_of(text), ["f.md#g", "#l"]);
        assert_eq!(anchors_of(text).into_iter().collect::<Vec<_>>(), ["--p-q-r", "a-b_c-d"]);
    }
}
