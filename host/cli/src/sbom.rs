//! `pilothouse sbom`: prints the software bill of materials of a plugin crate, as CycloneDX in JSON.
//!
//! Cargo says which crates are linked: those that the crate needs on the compilation target, as its `Cargo.lock` has them.
//! `cargo metadata` knows them well, and with them those that only a feature of a dev-dependency or of another crate of the
//! workspace asks for; `cargo tree` knows which are built. What both name is in the document, and macros that it uses as excluded.
//! Invariant: the same crate with the same lock file has the same document: no time, no random number, no path.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use pilothouse_plugin::directory::digest_of;
use pilothouse_toolchain::TARGET;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::build::only_project;
use crate::dev::cargo::printed;
use crate::dev::projects::Source;
use crate::output::print;

const EXAMPLES: &str = "Examples:
  # The crates of the plugin crate in this folder
  pilothouse sbom > sbom.json

  # With the digest of its component
  pilothouse sbom plugins/greeter --component plugins/greeter/greeter.wasm";

/// The source of crates with a package URL.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Which dependencies `cargo tree` follows: no macros, which run in the compiler, nor what these need.
const LINKED: [&str; 2] = ["--edges", "normal,no-proc-macro"];

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Sbom {
    /// Plugin crate: a folder, or its Cargo.toml
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// Component (.wasm) of the crate, whose digest is part of the document
    #[arg(long, value_name = "FILE")]
    component: Option<PathBuf>,
}

impl Sbom {
    pub(crate) fn main(self) -> Result<()> {
        let project = only_project(&self.path)?;
        let Source::Crate(_) = &project.source else {
            bail!("{} is a component: name the crate that it is built from", self.path.display());
        };
        let manifest = project.folder.join("Cargo.toml");
        // The lock file has to be as it is.
        let cargo = |args: &[&str]| printed(&project.folder, &manifest, &[args, &["--locked"]].concat());
        let metadata = cargo(&["metadata", "--format-version", "1", "--filter-platform", TARGET])?;
        let linked =
            [&["tree", "--target", TARGET, "--prefix", "none", "--format", "{p}"][..], &LINKED].concat();
        let linked = references(&String::from_utf8_lossy(&cargo(&linked)?));
        let digest = self.component.as_ref().map(|file| {
            std::fs::read(file)
                .map(|content| digest_of(&content))
                .with_context(|| format!("reading {}", file.display()))
        });
        let metadata: Metadata = serde_json::from_slice(&metadata)
            .with_context(|| format!("parsing `cargo metadata` of {}", manifest.display()))?;
        let document = document(&metadata, &manifest, &linked, digest.transpose()?.as_deref())?;
        print(&format!("{document:#}\n"))
    }
}

/// The references of the packages that `cargo tree` prints, as `NAME vVERSION` and more.
fn references(tree: &str) -> BTreeSet<String> {
    let reference = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next()?, words.next()?);
        Some(format!("{name}@{}", version.strip_prefix('v').unwrap_or(version)))
    };
    tree.lines().filter_map(reference).collect()
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    /// None for a normal dependency.
    kind: Option<String>,
}

impl Package {
    fn reference(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// Whether it runs in the compiler, and is not linked.
    fn is_macro(&self) -> bool {
        self.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "proc-macro"))
    }

    /// The crate as a component of CycloneDX.
    fn describe(&self, component_type: &str) -> Value {
        let mut component = json!({
            "type": component_type, "bom-ref": self.reference(), "name": self.name, "version": self.version,
        });
        if let Some(license) = &self.license {
            // The older way of Cargo to write alternatives.
            component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
        }
        if self.source.as_deref() == Some(CRATES_IO) {
            component["purl"] =
                json!(format!("pkg:cargo/{}@{}", self.name, self.version.replace('+', "%2B")));
        }
        component
    }
}

/// The document of the package with this manifest, of which these packages are linked.
fn document(
    metadata: &Metadata,
    manifest: &Path,
    built: &BTreeSet<String>,
    digest: Option<&str>,
) -> Result<Value> {
    let packages: HashMap<&str, &Package> =
        metadata.packages.iter().map(|package| (package.id.as_str(), package)).collect();
    let nodes: HashMap<&str, &Node> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let root = metadata.packages.iter().find(|package| package.manifest_path == manifest);
    let root = root.with_context(|| format!("cargo names no package of {}", manifest.display()))?;
    // The crates, each with what it needs.
    let mut linked: BTreeMap<String, (&Package, Vec<String>)> = BTreeMap::new();
    let mut open = vec![root];
    while let Some(package) = open.pop() {
        if linked.contains_key(&package.reference()) {
            continue;
        }
        let node = nodes.get(package.id.as_str()).filter(|_| !package.is_macro());
        let is_linked =
            |dependency: &&Dependency| dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
        let dependencies = node.into_iter().flat_map(|node| node.deps.iter().filter(is_linked));
        let mut dependencies: Vec<&Package> =
            dependencies.filter_map(|dependency| packages.get(dependency.pkg.as_str()).copied()).collect();
        dependencies.retain(|package| package.is_macro() || built.contains(&package.reference()));
        let mut names: Vec<String> = dependencies.iter().map(|dependency| dependency.reference()).collect();
        names.sort();
        names.dedup();
        linked.insert(package.reference(), (package, names));
        open.extend(dependencies);
    }
    let mut subject = root.describe("application");
    if let Some(digest) = digest {
        subject["hashes"] = json!([{"alg": "SHA-256", "content": digest.trim_start_matches("sha256:")}]);
    }
    let own = root.reference();
    let components = linked.iter().filter(|(reference, _)| **reference != own).map(|(_, (package, _))| {
        let mut component = package.describe("library");
        component["scope"] = json!(if package.is_macro() { "excluded" } else { "required" });
        component
    });
    let dependencies =
        linked.iter().map(|(reference, (_, names))| json!({"ref": reference, "dependsOn": names}));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {"components": [
                {"type": "application", "name": "pilothouse", "version": env!("CARGO_PKG_VERSION")},
            ]},
            "component": subject,
        },
        "components": components.collect::<Vec<_>>(),
        "dependencies": dependencies.collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, source: Option<&str>, kind: &str) -> Value {
        json!({
            "id": format!("id of {name}"), "name": name, "version": version, "license": "MIT/Apache-2.0",
            "source": source, "manifest_path": format!("/w/{name}/Cargo.toml"), "targets": [{"kind": [kind]}],
        })
    }

    fn node(name: &str, deps: &[(&str, Option<&str>)]) -> Value {
        let deps = deps
            .iter()
            .map(|(name, kind)| json!({"pkg": format!("id of {name}"), "dep_kinds": [{"kind": kind}]}));
        json!({"id": format!("id of {name}"), "deps": deps.collect::<Vec<_>>()})
    }

    #[test]
    fn the_document_has_the_crates_that_are_linked_and_no_others() {
        let metadata = json!({
            "packages": [
                package("plugin", "0.1.0", None, "cdylib"),
                package("sdk", "0.2.0", None, "lib"),
                package("wasi", "0.11.0+wasi", Some(CRATES_IO), "lib"),
                package("derive", "1.0.0", Some(CRATES_IO), "proc-macro"),
                package("syn", "2.0.0", Some(CRATES_IO), "lib"),
                package("tester", "1.0.0", Some(CRATES_IO), "lib"),
                package("optional", "1.0.0", Some(CRATES_IO), "lib"),
                package("other", "1.0.0", None, "lib"),
            ],
            "resolve": {"nodes": [
                node("plugin", &[("sdk", None), ("tester", Some("dev")), ("wasi", None)]),
                node("sdk", &[("wasi", None), ("derive", None), ("tester", Some("build")), ("optional", None)]),
                node("wasi", &[]), node("derive", &[("syn", None)]), node("syn", &[]), node("tester", &[]),
                node("other", &[]), node("optional", &[]),
            ]},
        });
        let metadata: Metadata = serde_json::from_value(metadata).unwrap();
        let tree =
            "plugin v0.1.0 (/w/plugin)\nsdk v0.2.0 (/w/sdk)\nwasi v0.11.0+wasi\n\nwasi v0.11.0+wasi (*)\n";
        let (manifest, built) = (Path::new("/w/plugin/Cargo.toml"), references(tree));
        let document = document(&metadata, manifest, &built, Some("sha256:ab")).unwrap();
        let subject = &document["metadata"]["component"];
        assert_eq!(
            (&subject["bom-ref"], &subject["hashes"][0]["content"]),
            (&json!("plugin@0.1.0"), &json!("ab"))
        );
        let components = document["components"].as_array().unwrap();
        let fields = |component: &Value| {
            ["bom-ref", "purl", "scope"]
                .map(|field| component[field].as_str().unwrap_or("-").to_owned())
                .join(" ")
        };
        assert_eq!(
            components.iter().map(fields).collect::<Vec<_>>(),
            [
                "derive@1.0.0 pkg:cargo/derive@1.0.0 excluded",
                "sdk@0.2.0 - required",
                "wasi@0.11.0+wasi pkg:cargo/wasi@0.11.0%2Bwasi required",
            ]
        );
        assert_eq!(components[0]["licenses"], json!([{"expression": "MIT OR Apache-2.0"}]));
        let needs = document["dependencies"].as_array().unwrap().iter().find(|own| own["ref"] == "sdk@0.2.0");
        assert_eq!(needs.unwrap()["dependsOn"], json!(["derive@1.0.0", "wasi@0.11.0+wasi"]));
    }
}
