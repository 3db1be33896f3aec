//! Objects from files, as `kubectl apply --server-side --force-conflicts -f FOLDER` would make them, with their status.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::api::ApiError;
use crate::server::Seeded;
use crate::verbs::{Core, ObjectPart, Write};
use crate::{StartError, StartError::Read};

/// The field manager of what files say.
const MANAGER: &str = "pilothouse-dev";

/// One document of a file.
struct Document {
    path: PathBuf,
    number: usize,
    /// Where it begins.
    line: usize,
    object: Value,
}

impl Document {
    fn wrong(&self, message: impl Into<String>) -> StartError {
        let (path, document, line) = (self.path.clone(), self.number, self.line);
        StartError::Object { path, document, line, message: message.into() }
    }

    fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// What others stand on comes first.
    fn rank(&self) -> u8 {
        match self.text("/kind") {
            "CustomResourceDefinition" => 0,
            "Namespace" => 1,
            _ => 2,
        }
    }
}

/// Makes or brings up to date the objects of a file or of the files of a folder, up to the first fault.
pub(crate) fn seed(core: &Arc<Core>, path: &Path) -> Result<Seeded, StartError> {
    let mut documents = Vec::new();
    for file in files(path)? {
        documents.extend(read(&file)?);
    }
    let mut seeded = Seeded::default();
    put_all(core, documents, &mut seeded, Err)?;
    Ok(seeded)
}

/// Makes or brings up to date the objects of some files. Nothing is taken of a file that cannot be read whole; an object that
/// is refused does not keep the others back.
pub(crate) fn seed_files(core: &Arc<Core>, paths: &[PathBuf]) -> (Seeded, Vec<StartError>) {
    let (mut documents, mut faults) = (Vec::new(), Vec::new());
    for path in paths {
        match read(path) {
            Ok(read) => documents.extend(read),
            Err(fault) => faults.push(fault),
        }
    }
    let mut seeded = Seeded::default();
    let collected = put_all(core, documents, &mut seeded, |fault| {
        faults.push(fault);
        Ok(())
    });
    faults.extend(collected.err());
    (seeded, faults)
}

fn put_all(
    core: &Arc<Core>,
    mut documents: Vec<Document>,
    seeded: &mut Seeded,
    mut refused: impl FnMut(StartError) -> Result<(), StartError>,
) -> Result<(), StartError> {
    documents.sort_by_key(Document::rank);
    for document in &documents {
        match put(core, document) {
            Ok(true) => seeded.created += 1,
            Ok(false) => seeded.updated += 1,
            Err(fault) => refused(fault)?,
        }
    }
    Ok(())
}

/// The file, or the YAML and JSON files of a folder by name.
fn files(path: &Path) -> Result<Vec<PathBuf>, StartError> {
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

fn read(path: &Path) -> Result<Vec<Document>, StartError> {
    let mut documents = Vec::new();
    let text = std::fs::read_to_string(path).map_err(|source| Read { path: path.to_owned(), source })?;
    for (index, (before, part)) in parts(&text).into_iter().enumerate() {
        // Behind as many empty lines as stand before it, so that errors name the right one.
        let line = before
            + 1
            + part.lines().take_while(|line| line.starts_with("---") || says_nothing(line)).count();
        let part = "\n".repeat(before) + part;
        let document = |object| Document { path: path.to_owned(), number: index + 1, line, object };
        let objects: Vec<Value> = serde_saphyr::from_multiple(&part)
            .map_err(|error| document(Value::Null).wrong(format!("not YAML: {error}")))?;
        for object in objects {
            match object {
                Value::Null => {}
                Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                    match list.remove("items") {
                        Some(Value::Array(items)) => documents.extend(items.into_iter().map(document)),
                        None | Some(Value::Null) => {}
                        Some(_) => return Err(document(Value::Null).wrong("items of a List must be a list")),
                    }
                }
                object => documents.push(document(object)),
            }
        }
    }
    Ok(documents)
}

/// Whether a text has empty lines, comments and directives alone.
fn says_nothing(part: &str) -> bool {
    part.lines().all(|line| matches!(line.trim_start().bytes().next(), None | Some(b'#' | b'%')))
}

/// The documents of a file, empty ones too, each with how many lines stand before it.
fn parts(text: &str) -> Vec<(usize, &str)> {
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

/// Makes an object, or brings the one that is there to what the document says; whether it was made.
fn put(core: &Arc<Core>, document: &Document) -> Result<bool, StartError> {
    let (api_version, kind) = (document.text("/apiVersion"), document.text("/kind"));
    if api_version.is_empty() || kind.is_empty() {
        return Err(document.wrong("it has no apiVersion or no kind"));
    }
    let served = core.registry.now();
    let resource = served.of_kind(api_version, kind).ok_or_else(|| {
        document.wrong(format!(
            "{api_version} {kind} is not served: is the CustomResourceDefinition in the same folder, and the version right?"
        ))
    })?;
    let name = document.text("/metadata/name").to_owned();
    let namespace = resource.namespaced.then(|| match document.text("/metadata/namespace") {
        "" => "default".to_owned(),
        namespace => namespace.to_owned(),
    });
    if name.is_empty() {
        return Err(document.wrong("it has no metadata.name, by which it could be applied again"));
    }
    let mut write = Write::own(resource.clone(), namespace, &name);
    write.manager = MANAGER.to_owned();
    let refused = |error: ApiError| document.wrong(error.message);
    let mut object = document.object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        // Files are often what `kubectl get` has printed.
        metadata.remove("managedFields");
    }
    let (_, is_new) = core.apply_object(&write, ObjectPart::Main, &object, true).map_err(refused)?;
    for warning in write.warnings.texts() {
        tracing::warn!(path = %document.path.display(), kind, name, "{warning}");
    }
    if object.get("status").is_some() && resource.has_status() {
        write.subresource = "status".to_owned();
        core.apply_object(&write, ObjectPart::Status, &object, true).map_err(refused)?;
    }
    Ok(is_new)
}
