//! `pilothouse crd`: the CustomResourceDefinitions that the compiler wrote into a component, or that of Plugins, as YAML.

mod definition;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use wasmparser::{Parser, Payload};

use self::definition::Definition;
use pilothouse_hosting::output::print;
use pilothouse_hosting::yaml::yaml;

/// The custom section of a component that has its definitions: a JSON document a line.
const SECTION: &str = "pilothouse.crd";

const EXAMPLES: &str = "Examples:
  # The definitions of a component, for the cluster
  pilothouse crd foo_controller.wasm | kubectl apply -f -

  # For a review, and for `pilothouse dev`
  pilothouse crd foo_controller.wasm > objects/crd.yaml

  # That of Plugins, for a host with --plugins-from-cluster
  pilothouse crd --plugins | kubectl apply -f -";

/// The definition of Plugins.
const PLUGINS: &str = include_str!("plugins.yaml");

/// The command `pilothouse crd`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Crd {
    /// Component (.wasm)
    #[arg(required_unless_present = "plugins")]
    file: Option<PathBuf>,
    /// Print the definition of Plugins, which a host with --plugins-from-cluster runs
    #[arg(long, conflicts_with = "file")]
    plugins: bool,
}

impl Crd {
    /// Runs the command.
    ///
    /// # Errors
    /// With what went wrong, and what to do about it.
    pub fn main(&self) -> Result<()> {
        // Without a file it is that of Plugins.
        let Some(file) = &self.file else { return print(PLUGINS) };
        let shown = file.display();
        let wasm = fs::read(file)
            .map_err(|error| anyhow!("{shown} cannot be read: {error}; name a component (.wasm)"))?;
        let definitions = definitions(&wasm).with_context(|| shown.to_string())?;
        if definitions.is_empty() {
            bail!(
                "{shown} has no CustomResourceDefinition: derive one with #[derive(Resource)] and #[resource(…, crd)]"
            );
        }
        let mut documents = Vec::new();
        for definition in definitions.values() {
            documents.push(yaml(&serde_json::to_value(definition)?));
        }
        print(&documents.join("---\n"))
    }
}

/// The definitions in a component, by their names.
pub(crate) fn definitions(wasm: &[u8]) -> Result<BTreeMap<String, Definition>> {
    let mut definitions: BTreeMap<String, Definition> = BTreeMap::new();
    // A component holds core modules, and the compiler writes into those.
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload.map_err(|error| anyhow!("it is no component: {error}; build it again"))?;
        let Payload::CustomSection(section) = payload else { continue };
        if section.name() != SECTION {
            continue;
        }
        for line in section.data().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let definition = definition::parse(line).with_context(|| format!("its section {SECTION}"))?;
            let other = definitions.get(definition.name()).filter(|other| **other != definition);
            if let Some(other) = other {
                bail!(
                    "it has two definitions {:?}, of {} and {}, and the second would replace the first; #[derive(Resource)] makes definitions of one version: leave `crd` to one type, and write the others by hand",
                    definition.name(),
                    other.versions(),
                    definition.versions()
                );
            }
            definitions.insert(definition.name().to_owned(), definition);
        }
    }
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
        // Its length in LEB128, of two bytes.
        let length = section.len();
        wasm.extend([u8::try_from(length & 0x7f).unwrap() | 0x80, u8::try_from(length >> 7).unwrap()]);
        wasm.extend(section);
        wasm
    }

    fn line(plural: &str, version: &str) -> String {
        format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"{plural}.example.org"}},"spec":{{"group":"example.org","names":{{"plural":"{plural}"}},"scope":"Cluster","versions":[{{"name":"{version}"}}]}}}}"#
        )
    }

    #[test]
    fn definitions_are_lines_of_the_section_in_the_order_of_their_names() {
        let (a, b) = (line("a", "v1"), line("b", "v1"));
        // One that is there twice is the same type, linked twice.
        let found = definitions(&module(&format!("{b}\n{a}\n{b}\n"))).unwrap();
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["a.example.org", "b.example.org"]);
        assert!(definitions(&module("")).unwrap().is_empty());
    }

    #[test]
    fn two_versions_of_one_kind_are_refused_since_the_second_would_replace_the_first() {
        let both = format!("{}\n{}\n", line("a", "v1alpha1"), line("a", "v1"));
        let error = definitions(&module(&both)).unwrap_err().to_string();
        assert!(error.contains("\"a.example.org\", of v1alpha1 and v1,"), "{error}");
    }

    #[test]
    fn what_is_no_component_or_no_definition_is_an_error() {
        let binding = "{\"apiVersion\":\"rbac.authorization.k8s.io/v1\",\"kind\":\"ClusterRoleBinding\"}\n";
        for (wasm, wanted) in [
            (b"#!/bin/sh".to_vec(), "it is no component"),
            (module("{\n"), "pilothouse.crd: it is damaged"),
            (module(&(line("a", "v1") + "\n" + binding)), "rbac.authorization.k8s.io/v1/ClusterRoleBinding"),
        ] {
            let error = format!("{:#}", definitions(&wasm).unwrap_err());
            assert!(error.contains(wanted), "{error}");
        }
    }
}
