//! `pilothouse crd`: the CustomResourceDefinitions that the compiler wrote into a component, as YAML.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use serde_json::Value;
use wasmparser::{Parser, Payload};

use crate::output::print;
use crate::yaml::yaml;

/// The custom section of a component that has its definitions: a JSON document a line.
const SECTION: &str = "pilothouse.crd";

const EXAMPLES: &str = "Examples:
  # The definitions of a component, for the cluster
  pilothouse crd foo_controller.wasm | kubectl apply -f -

  # For a review, and for `pilothouse dev`
  pilothouse crd foo_controller.wasm > objects/crd.yaml";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Crd {
    /// Component (.wasm)
    file: PathBuf,
}

impl Crd {
    pub(crate) fn main(&self) -> Result<()> {
        let shown = self.file.display();
        let wasm = fs::read(&self.file)
            .map_err(|error| anyhow!("{shown} cannot be read: {error}; name a component (.wasm)"))?;
        let definitions = definitions(&wasm).with_context(|| shown.to_string())?;
        if definitions.is_empty() {
            bail!(
                "{shown} has no CustomResourceDefinition: derive one with #[derive(Resource)] and #[resource(…, crd)]"
            );
        }
        let documents: Vec<String> = definitions.iter().map(yaml).collect();
        print(&documents.join("---\n"))
    }
}

/// The definitions in a component, in the order of their names.
pub(crate) fn definitions(wasm: &[u8]) -> Result<Vec<Value>> {
    let mut definitions = Vec::new();
    // A component holds core modules, and the compiler writes into those.
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload.map_err(|error| anyhow!("it is no component: {error}; build it again"))?;
        let Payload::CustomSection(section) = payload else { continue };
        if section.name() != SECTION {
            continue;
        }
        for line in section.data().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let definition: Value = serde_json::from_slice(line).map_err(|error| {
                anyhow!("its section {SECTION} is damaged: {error}; build it with a matching pilothouse-sdk")
            })?;
            definitions.push(definition);
        }
    }
    let name = |definition: &Value| definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    definitions.sort_by_key(name);
    Ok(definitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core module with one custom section.
    fn module(content: &str) -> Vec<u8> {
        let mut section = vec![u8::try_from(SECTION.len()).unwrap()];
        section.extend(SECTION.bytes().chain(content.bytes()));
        let mut wasm = b"\0asm\x01\0\0\0\0".to_vec();
        wasm.push(u8::try_from(section.len()).unwrap());
        wasm.extend(section);
        wasm
    }

    #[test]
    fn definitions_are_lines_of_the_section_in_the_order_of_their_names() {
        let found =
            definitions(&module("{\"metadata\":{\"name\":\"b\"}}\n{\"metadata\":{\"name\":\"a\"}}\n"))
                .unwrap();
        let names: Vec<&Value> = found.iter().map(|definition| &definition["metadata"]["name"]).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(definitions(&module("")).unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn what_is_no_component_or_damaged_is_an_error() {
        for (wasm, wanted) in [(b"#!/bin/sh".to_vec(), "it is no component"), (module("{\n"), "is damaged")] {
            let error = definitions(&wasm).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
