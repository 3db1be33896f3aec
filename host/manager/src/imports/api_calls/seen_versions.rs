//! [`SeenVersions`]: the versions of objects that the last calls of a plugin got from the API server, by live reads and by
//! their own writes. A write near the end of a term demands such a version rather than the one of the cache, which may be
//! from before it (`near_end.rs`).
//!
//! Invariants: the newest entry about an object is what its call knows of it; there are at most [`MOST`] entries, of which the
//! oldest goes first, whatever call it is of.

use std::collections::VecDeque;

use parking_lot::Mutex;
use pilothouse_object::{Gvk, ObjectKey};

/// Most entries of a generation, about 30 KiB. More calls than run at once have some.
const MOST: usize = 256;

/// The entries of a generation, for one cluster.
#[derive(Default)]
pub(crate) struct SeenVersions(Mutex<VecDeque<Entry>>);

struct Entry {
    call: u64,
    kind: Gvk,
    /// None: any object of the kind.
    key: Option<ObjectKey>,
    seen: Seen,
}

/// What a call knows of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// It got this version.
    Version(String),
    /// It got more than is kept, or made a write whose version it does not know.
    Unknown,
}

impl SeenVersions {
    /// Notes what a call knows of an object from now on; without a key of all objects of the kind.
    pub(super) fn note(&self, call: u64, kind: &Gvk, key: Option<&ObjectKey>, seen: Seen) {
        // What is no call has no next write.
        if call == 0 {
            return;
        }
        let mut entries = self.0.lock();
        if entries.len() == MOST {
            entries.pop_front();
        }
        entries.push_back(Entry { call, kind: kind.clone(), key: key.cloned(), seen });
    }

    /// What a call knows of an object; none if it neither read nor wrote it.
    pub(super) fn of(&self, call: u64, kind: &Gvk, key: &ObjectKey) -> Option<Seen> {
        // Versions of an API have the same objects.
        let is_same = |other: &Gvk| other.kind == kind.kind && other.group == kind.group;
        let is_about = |entry: &&Entry| {
            entry.call == call && is_same(&entry.kind) && entry.key.as_ref().is_none_or(|other| other == key)
        };
        self.0.lock().iter().rev().find(is_about).map(|entry| entry.seen.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_knows_what_it_saw_last_and_nothing_of_others() {
        let seen = SeenVersions::default();
        let [of_v1, of_v2, other] =
            [("v1", "Pod"), ("v2", "Pod"), ("v1", "Node")].map(|(version, kind)| Gvk::new("", version, kind));
        let [a, b] = ["ns/a", "ns/b"].map(|key| key.parse::<ObjectKey>().unwrap());
        let version = |version: &str| Seen::Version(version.to_owned());
        seen.note(1, &of_v1, Some(&a), version("1"));
        seen.note(1, &of_v1, Some(&a), version("2"));
        seen.note(2, &of_v1, Some(&a), version("3"));
        seen.note(0, &of_v1, Some(&a), version("4"));
        assert_eq!(seen.of(1, &of_v2, &a), Some(version("2")));
        assert_eq!(
            [seen.of(1, &of_v1, &b), seen.of(1, &other, &a), seen.of(0, &of_v1, &a)],
            [None, None, None]
        );
        seen.note(1, &of_v1, None, Seen::Unknown);
        assert_eq!([&a, &b].map(|key| seen.of(1, &of_v1, key)), [Some(Seen::Unknown), Some(Seen::Unknown)]);
        seen.note(1, &of_v1, Some(&b), version("5"));
        assert_eq!(seen.of(1, &of_v1, &b), Some(version("5")));
        for call in 3..1000 {
            seen.note(call, &of_v1, Some(&a), version("6"));
        }
        assert_eq!(seen.0.lock().len(), MOST);
        assert_eq!(seen.of(2, &of_v1, &a), None);
        assert_eq!(seen.of(999, &of_v1, &a), Some(version("6")));
    }
}
