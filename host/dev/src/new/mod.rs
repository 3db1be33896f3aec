//! `pilothouse new`: a folder with a plugin that can be tested, built and run at once, with the SDK that this binary has with
//! it.

mod names;
mod sdk;
mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use pilothouse_object::Gvk;

use self::names::{CustomKind, plugin_name};
use self::template::{Values, render};
use pilothouse_hosting::inspect::resources::Resource;
use pilothouse_hosting::output::{print, yaml_scalar};

const EXAMPLES: &str = "Examples:
  # A plugin that reconciles ConfigMaps
  pilothouse new greeter

  # One for a CustomResourceDefinition of yours
  pilothouse new foo-controller --crd example.org/v1/Foo

  # One that handles events, in a folder of another name
  pilothouse new watcher --world event-handler --dir plugins/watcher";

/// Where the SDK is in the new folder.
const VENDORED: &str = "vendor/pilothouse-sdk";

/// The command `pilothouse new`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct New {
    /// Name of the plugin and of its crate
    #[arg(value_parser = plugin_name)]
    name: String,
    /// What the plugin exports
    #[arg(long, value_enum, default_value_t = WorldName::Reconciler)]
    world: WorldName,
    /// Kind of a CustomResourceDefinition that is made for it, as example.org/v1/Foo [default: no such kind; it watches
    /// ConfigMaps]
    #[arg(long, value_name = "GROUP/VERSION/KIND", value_parser = CustomKind::parse)]
    crd: Option<CustomKind>,
    /// Folder to make; it must not exist, or be empty [default: NAME]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WorldName {
    /// Reconciles one key a call: the usual choice
    Reconciler,
    /// Handles events
    EventHandler,
    /// Handles events, which put keys on its queue, and reconciles them
    Controller,
    /// Reconciles many keys a call
    BatchReconciler,
}

impl WorldName {
    /// The name of the world in the contract, and its template.
    fn parts(self) -> (&'static str, &'static str) {
        match self {
            Self::Reconciler => ("reconciler", include_str!("templates/reconciler.rs")),
            Self::EventHandler => ("event-handler", include_str!("templates/event-handler.rs")),
            Self::Controller => ("controller", include_str!("templates/controller.rs")),
            Self::BatchReconciler => ("batch-reconciler", include_str!("templates/batch-reconciler.rs")),
        }
    }
}

impl New {
    /// Runs the command.
    ///
    /// # Errors
    /// With what went wrong, and what to do about it.
    pub fn main(self) -> Result<()> {
        let folder = self.dir.clone().unwrap_or_else(|| PathBuf::from(&self.name));
        let absolute =
            std::path::absolute(&folder).with_context(|| format!("{}: no such path", folder.display()))?;
        let parent = absolute.parent().context("the root folder cannot be made")?;
        check_absent(&absolute)?;
        fs::create_dir_all(parent)
            .with_context(|| format!("creating {}; name another folder with --dir", parent.display()))?;
        // Made beside its place and moved there, so that it is whole or not there.
        let staging = tempfile::Builder::new().prefix(".pilothouse-new-").tempdir_in(parent);
        let staging = staging.with_context(|| {
            format!("creating a folder in {}; name another folder with --dir", parent.display())
        })?;
        for (path, text) in self.files() {
            write(&staging.path().join(path), &text)?;
        }
        for (path, text) in sdk::FILES {
            write(&staging.path().join(VENDORED).join(path), text)?;
        }
        // An empty one gives way.
        let _ = fs::remove_dir(&absolute);
        // A temporary folder is its owner's alone.
        #[cfg(unix)]
        fs::set_permissions(staging.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        fs::rename(staging.path(), &absolute).with_context(|| format!("creating {}", absolute.display()))?;
        // It was moved away.
        drop(staging.keep());
        let (world, _) = self.world.parts();
        print(&format!(
            "{}: a plugin of the world {world}, with the SDK in {VENDORED}\n\n  cd {}\n  cargo test\n  pilothouse test\n  pilothouse dev\n",
            folder.display(),
            folder.display()
        ))
    }

    /// Path and text of each file but those of the SDK.
    fn files(&self) -> Vec<(String, String)> {
        let (_, source) = self.world.parts();
        let kind = match &self.crd {
            Some(CustomKind { group, version, kind }) => Gvk::new(group, version, kind),
            None => Gvk::new("", "v1", "ConfigMap"),
        };
        let Resource { plural, .. } = Resource::of(&kind);
        let file = self.name.replace('-', "_");
        let mut conditions = BTreeSet::new();
        if self.crd.is_some() {
            conditions.insert("crd");
        }
        // The other worlds have no choice.
        if self.world == WorldName::Controller {
            conditions.insert("handles");
        }
        let values = Values {
            names: BTreeMap::from([
                ("name", self.name.clone()),
                ("crate", file),
                ("group_yaml", yaml_scalar(&kind.group)),
                ("name_yaml", yaml_scalar(&self.name)),
                ("kind_yaml", yaml_scalar(&kind.kind)),
                ("singular_yaml", yaml_scalar(&kind.kind.to_ascii_lowercase())),
                ("group", kind.group),
                ("version", kind.version),
                ("kind", kind.kind),
                ("plural", plural),
            ]),
            conditions,
        };
        let rendered = |path: &str, template: &str| (path.to_owned(), render(template, &values));
        let mut files = vec![
            rendered("Cargo.toml", include_str!("templates/Cargo.toml")),
            // Cargo puts the crate itself in, and takes out what it does not depend on.
            ("Cargo.lock".to_owned(), sdk::LOCK.to_owned()),
            rendered(".gitignore", include_str!("templates/gitignore")),
            rendered("README.md", include_str!("templates/README.md")),
            rendered(&format!("{}.yaml", self.name), include_str!("templates/plugin.yaml")),
            rendered("src/lib.rs", source),
            rendered("src/greet.rs", include_str!("templates/greet.rs")),
            rendered("src/tests.rs", include_str!("templates/tests.rs")),
            rendered("objects/example.yaml", include_str!("templates/object.yaml")),
            rendered("fixtures/greets/case.yaml", include_str!("templates/case.yaml")),
            rendered("fixtures/greets/00-object.yaml", include_str!("templates/object.yaml")),
            rendered("fixtures/greets/00-assert.yaml", include_str!("templates/assert.yaml")),
            rendered("fixtures/greets/00-errors.yaml", include_str!("templates/errors.yaml")),
            (format!("{VENDORED}/VERSION"), version()),
        ];
        if self.crd.is_some() {
            // Before the object in the order of their names.
            files.push(rendered("objects/crd.yaml", include_str!("templates/crd.yaml")));
        }
        files
    }
}

/// Which SDK it is.
fn version() -> String {
    format!("pilothouse {}\nsources {}\n", env!("CARGO_PKG_VERSION"), sdk::STAMP)
}

fn check_absent(folder: &Path) -> Result<()> {
    match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(false) => bail!("{} is not empty: name another folder with --dir", folder.display()),
        Err(error) => bail!("{}: {error}; name another folder with --dir", folder.display()),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use pilothouse_plugin::Manifest;

    use super::*;

    fn new(world: WorldName, crd: Option<&str>) -> New {
        let crd = crd.map(|text| CustomKind::parse(text).unwrap());
        New { name: "my-plugin".to_owned(), world, crd, dir: None }
    }

    #[test]
    fn every_file_of_every_world_is_complete() {
        for world in WorldName::value_variants() {
            for crd in [None, Some("example.org/v1/Policy")] {
                let files = new(*world, crd).files();
                for (path, text) in files.iter().filter(|(path, _)| path != "Cargo.lock") {
                    assert!(!text.contains("%%") && !text.contains("__"), "{path}: {text}");
                    assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{path}: {text}");
                }
                let text = |wanted: &str| &files.iter().find(|(path, _)| path == wanted).unwrap().1;
                let manifest = Manifest::parse(text("my-plugin.yaml").as_bytes()).unwrap();
                assert_eq!(manifest.source.file.as_deref(), Some("my_plugin.wasm"));
                assert_eq!(manifest.permissions.len(), 1 + usize::from(crd.is_some()));
                let kind = if crd.is_some() { "Policy" } else { "ConfigMap" };
                assert!(text("src/tests.rs").contains(&format!("-> {kind} {{")));
                assert_eq!(files.iter().any(|(path, _)| path == "objects/crd.yaml"), crd.is_some());
                if crd.is_some() {
                    assert!(text("objects/crd.yaml").contains("name: policies.example.org"));
                }
            }
        }
    }

    #[test]
    fn names_that_yaml_takes_for_something_else_are_texts() {
        let crd = Some(CustomKind::parse("example.org/v1/On").unwrap());
        let new = New { name: "null".to_owned(), world: WorldName::Reconciler, crd, dir: None };
        let files = new.files();
        let text = |wanted: &str| &files.iter().find(|(path, _)| path == wanted).unwrap().1;
        assert_eq!(Manifest::parse(text("null.yaml").as_bytes()).unwrap().name, "null");
        assert!(text("objects/example.yaml").contains("kind: \"On\"\n"));
        for line in ["kind: \"On\"\n", "singular: \"on\"\n"] {
            assert!(text("objects/crd.yaml").contains(line), "{line}");
        }
    }

    #[test]
    fn the_sdk_is_the_one_of_this_repository() {
        let repository = pilothouse_testkit::paths::repository();
        let mut compared = 0;
        for (path, text) in
            sdk::FILES.iter().filter(|(path, _)| path.ends_with(".rs") || path.ends_with(".wit"))
        {
            assert_eq!(fs::read_to_string(repository.join("guests").join(path)).unwrap(), *text, "{path}");
            compared += 1;
        }
        for path in ["sdk/src/lib.rs", "sdk/wit/worlds.wit", "sdk-macros/Cargo.toml", "LICENSE"] {
            assert!(sdk::FILES.iter().any(|(own, _)| *own == path), "{path}");
        }
        assert!(compared > 30 && sdk::STAMP.len() == 16, "{compared}");
        // Of what tests of the host are made, nothing comes along.
        assert!(
            sdk::FILES.iter().all(|(path, text)| !path.contains("fixtures") && !text.contains("fixtures/*"))
        );
    }
}
