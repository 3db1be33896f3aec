//! [`plan`]: computes the plugins from the files of the directory, without file access.
//!
//! Invariant: a component is a plugin of its own only while no manifest may refer to it, including manifests that
//! cannot be read now. Called by [`super::scanner`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::file::{Digest, Role, Tracked, View, role, spell};
use crate::limits::Ceilings;
use crate::manifest::Manifest;

/// The plugin that one file defines: a manifest, or a component without one.
#[derive(Debug)]
pub(super) struct Entry {
    /// The path of the defining file.
    pub(super) head: String,
    /// Name of the plugin; the stem of the file if the name is unknown.
    pub(super) name: String,
    /// The path of the component, whether it exists or not.
    pub(super) component: String,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) enum Outcome {
    /// All files of the plugin can be used.
    Ready { manifest: Arc<Manifest>, manifest_digest: Option<Digest>, digest: Digest },
    /// A file of the plugin cannot be used: the file, reason and remedy.
    Broken { file: String, reason: String },
    /// The component does not exist, so the plugin ends.
    Gone { reason: String },
    /// A file of the plugin has not settled.
    Hold,
}

/// The content of a manifest when it was last readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) name: String,
    pub(super) component: String,
}

type Files = BTreeMap<String, Tracked>;

/// Computes the plugins. `patience` is how long a component without a manifest waits for manifests that are being
/// written, because one of them may refer to it.
pub(super) fn plan(
    files: &Files,
    known: &HashMap<String, Known>,
    now: Instant,
    patience: Duration,
    ceilings: &Ceilings,
) -> Vec<Entry> {
    let manifests = || {
        files.iter().filter_map(|(head, file)| match role(head)? {
            (stem, Role::Manifest) => Some((head, stem, file)),
            (_, Role::Component) => None,
        })
    };
    let claimed: HashSet<String> =
        manifests().map(|(head, stem, file)| names(head, stem, file, known).0.component).collect();
    let manifest_to_come = manifests().any(|(_, _, file)| file.is_restless(now, patience));

    let mut entries: Vec<Entry> = Vec::new();
    let mut guesses: Vec<usize> = Vec::new();
    // Index of the entry with a name. A guessed name claims none, because an error of one plugin must not stop another.
    let mut taken: HashMap<String, usize> = HashMap::new();
    for (head, file) in files {
        let (mut entry, guessed) = match role(head) {
            Some((stem, Role::Manifest)) => {
                let (Known { name, component }, guessed) = names(head, stem, file, known);
                let outcome = with_manifest(head, &component, file, files);
                (Entry { head: head.clone(), name, component, outcome }, guessed)
            }
            Some((stem, Role::Component)) if !claimed.contains(head) => {
                (bare(head, stem, file, manifest_to_come, ceilings), false)
            }
            _ => continue,
        };
        match taken.get(&entry.name).map(|first| &entries[*first]) {
            _ if guessed => guesses.push(entries.len()),
            Some(first) => entry.outcome = second(first, &entry),
            None => {
                taken.insert(entry.name.clone(), entries.len());
            }
        }
        entries.push(entry);
    }
    // An unreadable file must not put its error on a plugin that another file defines. No plugin is named like a file.
    for guess in guesses {
        let entry = &mut entries[guess];
        if taken.contains_key(&entry.name) {
            entry.name.clone_from(&entry.head);
        }
    }
    entries
}

/// The outcome of an entry whose name belongs to another entry.
fn second(first: &Entry, entry: &Entry) -> Outcome {
    // The other entry may have another name once it settles.
    if matches!((&first.outcome, &entry.outcome), (Outcome::Hold, _) | (_, Outcome::Hold)) {
        return Outcome::Hold;
    }
    let reason = format!(
        "the plugin name {:?} is taken by {}, which comes first in the order of file names; \
         set another metadata.name or remove one of the files",
        entry.name, first.head
    );
    Outcome::Broken { file: entry.head.clone(), reason }
}

/// Name and component of a manifest: from its content, from its last readable content, or guessed from the file name.
fn names(head: &str, stem: &str, file: &Tracked, known: &HashMap<String, Known>) -> (Known, bool) {
    let own_component = || format!("{stem}.wasm");
    match file.view() {
        Some(View::Manifest(_, Ok(manifest))) => {
            let component = manifest.source.file.clone().unwrap_or_else(own_component);
            (Known { name: manifest.name.clone(), component }, false)
        }
        _ => match known.get(head) {
            Some(known) => (known.clone(), false),
            None => (Known { name: stem.to_owned(), component: own_component() }, true),
        },
    }
}

fn with_manifest(head: &str, component: &str, file: &Tracked, files: &Files) -> Outcome {
    let broken = |file: &str, reason: String| Outcome::Broken { file: file.to_owned(), reason };
    let (manifest_digest, manifest) = match file.view() {
        None => return Outcome::Hold,
        Some(View::Component(_)) => return broken(head, "it is not a manifest; rename it".into()),
        Some(View::Unusable(reason)) => return broken(head, reason.clone()),
        Some(View::Manifest(_, Err(error))) => return broken(head, error.to_string()),
        Some(View::Manifest(digest, Ok(manifest))) => (digest, manifest),
    };
    let Some(file) = files.get(component) else {
        let reason = format!(
            "its component {component} is not in the directory; copy it there, set spec.source.file or remove the manifest"
        );
        return Outcome::Gone { reason };
    };
    let digest = match file.view() {
        None => return Outcome::Hold,
        Some(View::Component(digest)) => digest,
        Some(View::Manifest(..)) => {
            return broken(head, "its component is a manifest; set spec.source.file".into());
        }
        Some(View::Unusable(reason)) => return broken(component, reason.clone()),
    };
    if let Some(wanted) = &manifest.source.digest
        && *wanted != spell(digest)
    {
        let reason = format!(
            "the digest of {component} is {}, but spec.source.digest demands {wanted}; copy the right component or \
             correct the digest",
            spell(digest)
        );
        return broken(head, reason);
    }
    let manifest = Arc::clone(manifest);
    Outcome::Ready { manifest, manifest_digest: Some(*manifest_digest), digest: *digest }
}

fn bare(head: &str, stem: &str, file: &Tracked, manifest_to_come: bool, ceilings: &Ceilings) -> Entry {
    let manifest = Manifest::bare_within(stem, ceilings);
    let name = manifest.as_ref().map_or_else(|_| stem.to_owned(), |manifest| manifest.name.clone());
    let outcome = match (file.view(), manifest) {
        (None, _) => Outcome::Hold,
        (_, Err(error)) => Outcome::Broken { file: head.to_owned(), reason: error.to_string() },
        (Some(View::Component(_)), _) if manifest_to_come => Outcome::Hold,
        (Some(View::Component(digest)), Ok(manifest)) => {
            Outcome::Ready { manifest: Arc::new(manifest), manifest_digest: None, digest: *digest }
        }
        (Some(View::Unusable(reason)), _) => {
            Outcome::Broken { file: head.to_owned(), reason: reason.clone() }
        }
        (Some(View::Manifest(..)), _) => {
            Outcome::Broken { file: head.to_owned(), reason: "it is not a component; rename it".into() }
        }
    };
    Entry { head: head.to_owned(), name, component: head.to_owned(), outcome }
}
