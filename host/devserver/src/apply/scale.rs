//! The managed fields of a `scale` subresource: those of the object that have to do with its replicas, under the name of the
//! field in a Scale; and back.

use std::collections::BTreeMap;

use super::managers::{Entry, Identity, Managers};
use super::path::Element;
use super::set::{Node, Set};

/// The version of a Scale.
const SCALE_VERSION: &str = "autoscaling/v1";
/// The field of a Scale.
const SCALE_PATH: [&str; 2] = ["spec", "replicas"];

/// Where the objects of a kind have their replicas, by version: `None` if a version has no scale.
pub(crate) type ReplicasPaths<'a> = BTreeMap<&'a str, Option<Vec<&'a str>>>;

/// The set of one path.
fn set_of(path: &[&str]) -> Set {
    Set::of_fields(&[path])
}

/// Whether a path is in a set, not only something below it.
fn has(set: &Set, path: &[&str]) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    let node: Option<&Node> = set.get(&Element::field(first));
    node.is_some_and(|node| if rest.is_empty() { node.is_member } else { has(&node.below, rest) })
}

/// The managers of a Scale.
pub(crate) fn to_scale(managers: &Managers, paths: &ReplicasPaths<'_>) -> Managers {
    let entries = managers.entries().iter().filter_map(|entry| {
        let path = paths.get(&*entry.api_version)?.as_deref()?;
        has(&entry.fields, path).then(|| {
            let identity = &entry.identity;
            let identity =
                Identity::new(&identity.manager, identity.operation, SCALE_VERSION, &identity.subresource);
            Entry {
                identity,
                api_version: SCALE_VERSION.into(),
                time: entry.time,
                fields: set_of(&SCALE_PATH),
            }
        })
    });
    Managers::of(entries.collect())
}

/// The managers of the object after its Scale has got these; `version` is the one in which it is written.
///
/// As on a real server: an entry of an update is another in a Scale than in the object, since its version is a part of what
/// tells entries apart; so it comes back as a new one, and without a time.
pub(crate) fn to_parent(
    managers: &Managers,
    scale: &Managers,
    paths: &ReplicasPaths<'_>,
    version: &str,
) -> Managers {
    let mut of_scale: BTreeMap<&Identity, &Entry> =
        scale.entries().iter().map(|entry| (&entry.identity, entry)).collect();
    let mut entries = Vec::new();
    for entry in managers.entries() {
        let Some(path) = paths.get(&*entry.api_version) else { continue };
        let path = path.as_deref().filter(|path| has(&entry.fields, path));
        match path {
            Some(path) if of_scale.remove(&entry.identity).is_none() => {
                let fields = entry.fields.difference(&set_of(path));
                if !fields.is_empty() {
                    entries.push(Entry { fields, ..entry.clone() });
                }
            }
            _ => entries.push(entry.clone()),
        }
    }
    let path = paths.get(version).cloned().flatten().unwrap_or_default();
    for entry in of_scale.into_values().filter(|entry| has(&entry.fields, &SCALE_PATH)) {
        let (identity, fields) = (entry.identity.clone(), set_of(&path));
        entries.push(Entry { identity, api_version: version.into(), time: None, fields });
    }
    Managers::of(entries)
}
