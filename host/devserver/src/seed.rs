//! Objects from files, as `kubectl apply --server-side --force-conflicts -f FOLDER` would make them, with their status.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::StartError;
use crate::api::ApiError;
use crate::documents::{Document, files};
use crate::server::Seeded;
use crate::verbs::{Core, ObjectPart, Write};

/// The field manager of what files say.
const MANAGER: &str = "pilothouse-dev";

/// Makes or brings up to date the objects of a file or of the files of a folder, up to the first fault.
pub(crate) fn seed(core: &Arc<Core>, path: &Path) -> Result<Seeded, StartError> {
    let mut documents = Vec::new();
    for file in files(path)? {
        documents.extend(Document::read(&file)?);
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
        match Document::read(path) {
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
