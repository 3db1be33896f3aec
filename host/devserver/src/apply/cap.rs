//! The bound of the number of entries that updates leave: what the oldest own is merged into entries named
//! `ancient-changes`, one a version.

use std::collections::HashMap;
use std::sync::Arc;

use super::managers::{Entry, Identity, Operation};
use super::set::Set;

/// How many entries of updates an object may have.
const MAX_UPDATE_ENTRIES: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// The entry into which those of one version are merged.
struct Bucket {
    identity: Identity,
    /// The oldest entry of the version. It stays as it is if there is a bucket already.
    first: usize,
    /// The bucket that the object has.
    own: Option<usize>,
    /// What is merged into it.
    fields: Vec<Set>,
    /// The entry that was merged last, and gives the time.
    last: Option<usize>,
}

/// Merges the oldest entries of updates until there are ten.
pub(super) fn cap(entries: &mut Vec<Entry>) {
    let is_update = |entry: &Entry| entry.identity.operation == Operation::Update;
    let mut count = entries.iter().filter(|entry| is_update(entry)).count();
    if count <= MAX_UPDATE_ENTRIES {
        return;
    }
    let indices = (0..entries.len()).filter(|index| is_update(&entries[*index]));
    let mut by_age: Vec<_> =
        indices.map(|index| (entries[index].seconds(), entries[index].identity.text(), index)).collect();
    by_age.sort();
    let mut buckets = HashMap::<Arc<str>, Bucket>::new();
    let mut is_merged = vec![false; entries.len()];
    for (_, _, index) in by_age {
        if count <= MAX_UPDATE_ENTRIES {
            break;
        }
        let version = &entries[index].api_version;
        let Some(bucket) = buckets.get_mut(version) else {
            let identity = Identity::new(ANCIENT, Operation::Update, version, "");
            let own = entries.iter().position(|entry| entry.identity == identity);
            let bucket = Bucket { identity, first: index, own, fields: Vec::new(), last: None };
            buckets.insert(version.clone(), bucket);
            continue;
        };
        if bucket.own.is_none() && bucket.fields.is_empty() {
            bucket.fields.push(entries[bucket.first].fields.clone());
            is_merged[bucket.first] = true;
        }
        if bucket.own == Some(index) {
            // As a real server does it: a bucket that is not the oldest of its version is lost when its turn comes.
            bucket.own = None;
            bucket.fields.clear();
        } else {
            bucket.fields.push(entries[index].fields.clone());
        }
        bucket.last = Some(index);
        is_merged[index] = true;
        count -= 1;
    }
    let mut merged = Vec::new();
    for (api_version, mut bucket) in buckets {
        let (Some(last), false) = (bucket.last, bucket.fields.is_empty()) else { continue };
        if let Some(own) = bucket.own {
            bucket.fields.push(entries[own].fields.clone());
            is_merged[own] = true;
        }
        let (identity, time) = (bucket.identity, entries[last].time);
        merged.push(Entry { identity, api_version, time, fields: Set::union_all(bucket.fields) });
    }
    let mut is_merged = is_merged.into_iter();
    entries.retain(|_| !is_merged.next().unwrap_or_default());
    entries.append(&mut merged);
}
