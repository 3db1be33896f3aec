//! [`Document`]: an object in a file, and where it stands there.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{StartError, StartError::Read};

/// One document of a YAML or JSON file. The items of a `List` are documents of their own, at the place of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The file.
    pub path: PathBuf,
    /// Which of its documents, from 1.
    pub number: usize,
    /// On which line of the file it begins, from 1.
    pub line: usize,
    /// What it says.
    pub object: Value,
}

impl Document {
    /// The documents of a file, without empty ones.
    ///
    /// # Errors
    /// When the file cannot be read, or is not YAML or JSON.
    pub fn read(path: &Path) -> Result<Vec<Self>, StartError> {
        let mut documents = Vec::new();
        let text = std::fs::read_to_string(path).map_err(|source| Read { path: path.to_owned(), source })?;
        for (index, (before, part)) in parts(&text).into_iter().enumerate() {
            // Behind as many empty lines as stand before it, so that errors name the right one.
            let line = before
                + 1
                + part.lines().take_while(|line| line.starts_with("---") || says_nothing(line)).count();
            let part = "\n".repeat(before) + part;
            let document = |object| Self { path: path.to_owned(), number: index + 1, line, object };
            let objects: Vec<Value> = serde_saphyr::from_multiple(&part)
                .map_err(|error| document(Value::Null).wrong(format!("not YAML: {error}")))?;
            for object in objects {
                match object {
                    Value::Null => {}
                    Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                        match list.remove("items") {
                            Some(Value::Array(items)) => documents.extend(items.into_iter().map(document)),
                            None | Some(Value::Null) => {}
                            Some(_) => {
                                return Err(document(Value::Null).wrong("items of a List must be a list"));
                            }
                        }
                    }
                    object => documents.push(document(object)),
                }
            }
        }
        Ok(documents)
    }

    /// An error about this document.
    pub fn wrong(&self, message: impl Into<String>) -> StartError {
        let (path, document, line) = (self.path.clone(), self.number, self.line);
        StartError::Object { path, document, line, message: message.into() }
    }

    /// The text at a JSON pointer; empty if there is none.
    pub fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// What others stand on comes first.
    pub(crate) fn rank(&self) -> u8 {
        match self.text("/kind") {
            "CustomResourceDefinition" => 0,
            "Namespace" => 1,
            _ => 2,
        }
    }
}

/// The file, or the YAML and JSON files of a folder by name.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>, StartError> {
    let failed = |source| Read { path: path.to_owned(), source };
    if !path.metadata().map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if path.is_file() && matches!(extension, "yaml" | "yml" | "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Whether a text has empty lines, comments and directives alone.
fn says_nothing(part: &str) -> bool {
    part.lines().all(|line| matches!(line.trim_start().bytes().next(), None | Some(b'#' | b'%')))
}

/// The documents of a text, empty ones too, each with how many lines stand before it.
pub fn parts(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut lines_before, mut at) = (0, 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if line.starts_with("---") && number > 0 {
            // What stands before the first mark and says nothing is no document.
            if !(parts.is_empty() && says_nothing(&text[start..at])) {
                parts.push((lines_before, &text[start..at]));
            }
            (start, lines_before) = (at, number);
        }
        at += line.len();
    }
    parts.push((lines_before, &text[start..]));
    parts
}
