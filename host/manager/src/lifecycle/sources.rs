//! [`Sources`]: which of two sources defines a plugin: the plugin directory, or the Plugins of the cluster.
//!
//! Invariants: a name is the directory's from its first usable files on until they are gone, also while they are broken in
//! between; what the cluster has of it waits until then. Files that were never usable take no name. When a name changes its
//! source, its plugin ends and a new one begins: the operator's permissions, state, keys and generations to roll back to are
//! never those of a tenant, nor the other way round. Pure; called by the manager for each change.

use std::collections::{HashMap, HashSet};

use pilothouse_plugin::directory::Files;

/// What follows when the directory has no files of a name any more.
#[derive(Debug, PartialEq)]
pub(crate) enum AfterFiles {
    /// The plugin ends.
    End,
    /// The plugin ends, and what the cluster has of the name is loaded as a new one.
    Load(Files),
    /// The plugin is the cluster's already.
    Nothing,
}

/// The names that the sources have.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    directory: HashSet<String>,
    /// The newest files of each Plugin that was ever accepted; none for one that was refused from the beginning.
    objects: HashMap<String, Option<Files>>,
}

impl Sources {
    /// The directory has usable files of this name. Whether a plugin of the cluster ends for them.
    pub(crate) fn files_came(&mut self, name: &str) -> bool {
        self.directory.insert(name.to_owned()) && self.objects.contains_key(name)
    }

    /// The directory has no files of this name any more.
    pub(crate) fn files_gone(&mut self, name: &str) -> AfterFiles {
        let had_name = self.directory.remove(name);
        match self.objects.get(name) {
            Some(_) if !had_name => AfterFiles::Nothing,
            Some(Some(files)) => AfterFiles::Load(files.clone()),
            Some(None) | None => AfterFiles::End,
        }
    }

    /// A Plugin of the cluster is new, or another one than before. Returns its files if they are to be loaded.
    pub(crate) fn object_came(&mut self, files: Files) -> Option<Files> {
        self.objects.insert(files.name.clone(), Some(files.clone()));
        (!self.directory.contains(&files.name)).then_some(files)
    }

    /// A Plugin of the cluster was refused; the version before, if there is one, goes on. Whether that concerns the plugin.
    pub(crate) fn object_refused(&mut self, name: &str) -> bool {
        self.objects.entry(name.to_owned()).or_default();
        !self.directory.contains(name)
    }

    /// A Plugin of the cluster is gone. Whether the plugin ends.
    pub(crate) fn object_gone(&mut self, name: &str) -> bool {
        self.objects.remove(name).is_some() && !self.directory.contains(name)
    }

    /// Whether the directory defines the plugin of this name.
    pub(crate) fn is_in_directory(&self, name: &str) -> bool {
        self.directory.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// The files of the plugin `a/p` in one of several versions.
    fn files(version: u8) -> Files {
        Files {
            name: "a/p".to_owned(),
            manifest_digest: version.to_string(),
            ..crate::testing::files(b"", &json!({}))
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        FilesCame,
        FilesGone,
        ObjectCame(u8),
        ObjectRefused,
        ObjectGone,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            Just(Step::FilesCame),
            Just(Step::FilesGone),
            any::<u8>().prop_map(Step::ObjectCame),
            Just(Step::ObjectRefused),
            Just(Step::ObjectGone),
        ];
        proptest::collection::vec(step, 1..20)
    }

    /// What runs, as a manager that follows the answers has it.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Runs {
        Nothing,
        Files,
        Object(u8),
    }

    proptest! {
        #[test]
        fn the_directory_wins_and_else_the_newest_accepted_object_runs(steps in steps()) {
            let mut sources = Sources::default();
            let mut runs = Runs::Nothing;
            // What there is: whether the directory has files, and the newest accepted version of the object.
            let (mut has_files, mut object) = (false, None::<Option<u8>>);
            let version = |files: Files| Runs::Object(files.manifest_digest.parse().unwrap());
            for step in steps {
                match step {
                    Step::FilesCame => {
                        prop_assert_eq!(sources.files_came("a/p"), !has_files && object.is_some());
                        (has_files, runs) = (true, Runs::Files);
                    }
                    Step::FilesGone => {
                        // Also reported of files that were never usable.
                        has_files = false;
                        runs = match sources.files_gone("a/p") {
                            AfterFiles::End => Runs::Nothing,
                            AfterFiles::Load(files) => version(files),
                            AfterFiles::Nothing => runs,
                        };
                    }
                    Step::ObjectCame(number) => {
                        object = Some(Some(number));
                        runs = sources.object_came(files(number)).map_or(runs, version);
                    }
                    Step::ObjectRefused => {
                        object = Some(object.flatten());
                        prop_assert_eq!(sources.object_refused("a/p"), !has_files);
                    }
                    Step::ObjectGone => {
                        object = None;
                        if sources.object_gone("a/p") {
                            runs = Runs::Nothing;
                        }
                    }
                }
                let wanted = match (has_files, object.flatten()) {
                    (true, _) => Runs::Files,
                    (false, Some(newest)) => Runs::Object(newest),
                    (false, None) => Runs::Nothing,
                };
                prop_assert_eq!(runs, wanted);
                prop_assert_eq!(sources.is_in_directory("a/p"), has_files);
            }
        }
    }
}
