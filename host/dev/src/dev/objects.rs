//! [`Objects`]: the initial objects of the API server, and what changes in their files afterwards.
//!
//! A changed file is applied as it was at the start: objects are made or brought to what the file says. What is wrong is
//! logged with its file and line, and everything that was there stays; so do the objects of a file that is removed. Called by
//! [`super`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use pilothouse_devserver::{DevServer, Seeded};

use super::log::{Log, Tone, counted};
use super::watch::{Root, Watch};

/// The watched files.
pub(crate) struct Objects {
    watch: Watch,
    log: Log,
}

impl Objects {
    /// Applies the objects of a file or of the files of a folder, and watches them.
    pub(crate) fn start(path: &Path, server: &DevServer, log: &Log) -> Result<Self> {
        // As the log names it below; the watch compares paths as they are.
        let path = path.canonicalize().with_context(|| {
            format!("--objects: {} cannot be read; name a YAML file or a folder of them", path.display())
        })?;
        let root = if path.is_dir() { Root::Objects(path.clone()) } else { Root::File(path.clone()) };
        // Before they are applied: a change in between is applied again.
        let watch = Watch::start(BTreeSet::from([root]), log.clone())?;
        let seeded = server.seed(&path)?;
        let objects = Self { watch, log: log.clone() };
        objects.say(&seeded, &path.display().to_string());
        Ok(objects)
    }

    /// Applies what changes. Cancel-safe.
    pub(crate) async fn run(&mut self, server: &DevServer) {
        loop {
            let changed = self.watch.next().await;
            self.apply(&changed, server);
        }
    }

    fn apply(&self, changed: &[PathBuf], server: &DevServer) {
        let (there, gone): (Vec<PathBuf>, Vec<PathBuf>) =
            changed.iter().cloned().partition(|path| path.is_file());
        for path in gone {
            let text = format!("{} is gone; its objects stay", path.display());
            self.log.say("api", Tone::Quiet, &text);
        }
        if there.is_empty() {
            return;
        }
        let (seeded, faults) = server.seed_files(&there);
        for fault in faults {
            self.log.say("api", Tone::Error, &format!("{fault}; what was there stays"));
        }
        if seeded != Seeded::default() {
            let names: Vec<String> = there.iter().map(|path| path.display().to_string()).collect();
            self.say(&seeded, &names.join(", "));
        }
    }

    fn say(&self, seeded: &Seeded, source: &str) {
        let count = counted(seeded.created + seeded.updated, "object");
        self.log.say("api", Tone::Plain, &format!("{count} of {source}"));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pilothouse_devserver::DevServerOptions;

    use super::*;
    use crate::dev::log::testing::Written;

    const ONE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {a: b}\n";

    #[tokio::test]
    async fn a_changed_file_is_applied_and_a_broken_one_takes_nothing_away() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("one.yaml");
        fs::write(&file, ONE).unwrap();
        let server = DevServer::start(DevServerOptions::default()).await.unwrap();
        let written = Written::default();
        let objects = Objects::start(dir.path(), &server, &written.log()).unwrap();
        let apply = |text: &str| {
            let before = server.revision();
            fs::write(&file, text).unwrap();
            objects.apply(std::slice::from_ref(&file), &server);
            server.revision() - before
        };
        assert_eq!(apply(&ONE.replace("a: b", "a: c")), 1);
        // The second document is refused, the third is taken.
        let refused = "---\n# a note\napiVersion: v1\nkind: Nothing\nmetadata: {name: x}\n---\n";
        assert_eq!(apply(&format!("{}{refused}{}", ONE.replace("b}", "d}"), ONE.replace("one", "two"))), 2);
        assert_eq!(apply("apiVersion: v1\nkind: ConfigMap\n  name: [\n"), 0);
        fs::remove_file(&file).unwrap();
        objects.apply(std::slice::from_ref(&file), &server);

        let log = written.lines().join("\n");
        for expected in
            ["one.yaml, document 2 (line 7): v1 Nothing is not served", "not YAML", "line 3", "is gone"]
        {
            assert!(log.contains(expected), "{expected}: {log}");
        }
    }
}
