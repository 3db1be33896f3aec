//! [`Paired`]: which manifests of a folder belong to a component. Called by [`super::projects`] and [`super::workshop`].
//!
//! The rule is that of the plugin directory (docs/manifest.md): a manifest names its component in `spec.source.file`, or has its
//! name with another ending. A YAML file is a manifest if its `apiVersion` is Pilothouse's; others are nobody's business here.

use std::fs;
use std::path::{Path, PathBuf};

use pilothouse_plugin::Manifest;

/// A manifest that is going to be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PluginManifest {
    /// Where it was read.
    pub(crate) path: PathBuf,
    /// The plugin's name.
    pub(crate) plugin: String,
    /// Its name in the plugin directory.
    pub(crate) file: String,
    /// As it is.
    pub(crate) content: Vec<u8>,
}

/// What was found for a component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Paired {
    /// Manifests that name the component.
    pub(crate) manifests: Vec<PluginManifest>,
    /// Manifests that cannot be read, file, reason and remedy.
    pub(crate) broken: Vec<String>,
    /// Manifests of other components, and what they name.
    others: Vec<(PathBuf, String)>,
}

impl Paired {
    /// Looks through a folder for the manifests of `component`, a file name.
    pub(crate) fn find(folder: &Path, component: &str) -> Self {
        let mut paired = Self::default();
        for path in yaml_files(folder) {
            let content = match fs::read(&path) {
                Ok(content) => content,
                // Gone since it was listed.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => {
                    paired.broken.push(format!("{}: {error}; make it readable", path.display()));
                    continue;
                }
            };
            if !is_plugin(&content) {
                continue;
            }
            let manifest = match Manifest::parse(&content) {
                Ok(manifest) => manifest,
                Err(error) => {
                    paired.broken.push(format!("{}: {error}", path.display()));
                    continue;
                }
            };
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let stem = name.rsplit_once('.').map_or(&*name, |(stem, _)| stem);
            let named = manifest.source.file.clone().unwrap_or_else(|| format!("{stem}.wasm"));
            if named != component {
                paired.others.push((path, named));
                continue;
            }
            // Two crates may call their manifests alike; without `source.file` the name says what the component is.
            let file = if manifest.source.file.is_some() { format!("{}.yaml", manifest.name) } else { name };
            paired.manifests.push(PluginManifest { path, plugin: manifest.name, file, content });
        }
        paired
    }

    /// Why the component is not to be run with what was found, for one that a crate builds: there the manifests can be meant for
    /// nothing else.
    pub(crate) fn misnamed(&self, component: &str) -> Option<String> {
        let (path, named) = self.others.first().filter(|_| self.manifests.is_empty())?;
        Some(format!(
            "{}: its component is {named}, but cargo writes {component}: write `file: {component}` under spec.source",
            path.display()
        ))
    }
}

/// Files that may be manifests, in the order of their names.
fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| is_yaml(path)).collect();
    files.sort();
    files
}

/// Whether a file's name is one that a manifest may have.
pub(crate) fn is_yaml(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml")
}

/// Whether a YAML text is meant as a manifest, be it right or not: it has a line like `apiVersion: pilothouse.dev/…`.
fn is_plugin(content: &[u8]) -> bool {
    String::from_utf8_lossy(content).lines().any(|line| {
        let line = line.trim_start_matches([' ', '{', '"', '\'', '\u{feff}']);
        line.starts_with("apiVersion") && line.contains("pilothouse.dev/")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, spec: &str) -> String {
        format!(
            "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        )
    }

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            fs::write(dir.path().join(name), content).unwrap();
        }
        dir
    }

    fn files(paired: &Paired) -> Vec<(&str, &str)> {
        paired.manifests.iter().map(|manifest| (&*manifest.plugin, &*manifest.file)).collect()
    }

    #[test]
    fn a_manifest_belongs_to_the_component_it_names() {
        let named = manifest("one", "{source: {file: my_guest.wasm}}");
        let by_stem = manifest("two", "{}");
        let other = manifest("three", "{source: {file: other.wasm}}");
        let dir = folder(&[("plugin.yaml", &named), ("my_guest.yml", &by_stem), ("other.yaml", &other)]);
        let paired = Paired::find(dir.path(), "my_guest.wasm");
        assert_eq!(files(&paired), [("two", "my_guest.yml"), ("one", "one.yaml")]);
        assert_eq!((paired.broken.len(), paired.misnamed("my_guest.wasm")), (0, None));
    }

    #[test]
    fn other_yaml_is_nobodys_business() {
        let dir = folder(&[
            ("pods.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {annotations: {pilothouse.dev/x: y}}\n"),
            ("broken.yaml", "a: [\n"),
            (".plugin.yaml.swp", &manifest("x", "{}")),
            ("notes.txt", &manifest("x", "{}")),
        ]);
        assert_eq!(Paired::find(dir.path(), "g.wasm"), Paired::default());
        assert_eq!(Paired::find(&dir.path().join("nowhere"), "g.wasm"), Paired::default());
    }

    #[test]
    fn a_manifest_that_cannot_be_read_is_told_of() {
        let dir = folder(&[("g.yaml", &manifest("one", "{limit: {}}"))]);
        let paired = Paired::find(dir.path(), "g.wasm");
        assert_eq!(paired.manifests, []);
        assert!(
            paired.broken[0].contains("g.yaml: line 4") && paired.broken[0].contains("limit"),
            "{paired:?}"
        );
    }

    #[test]
    fn the_name_that_cargo_gives_is_told() {
        let dir = folder(&[("my-guest.yaml", &manifest("my-guest", "{}"))]);
        let why = Paired::find(dir.path(), "my_guest.wasm").misnamed("my_guest.wasm").unwrap();
        assert!(why.contains("`file: my_guest.wasm`") && why.contains("my-guest.wasm"), "{why}");
    }
}
