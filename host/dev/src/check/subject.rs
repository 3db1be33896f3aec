//! [`Subject`]: the component that is checked, with the manifest and the configuration that a host would give it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use pilothouse_plugin::{Manifest, yaml};
use serde_json::{Map, Value};

use crate::dev::manifests::{Paired, is_yaml};

/// What is checked.
#[derive(Debug)]
pub(crate) struct Subject {
    /// The component.
    pub(crate) path: PathBuf,
    pub(crate) wasm: Vec<u8>,
    /// The file of the manifest; none if there is none.
    pub(crate) manifest_path: Option<PathBuf>,
    /// [`Manifest::bare`] if there is none.
    pub(crate) manifest: Manifest,
    pub(crate) config: Map<String, Value>,
    /// Whether `config` has all that a host would give.
    pub(crate) config_is_whole: bool,
}

impl Subject {
    /// Finds the parts. `file` is a component or a manifest; `config` takes the place of the manifest's configuration.
    pub(crate) fn find(file: &Path, config: Option<&Path>) -> Result<Self> {
        let (path, manifest) = if is_yaml(file) { of_manifest(file)? } else { of_component(file)? };
        let wasm =
            read(&path, "name a component (.wasm), or a manifest (.yaml) with its component beside it")?;
        let manifest_path = manifest.as_ref().map(|(path, _)| path.clone());
        let manifest = match manifest {
            Some((_, manifest)) => manifest,
            None => {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                Manifest::bare(&stem).map_err(|error| anyhow!("{}: {error}", path.display()))?
            }
        };
        let (config, config_is_whole) = match config {
            Some(path) => (read_config(path)?, true),
            None => (manifest.config.clone(), manifest.config_from.is_empty()),
        };
        Ok(Self { path, wasm, manifest_path, manifest, config, config_is_whole })
    }

    /// The file name of the component.
    pub(crate) fn component(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

type WithManifest = (PathBuf, Option<(PathBuf, Manifest)>);

/// The component that a manifest names.
fn of_manifest(file: &Path) -> Result<WithManifest> {
    let text = read(file, "name a component (.wasm) or a manifest (.yaml)")?;
    let manifest = Manifest::parse(&text).map_err(|error| anyhow!("{}: {error}", file.display()))?;
    let component = match &manifest.source.file {
        Some(name) => file.with_file_name(name),
        None => file.with_extension("wasm"),
    };
    if !component.exists() {
        bail!(
            "{}: its component {} does not exist; build it, or set spec.source.file",
            file.display(),
            component.display()
        );
    }
    Ok((component, Some((file.to_owned(), manifest))))
}

/// The manifest beside a component.
fn of_component(file: &Path) -> Result<WithManifest> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let paired = Paired::find(folder, &name);
    match &*paired.manifests {
        // One of those that cannot be read may be its own.
        [] => match paired.broken.first() {
            Some(broken) => bail!("{broken}"),
            None => Ok((file.to_owned(), None)),
        },
        [one] => {
            let manifest =
                Manifest::parse(&one.content).map_err(|error| anyhow!("{}: {error}", one.path.display()))?;
            Ok((file.to_owned(), Some((one.path.clone(), manifest))))
        }
        several => {
            let names: Vec<String> =
                several.iter().map(|manifest| manifest.path.display().to_string()).collect();
            bail!(
                "{} is the component of several manifests: {}; check one of them, as in `pilothouse check {}`",
                file.display(),
                names.join(", "),
                names[0]
            )
        }
    }
}

fn read(path: &Path, remedy: &str) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| anyhow!("{} cannot be read: {error}; {remedy}", path.display()))
}

/// A configuration as `configFrom` reads it from a file: one object in YAML or JSON.
fn read_config(path: &Path) -> Result<Map<String, Value>> {
    let remedy = "--config names a YAML or JSON file with the configuration as one object";
    let text = String::from_utf8(read(path, remedy)?);
    let text = text.with_context(|| format!("{}: it is not UTF-8 text; {remedy}", path.display()))?;
    let read = serde_saphyr::from_str_with_options(&text, yaml::options());
    read.map_err(|error| anyhow!("{}: {error}; {remedy}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            fs::write(dir.path().join(name), content).unwrap();
        }
        dir
    }

    fn manifest(name: &str, spec: &str) -> String {
        format!(
            "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        )
    }

    fn refused(dir: &tempfile::TempDir, file: &str, config: Option<&str>) -> String {
        let config = config.map(|name| dir.path().join(name));
        format!("{:#}", Subject::find(&dir.path().join(file), config.as_deref()).unwrap_err())
    }

    #[test]
    fn the_manifest_is_the_one_beside_the_component_or_the_one_that_is_named() {
        let one = manifest("one", "{source: {file: p.wasm}, config: {a: 1}}");
        let dir = folder(&[("p.wasm", "x"), ("one.yaml", &one), ("config.json", "{\"a\": 2}")]);
        let subject = Subject::find(&dir.path().join("p.wasm"), None).unwrap();
        assert_eq!(subject.manifest.name, "one");
        assert_eq!(Value::Object(subject.config), serde_json::json!({"a": 1}));
        let config = dir.path().join("config.json");
        let subject = Subject::find(&dir.path().join("one.yaml"), Some(&config)).unwrap();
        assert_eq!((subject.component().as_str(), &*subject.wasm), ("p.wasm", &b"x"[..]));
        assert_eq!(Value::Object(subject.config), serde_json::json!({"a": 2}));
        fs::write(dir.path().join("two.yaml"), manifest("two", "{source: {file: p.wasm}}")).unwrap();
        let error = refused(&dir, "p.wasm", None);
        assert!(error.contains("several manifests") && error.contains("one.yaml, "), "{error}");
        Subject::find(&dir.path().join("two.yaml"), None).unwrap();
    }

    #[test]
    fn without_a_manifest_the_name_is_that_of_the_file() {
        let dir = folder(&[("my_plugin.wasm", ""), ("notes.yaml", "a: 1\n")]);
        let subject = Subject::find(&dir.path().join("my_plugin.wasm"), None).unwrap();
        assert_eq!((subject.manifest.name.as_str(), subject.manifest_path), ("my-plugin", None));
    }

    #[test]
    fn what_cannot_be_read_is_named_with_a_remedy() {
        let secret = manifest("p", "{configFrom: [{secretRef: {namespace: a, name: b}}]}");
        let dir = folder(&[
            ("gone.yaml", &manifest("p", "{}")),
            ("p.wasm", ""),
            ("p.yaml", &secret),
            ("bad.yaml", &manifest("p", "{limit: 1}")),
            ("list.yaml", "- a\n"),
        ]);
        assert!(!Subject::find(&dir.path().join("p.yaml"), None).unwrap().config_is_whole);
        for (file, config, wanted) in [
            ("nowhere.wasm", None, "bad.yaml"),
            ("gone.yaml", None, "its component "),
            ("bad.yaml", None, "unknown field"),
            ("p.yaml", Some("list.yaml"), "as one object"),
            ("p.yaml", Some("nowhere.json"), "cannot be read"),
        ] {
            let error = refused(&dir, file, config);
            assert!(error.contains(wanted), "{file}: {error}");
        }
        fs::remove_file(dir.path().join("bad.yaml")).unwrap();
        let error = refused(&dir, "nowhere.wasm", None);
        assert!(error.contains("nowhere.wasm cannot be read: ") && error.contains("(.wasm)"), "{error}");
    }
}
