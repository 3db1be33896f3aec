//! The manifests and descriptors in the documents are ones that the host takes, and the messages shown are its messages.

use std::fs;
use std::path::{Path, PathBuf};

use pilothouse_plugin::{Access, Description, Grants, Manifest, Place, World};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The code blocks of one language in a document.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(repository().join(document)).unwrap();
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(of) = line.strip_prefix("```").filter(|of| !of.is_empty()) {
            let block: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            if of == language {
                blocks.push(block.join("\n"));
            }
        }
    }
    blocks
}

/// All pages for users.
fn documents() -> Vec<String> {
    let pages = fs::read_dir(repository().join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let pages = pages.filter_map(|name| name.into_string().ok()).filter(|name| name.ends_with(".md"));
    pages.map(|name| format!("docs/{name}")).chain(["README.md".to_owned()]).collect()
}

#[test]
fn every_manifest_in_the_documents_is_taken() {
    let mut manifests = 0;
    for document in documents() {
        for block in blocks(&document, "yaml") {
            if !block.contains("kind: Plugin") {
                continue;
            }
            manifests += 1;
            Manifest::parse(block.as_bytes()).unwrap_or_else(|error| panic!("{document}: {error}\n{block}"));
        }
    }
    assert!(manifests >= 2, "only {manifests} manifests were found");
}

#[test]
fn the_descriptor_in_the_documents_is_taken() {
    let [descriptor] = &blocks("docs/describe.md", "json")[..] else { panic!("one descriptor") };
    let description = Description::parse(descriptor.as_bytes(), World::Reconciler).unwrap();
    assert_eq!(description.name, "node-report");
}

#[test]
fn the_messages_in_the_documents_are_those_of_the_host() {
    let [limit, denied] = &blocks("docs/manifest.md", "text")[..] else { panic!("two messages") };
    let one_line = |block: &str| block.replace('\n', " ");
    let manifest = blocks("docs/manifest.md", "yaml")[0].replace("memory: 64Mi", "memory: 64MB");
    let error = Manifest::parse(manifest.as_bytes()).unwrap_err().to_string();
    let shown = one_line(limit);
    // The position depends on the file; the rest does not.
    let (_, reason) = shown.split_once("spec.limits.memory").unwrap();
    assert!(error.ends_with(&format!("spec.limits.memory{reason}")), "{error}\n{shown}");

    let access = Access {
        verb: "patch",
        group: "apps",
        resource: "deployments",
        subresource: Some("scale"),
        place: Place::Namespace("shop"),
        name: Some("web"),
    };
    let missing = Grants::default().check(&access).unwrap_err().to_string();
    assert_eq!(missing, one_line(denied));
}
