//! `pilothouse sbom`: the document is one of CycloneDX 1.6, and has what Cargo builds into the component and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::cargo::{self, Build};
use pilothouse_testkit::paths::repository;
use pilothouse_tests::{cli, guests};
use serde_json::Value;

/// The target of components.
const TARGET: &str = "wasm32-wasip2";

/// What `pilothouse sbom` prints for a crate.
fn sbom(dir: &Path, of: &Path) -> Result<Value> {
    let printed = cli::run(dir, &["sbom", &of.to_string_lossy()])?;
    ensure!(printed.status.success() && printed.stderr.is_empty(), "{printed:?}");
    Ok(serde_json::from_str(&printed.stdout)?)
}

fn text<'a>(of: &'a Value, field: &str) -> Result<&'a str> {
    of[field].as_str().filter(|text| !text.is_empty()).with_context(|| format!("no {field}: {of}"))
}

fn list<'a>(of: &'a Value, field: &str) -> Result<&'a [Value]> {
    of[field].as_array().map(Vec::as_slice).with_context(|| format!("no list {field}: {of}"))
}

/// Checks that an object has no fields but these, as the schema of CycloneDX demands of most objects.
fn check_fields(of: &Value, known: &[&str]) -> Result<()> {
    let fields = of.as_object().with_context(|| format!("no object: {of}"))?;
    let unknown: Vec<&String> = fields.keys().filter(|field| !known.contains(&field.as_str())).collect();
    ensure!(unknown.is_empty(), "unknown fields {unknown:?}: {of}");
    Ok(())
}

/// Checks a component by the schema `bom-1.6`, as far as our documents use it.
fn check_component(component: &Value) -> Result<()> {
    let known = ["type", "bom-ref", "name", "version", "scope", "hashes", "licenses", "purl"];
    check_fields(component, &known)?;
    ensure!(["application", "library"].contains(&text(component, "type")?), "{component}");
    let (name, version) = (text(component, "name")?, text(component, "version")?);
    ensure!(text(component, "bom-ref")? == format!("{name}@{version}"), "{component}");
    if !component["scope"].is_null() {
        ensure!(["required", "excluded"].contains(&text(component, "scope")?), "{component}");
    }
    if !component["hashes"].is_null() {
        for hash in list(component, "hashes")? {
            check_fields(hash, &["alg", "content"])?;
            let digits = text(hash, "content")?;
            let is_hex = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            ensure!(text(hash, "alg")? == "SHA-256" && is_hex, "{hash}");
        }
    }
    if !component["licenses"].is_null() {
        // One expression, or a list of other things.
        let [license] = list(component, "licenses")? else { anyhow::bail!("{component}") };
        check_fields(license, &["expression"])?;
        let expression = text(license, "expression")?;
        let is_of_spdx = |c: char| c.is_ascii_alphanumeric() || "-.+: ()".contains(c);
        ensure!(expression.chars().all(is_of_spdx), "{expression}");
    }
    if !component["purl"].is_null() {
        let wanted = format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"));
        ensure!(text(component, "purl")? == wanted, "{component}");
    }
    Ok(())
}

/// Checks a document by the schema `bom-1.6`, as far as our documents use it, and that its references lead somewhere.
fn check_document(document: &Value) -> Result<()> {
    let known = ["bomFormat", "specVersion", "version", "metadata", "components", "dependencies"];
    check_fields(document, &known)?;
    ensure!(text(document, "bomFormat")? == "CycloneDX" && text(document, "specVersion")? == "1.6");
    ensure!(document["version"].as_u64().is_some_and(|version| version >= 1), "{}", document["version"]);
    let metadata = &document["metadata"];
    check_fields(metadata, &["tools", "component"])?;
    check_fields(&metadata["tools"], &["components"])?;
    for tool in list(&metadata["tools"], "components")? {
        check_fields(tool, &["type", "name", "version"])?;
        ensure!(text(tool, "type")? == "application" && !text(tool, "name")?.is_empty(), "{tool}");
    }
    let mut references = BTreeSet::new();
    for component in list(document, "components")?.iter().chain([&metadata["component"]]) {
        check_component(component)?;
        let reference = text(component, "bom-ref")?;
        ensure!(references.insert(reference), "{reference} is there twice");
    }
    let mut described = BTreeSet::new();
    for dependency in list(document, "dependencies")? {
        check_fields(dependency, &["ref", "dependsOn"])?;
        let (of, mut seen) = (text(dependency, "ref")?, BTreeSet::new());
        ensure!(references.contains(of) && described.insert(of), "{dependency}");
        for needed in list(dependency, "dependsOn")? {
            let needed = needed.as_str().with_context(|| dependency.to_string())?;
            ensure!(references.contains(needed) && seen.insert(needed), "{needed} of {dependency}");
        }
    }
    ensure!(described == references, "left: described; right: components: {described:?} {references:?}");
    Ok(())
}

/// The names of the components of a scope.
fn named(document: &Value, scope: &str) -> Result<BTreeSet<String>> {
    let of_scope = list(document, "components")?.iter().filter(|component| component["scope"] == scope);
    of_scope.map(|component| anyhow::Ok(text(component, "name")?.to_owned())).collect()
}

#[test]
fn the_document_of_an_example_is_cyclonedx_of_crates_of_its_lock_file() -> Result<()> {
    let dir = tempfile::Builder::new().prefix("sbom-").tempdir()?;
    let example = repository().join("examples/sample-controller");
    let document = sbom(dir.path(), &example)?;
    check_document(&document)?;
    ensure!(document["metadata"]["component"]["name"] == "sample-controller", "{document}");
    let lock = fs::read_to_string(example.join("Cargo.lock"))?;
    for component in list(&document, "components")? {
        let (name, version) = (text(component, "name")?, text(component, "version")?);
        let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
        ensure!(lock.contains(&entry), "Cargo.lock has no {name} {version}");
    }
    let required = named(&document, "required")?;
    for name in ["pilothouse-sdk", "serde", "serde_json"] {
        ensure!(required.contains(name), "no {name}: {required:?}");
    }
    // They run in the compiler.
    for name in ["syn", "quote", "proc-macro2", "serde_derive"] {
        ensure!(lock.contains(&format!("name = \"{name}\"\n")) && !required.contains(name), "{name}");
    }
    Ok(())
}

/// Writes a crate without code.
fn write_crate(at: &Path, name: &str, more: &str) -> Result<()> {
    fs::create_dir_all(at.join("src"))?;
    fs::write(at.join("src/lib.rs"), "")?;
    let head = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\nlicense = \"MIT\"\n\n"
    );
    Ok(fs::write(at.join("Cargo.toml"), head + more)?)
}

#[test]
fn the_document_has_what_cargo_builds_for_the_component() -> Result<()> {
    // The target is there, then.
    guests::wasm("noop")?;
    let dir = tempfile::Builder::new().prefix("sbom-").tempdir()?;
    let dir = dir.path().canonicalize()?;
    let plugin = dir.join("plugin");
    let of_plugin = r#"
        [workspace]
        resolver = "3"
        [lib]
        crate-type = ["cdylib"]
        [dependencies]
        linked = { path = "../linked" }
        macros = { path = "../macros" }
        [build-dependencies]
        builder = { path = "../builder" }
        [dev-dependencies]
        tester = { path = "../tester" }
        linked = { path = "../linked", features = ["tested"] }
        [target.'cfg(windows)'.dependencies]
        elsewhere = { path = "../elsewhere" }
    "#;
    write_crate(&plugin, "plugin", of_plugin)?;
    let of_linked = r#"
        [features]
        tested = ["dep:optional"]
        [dependencies]
        below = { path = "../below" }
        optional = { path = "../optional", optional = true }
    "#;
    write_crate(&dir.join("linked"), "linked", of_linked)?;
    let of_macros = "[lib]\nproc-macro = true\n[dependencies]\nof-macros = { path = \"../of-macros\" }\n";
    write_crate(&dir.join("macros"), "macros", of_macros)?;
    for name in ["below", "optional", "of-macros", "builder", "tester", "elsewhere"] {
        write_crate(&dir.join(name), name, "")?;
    }
    let (manifest, target) = (plugin.join("Cargo.toml"), dir.join("target"));
    let manifest = manifest.to_str().context("a path in UTF-8")?;
    let built = cargo::build(Build::Guest, &["--manifest-path", manifest, "--target", TARGET], &target)?;

    let document = sbom(&dir, &plugin)?;
    check_document(&document)?;
    let within = target.join(TARGET);
    let libraries = built.files.iter().filter(|file| {
        file.starts_with(&within) && file.extension().is_some_and(|extension| extension == "rlib")
    });
    let names = libraries.filter_map(|file| Some(file.file_stem()?.to_str()?.split('-').next()?.to_owned()));
    let required = named(&document, "required")?;
    let files: BTreeSet<String> =
        required.iter().map(|name| format!("lib{}", name.replace('-', "_"))).collect();
    ensure!(names.collect::<BTreeSet<_>>() == files, "{files:?} {:?}", built.files);
    ensure!(required.iter().eq(["below", "linked"]), "{required:?}");
    ensure!(named(&document, "excluded")?.iter().eq(["macros"]), "{document}");
    Ok(())
}
