//! [`Installer`]: puts what was built into the plugin directory that the host watches.
//!
//! Invariants: a manifest is there before its component; a file appears whole; one that would not change is not touched, so
//! that nothing is reloaded in vain; a file belongs to one project. At the start the directory is empty: what an earlier run has
//! left may be older than the sources, and must not run before they were looked at. Called by [`super::workshop`].

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};

use super::folder::Folder;
use super::manifests::PluginManifest;

/// Which project a file is of: its place in the list.
pub(crate) type Owner = usize;

/// The plugin directory and whose each file in it is.
pub(crate) struct Installer {
    folder: Arc<Folder>,
    plugins: PathBuf,
    owners: BTreeMap<String, Owner>,
}

impl Installer {
    /// Empties the directory.
    pub(crate) fn new(folder: Arc<Folder>) -> Result<Self> {
        let plugins = folder.plugins();
        let clear = || -> std::io::Result<()> {
            for entry in fs::read_dir(&plugins)? {
                fs::remove_file(entry?.path())?;
            }
            Ok(())
        };
        clear().with_context(|| format!("emptying {}", plugins.display()))?;
        Ok(Self { folder, plugins, owners: BTreeMap::new() })
    }

    /// Installs the manifests of a project, and its component if there is a new one; what it had installed and no longer has
    /// goes, unless `keep`. Answers whether anything changed.
    pub(crate) fn install(
        &mut self,
        owner: Owner,
        manifests: &[PluginManifest],
        component: (&str, Option<&[u8]>),
        keep: bool,
    ) -> Result<bool> {
        let (component, bytes) = component;
        let files = || {
            let manifests = manifests.iter().map(|manifest| (&*manifest.file, Some(&*manifest.content)));
            manifests.chain([(component, bytes)])
        };
        // Nothing is written if anything is refused.
        for (index, (name, _)) in files().enumerate() {
            let taken = self.owners.get(name).is_some_and(|other| *other != owner);
            if taken || files().skip(index + 1).any(|(other, _)| other == name) {
                bail!(
                    "{name} would be installed twice: give the crates, or the plugins of their manifests, other names"
                );
            }
        }
        let mut changed = false;
        for (name, content) in files() {
            let path = self.plugins.join(name);
            if let Some(content) = content
                && fs::read(&path).ok().as_deref() != Some(content)
            {
                self.folder.put(&path, content, 0o644)?;
                changed = true;
            }
            self.owners.insert(name.to_owned(), owner);
        }
        if !keep {
            changed |= self.remove_all_but(owner, &files().map(|(name, _)| name).collect::<Vec<_>>())?;
        }
        Ok(changed)
    }

    fn remove_all_but(&mut self, owner: Owner, wanted: &[&str]) -> Result<bool> {
        let gone = |(name, of): (&String, &Owner)| {
            (*of == owner && !wanted.contains(&name.as_str())).then(|| name.clone())
        };
        let gone: Vec<String> = self.owners.iter().filter_map(gone).collect();
        for name in &gone {
            let path = self.plugins.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("removing {}", path.display()));
                }
                _ => self.owners.remove(name),
            };
        }
        Ok(!gone.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn manifest(plugin: &str, content: &str) -> PluginManifest {
        PluginManifest {
            path: PathBuf::from("/src/p.yaml"),
            plugin: plugin.to_owned(),
            file: format!("{plugin}.yaml"),
            content: content.into(),
        }
    }

    fn installed(dir: &tempfile::TempDir) -> BTreeMap<String, (String, u64)> {
        let entries = fs::read_dir(dir.path().join(".pilothouse/plugins")).unwrap();
        let entry = |path: PathBuf| {
            let inode = fs::metadata(&path).unwrap().ino();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, (fs::read_to_string(&path).unwrap(), inode))
        };
        entries.map(|path| entry(path.unwrap().path())).collect()
    }

    fn contents(dir: &tempfile::TempDir) -> Vec<(String, String)> {
        installed(dir).into_iter().map(|(name, (content, _))| (name, content)).collect()
    }

    fn pair(name: &str, content: &str) -> (String, String) {
        (name.to_owned(), content.to_owned())
    }

    fn installer(dir: &tempfile::TempDir) -> Installer {
        Installer::new(Arc::new(Folder::open(dir.path()).unwrap())).unwrap()
    }

    #[test]
    fn what_an_earlier_run_left_goes() {
        let dir = tempfile::tempdir().unwrap();
        installer(&dir).install(0, &[manifest("a", "1")], ("a.wasm", Some(b"w")), false).unwrap();
        assert_eq!(contents(&dir).len(), 2);
        installer(&dir);
        assert_eq!(contents(&dir), []);
    }

    #[test]
    fn what_does_not_change_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let mut installer = installer(&dir);
        let (one, two) = ([manifest("a", "1")], [manifest("a", "2")]);
        assert!(installer.install(0, &one, ("a.wasm", Some(b"w")), false).unwrap());
        let before = installed(&dir);
        assert!(!installer.install(0, &one, ("a.wasm", Some(b"w")), false).unwrap());
        assert_eq!(installed(&dir), before);
        // The manifest alone.
        assert!(installer.install(0, &two, ("a.wasm", None), false).unwrap());
        let after = installed(&dir);
        assert_eq!(after["a.wasm"], before["a.wasm"]);
        assert_eq!(after["a.yaml"].0, "2");
    }

    #[test]
    fn a_plugin_that_changes_its_name_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let mut installer = installer(&dir);
        installer.install(0, &[manifest("a", "1")], ("g.wasm", Some(b"w")), false).unwrap();
        installer.install(1, &[], ("other.wasm", Some(b"o")), false).unwrap();
        installer.install(0, &[manifest("b", "1")], ("g.wasm", None), false).unwrap();
        assert_eq!(contents(&dir), [pair("b.yaml", "1"), pair("g.wasm", "w"), pair("other.wasm", "o")]);
        // A manifest that cannot be read at the moment.
        assert!(!installer.install(0, &[], ("g.wasm", None), true).unwrap());
        assert_eq!(contents(&dir).len(), 3);
    }

    #[test]
    fn two_projects_do_not_share_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut installer = installer(&dir);
        installer.install(0, &[manifest("a", "1")], ("a.wasm", Some(b"w")), false).unwrap();
        for (manifests, component) in
            [(vec![], "a.wasm"), (vec![manifest("a", "2")], "b.wasm"), (vec![manifest("c", ""); 2], "c.wasm")]
        {
            let error =
                installer.install(1, &manifests, (component, Some(b"o")), false).unwrap_err().to_string();
            assert!(error.contains("would be installed twice"), "{error}");
        }
        assert_eq!(contents(&dir), [pair("a.wasm", "w"), pair("a.yaml", "1")]);
    }
}
